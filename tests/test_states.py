"""State files: what is written is read; what is damaged, foreign or made up is refused by name."""

import io
import json
import multiprocessing
import os
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from bayesrank import _process, _states
from bayesrank._states import read_state, write_state
from bayesrank.datasets import QueryLists
from bayesrank.estimators import ConeRank
from bayesrank.models import thurstone
from bayesrank.online import WidrowHoff
from bayesrank.solvers.collaborative import EM, EMState

read = partial(read_state, owner="a test", classes=(dict, list))


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _raw(header: str, data: bytes = b"") -> bytes:
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, raw in members.items():
            archive.writestr(f"{name}.npy", raw)


def _claims(path: Path, shape: str) -> None:
    """An array of this shape, by its header; the file has some 300 bytes."""
    _archive(path, {"a": _raw(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}")})


def _twice(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "w") as archive:
        for _ in range(2):
            archive.writestr("a.npy", _npy(np.zeros(3)))


def _overlapping(path: Path) -> None:
    """Many members that are the same bytes of the file."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", _npy(np.zeros(100_000)))
        for k in range(50):
            copy = zipfile.ZipInfo.__new__(zipfile.ZipInfo)
            for slot in zipfile.ZipInfo.__slots__:
                if hasattr(archive.filelist[0], slot):
                    setattr(copy, slot, getattr(archive.filelist[0], slot))
            copy.filename = f"b{k}.npy"
            archive.filelist.append(copy)


def _headed(path: Path, header: Any, sign: bool = True, **arrays: Any) -> None:
    """A file with this header, and a checksum that is right."""
    if sign:
        header = {"bayesrank": "Test", "format": 4, "version": _states.__version__, **header}
        header["checksum"] = _states._checksum(header, arrays)
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    members = {"header": np.frombuffer(text, np.uint8), **arrays}
    _archive(path, {name: _npy(array) for name, array in members.items()})


def _nodes(path: Path, *nodes: list[Any], **arrays: Any) -> None:
    _headed(path, {"nodes": nodes, "root": [len(nodes) - 1]}, **arrays)


def test_what_is_written_is_read(tmp_path):
    shared = np.arange(6.0).reshape(2, 3).T
    lists = QueryLists(("a", "b"), np.arange(3), np.array([0, 2]), np.array([2, 1]))
    state = {
        "nothing": None,
        "names": ("tea", 3, 2.5, True, np.str_("milk"), "\ud800", float("inf"), ("a", 1)),
        "numbers": [np.float32(0.5), np.int64(7), []],
        "tables": {"a": shared, ("again", 1): shared, "none": np.zeros((0, 4))},
        "objects": np.array([["x", None], [(1, 2), 0.5]], object),
        "sparse": sparse.csr_array(([2.0], ([1], [2])), shape=(3, 4)),
        "program": thurstone,
        "lists": lists,
        "generator": np.random.default_rng(0),
    }  # fmt: skip
    write_state(tmp_path / "s", state, "Test")
    found = read(tmp_path / "s")
    tables = found["tables"]
    np.testing.assert_array_equal(tables["a"], shared)
    assert tables["again", 1] is tables["a"] and tables["none"].shape == (0, 4)
    np.testing.assert_array_equal(found["sparse"].toarray(), state["sparse"].toarray())
    assert found["objects"].tolist() == state["objects"].tolist()
    assert found["names"] == state["names"] and found["nothing"] is found["generator"] is None
    assert found["numbers"] == [0.5, 7, []] and found["numbers"][0].dtype == np.float32
    assert found["program"] is thurstone and type(found["lists"]) is QueryLists
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")


class Foreign(NamedTuple):
    number: int


def test_what_a_file_cannot_keep_is_refused_by_its_place(tmp_path):
    circle: list[Any] = []
    circle.append(circle)
    for value, message in (
        ({1, 2}, "a.b holds a set, which a file cannot keep"),
        (Foreign(1), "a.b holds a Foreign"),
        (len, "a.b holds a builtin_function_or_method"),
        (np.sum, "a.b holds a "),
        (partial(thurstone, 3), "a.b holds a partial"),
        (circle, "a.b holds itself"),
        (read_state, "a.b holds a function"),
        (np.zeros(2, "V8"), "a.b has dtype"),
    ):
        with pytest.raises(ValueError, match=message):
            write_state(tmp_path / "s", {"a": {"b": value}}, "Test")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b""), "it is not a complete .npz file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: _claims(path, "(10**12,)"), "."),
        (lambda path: _claims(path, "(1000000000000,)"), "."),
        (lambda path: _claims(path, "(1000000, 0)"), "'a' claims to be larger than the file"),
        (_twice, "it holds 'a' twice"),
        (_overlapping, "it claims to be larger than the file"),
        (lambda path: _archive(path, {"a": _npy(np.zeros(9**5))}, zipfile.ZIP_DEFLATED), "larger"),
        (lambda path: _archive(path, {"a": b"no array"}), "the magic string is not correct"),
        (lambda path: _archive(path, {"a": _raw("{'descr': 0L, (")}), "."),
        (lambda path: _archive(path, {"a": _raw('{"""')}), "."),
        (lambda path: _archive(path, {"a": b"\x93NUMPY\x09\x00"}), "only|unknown format|version"),
        (lambda path: _archive(path, {"a": _npy(np.zeros(3))[:-1]}), "."),
        (lambda path: _archive(path, {"a": _npy(np.zeros(3)) + b"0"}), "longer than its shape"),
        (lambda path: _archive(path, {"a": _npy(np.array([{}]))}), "allow_pickle"),
        (lambda path: _archive(path, {"a": _npy(1.0)}), "it has no header"),
        (lambda path: _headed(path, b"\xff", sign=False), "can't decode"),
        (lambda path: _headed(path, b"[" * 100_000, sign=False), "recursion"),
        (lambda path: _headed(path, b"7", sign=False), "another format .*fit again"),
        (lambda path: _headed(path, {"format": 3}), "another format .*fit again"),
        (lambda path: _headed(path, {"format": 4, "checksum": "0"}, sign=False), "has changed"),
        (lambda path: _headed(path, {"version": "0.0.1"}), "bayesrank 0.0.1 wrote it.* fit again"),
        (lambda path: _nodes(path, ["pickle", "x"]), "a 'pickle'"),
        (lambda path: _nodes(path, ["list", [0]]), "list index"),
        (lambda path: _nodes(path, ["list", [-1]]), "not there"),
        (lambda path: _nodes(path, ["array", "a"]), "'a'"),
        (lambda path: _nodes(path, ["number", "O", 3]), "a number of dtype O"),
    ],
)  # fmt: skip
def test_what_is_no_state_is_refused_and_named(tmp_path, make, reason):
    path = tmp_path / "s"
    make(path)
    with pytest.raises(ValueError, match=rf"s is not a state .* by a test \(.*({reason})"):
        read(path)


@pytest.mark.parametrize(
    "name",
    [
        "os:system", "builtins:eval", "subprocess:Popen", "numpy:load",
        "bayesrank._files:published", "bayesrank.cli.app:main", "bayesrank.__main__:main",
        "bayesrank.active:Journal", "bayesrank.models.comparisons:np.load",
        "bayesrank.estimators.ranker:Ranker.load", "bayesrank.estimators.ranker:np",
        "bayesrank.infer.ep:EP.__init__", "bayesrank.infer:ConvergenceWarning",
        "bayesrank.infer.result:AccuracyWarning", "bayesrank.nowhere:X", "tinygp.kernels:jax",
        "tinygp:GaussianProcess", "bayesrank.datasets:load_nfl",
    ],
)  # fmt: skip
def test_a_file_names_classes_and_programs_of_the_package_alone(tmp_path, name):
    for node in (["code", name], ["of", name, [0]]):
        _nodes(tmp_path / "s", ["dict"], node)
        with pytest.raises(ValueError, match=r"s is not a state .*\(.*(names|module|attribute)"):
            read_state(tmp_path / "s", "a test", (object,))


def test_what_a_file_makes_is_bounded_by_its_size(tmp_path):
    """A reference costs nothing; a copy counts, and all copies count together."""
    data, path = np.zeros(30_000), tmp_path / "s"
    _nodes(path, ["array", "a"], ["list", *([[0]] * 10_000)], a=data)
    many = read(path)
    assert len(many) == 10_000 and many[0] is many[-1]
    starts = np.array([0, len(data)])
    places = np.arange(len(data))
    arrays = [["array", name] for name in "abc"] + [["tuple", 1, len(data)]]
    copies = [["csr", [0], [1], [2], [3]]] * 1000
    _nodes(path, *arrays, *copies, a=data, b=places, c=starts)
    with pytest.raises(ValueError, match="s is not a state .*claims to be larger than the file"):
        read(path)
    arrays = [["array", "a"], ["list", "a"], ["list", *range(len(data))], ["list", [0]]]
    _nodes(path, *arrays, *([["frame", [1], [2], [3]]] * 1000), a=data)
    with pytest.raises(ValueError, match="s is not a state .*claims to be larger than the file"):
        read(path)


def test_symmetric_arrays_take_half_the_room_and_come_back_bit_for_bit(tmp_path):
    path = tmp_path / "s.npz"
    draws = np.random.default_rng(0).normal(size=(3, 60, 50))
    covariance = draws.swapaxes(1, 2) @ draws
    covariance = covariance + covariance.swapaxes(1, 2)
    write_state(path, [covariance, draws[:, :50]], "Test")
    for found, told in zip(read(path), (covariance, draws[:, :50]), strict=True):
        assert found.tobytes() == told.tobytes()
    assert path.stat().st_size < 0.52 * covariance.nbytes + draws[:, :50].nbytes + 2000
    _nodes(path, ["symmetric", "a", 50], a=np.zeros((3, 51)))
    with pytest.raises(ValueError, match="a symmetric array of side 50 has 51 numbers"):
        read(path)


def test_places_of_a_sparse_array_can_be(tmp_path):
    for indices, starts in (
        ([0.0, 1.0], [0, 1, 2]), ([0, 1], [0, 2, 0]), ([0, 9], [0, 1, 2]), ([0, 1], [0, 1, 9]),
    ):  # fmt: skip
        nodes = [["array", name] for name in "abc"] + [["tuple", 2, 2], ["csr", [0], [1], [2], [3]]]
        _nodes(tmp_path / "s", *nodes, a=np.ones(2), b=np.array(indices), c=np.array(starts))
        with pytest.raises(ValueError, match="s is not a state "):
            read_state(tmp_path / "s", "a test", (object,))


# ---------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    X, y = np.eye(4), [1.0, 2.0, 3.0, 4.0]
    path = tmp_path_factory.mktemp("states") / "cone.npz"
    ConeRank(num_atoms=2).fit(X, y, ["a"] * 4).save(path)
    return path


def _changes(saved: Path, path: Path, count: int) -> int:
    """Change bytes of a file `count` times; return the number of refusals."""
    raw, rng, refused = saved.read_bytes(), np.random.default_rng(0), 0
    told = ConeRank.load(saved).predict(np.eye(4))
    for number in range(count):
        changed = bytearray(raw)
        for place in rng.integers(len(raw), size=1 + number % 3):
            changed[place] = rng.integers(256)
        path.write_bytes(changed[: rng.integers(len(raw))] if number % 7 == 0 else changed)
        try:
            found = ConeRank.load(path).predict(np.eye(4))
        except ValueError as error:
            assert f"{path} is not a state that was saved by a ConeRank" in str(error)
            assert "\n" not in str(error)
            refused += 1
        else:  # what changed was no content: a date, say
            np.testing.assert_array_equal(found, told)
    return refused


def test_changed_bytes_are_refused_or_mean_nothing(saved, tmp_path):
    assert _changes(saved, tmp_path / "s", 100) > 50


@pytest.mark.slow
def test_many_changed_bytes_are_refused_or_mean_nothing(saved, tmp_path):
    assert _changes(saved, tmp_path / "s", 3000) > 1500


def test_made_up_states_with_a_right_checksum_are_refused_by_name_or_made(saved, tmp_path):
    """Nobody but the writer can say whether numbers are right; nothing else happens than that."""
    wrong = (None, True, 0, -1, 10**40, "x", [0], [-1], [10**6], [[]], {}, [None])
    path, rng, ends = tmp_path / "s", np.random.default_rng(0), {"refused": 0, "made": 0}
    with np.load(saved) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    for _ in range(300):
        nodes = json.loads(json.dumps(header["nodes"]))
        node: Any = nodes[rng.integers(len(nodes))]
        part = rng.integers(len(node))
        if isinstance(node[part], list) and len(node[part]) == 2:
            node, part = node[part], 1  # the value of a name
        node[part] = wrong[rng.integers(len(wrong))]
        _headed(path, {"nodes": nodes, "root": header["root"]}, **arrays)
        try:
            assert type(ConeRank.load(path)) is ConeRank
            ends["made"] += 1
        except ValueError as error:
            assert str(path) in str(error)
            ends["refused"] += 1
    assert min(ends.values()) > 20


@pytest.mark.slow
def test_parts_that_a_class_does_not_have_are_refused(tmp_path):
    users, items = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]
    with pytest.warns(Warning, match="EM has not converged"):
        result = EM("gaussian", max_iterations=1).run(
            users, items, [0.0, 1.0, 0.0, 1.0, 1.0, 0.0], progress_bar=False
        )
    result.state.save(tmp_path / "em.npz")
    again = EMState.load(tmp_path / "em.npz")
    for one, other in zip(again, result.state, strict=True):
        np.testing.assert_array_equal(one, other)
    with np.load(tmp_path / "em.npz") as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    [state] = [node for node in header["nodes"] if node[0] == "dict"]
    state.pop()
    _headed(tmp_path / "em.npz", {k: header[k] for k in ("nodes", "root")}, **arrays)
    with pytest.raises(ValueError, match="saved by EM .its EMState has other parts .* fit again"):
        EMState.load(tmp_path / "em.npz")


def test_a_state_of_another_class_is_refused_by_both_names(saved):
    with pytest.raises(ValueError, match="by a WidrowHoff .it is of the class ConeRank.; load it"):
        WidrowHoff.load(saved)


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX")
def test_a_disk_that_is_full_leaves_the_file_that_was_there(saved, tmp_path):
    import resource

    path, model = tmp_path / "s", ConeRank.load(saved)
    model.save(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large: '.*s'"):
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    ConeRank.load(path).save(path)


def _load(path: Path) -> None:
    try:
        ConeRank.load(path)
    except RuntimeError as error:
        raise SystemExit(0 if "was forked after its parent" in str(error) else 1) from None
    raise SystemExit(2)


@pytest.mark.filterwarnings("ignore:.*fork:")
def test_a_forked_child_is_refused_for_what_it_is(saved):
    _process.enter_jax()
    child = multiprocessing.get_context("fork").Process(target=_load, args=(saved,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
