"""State files of all rooms: what is damaged, foreign or made up is refused, naming the file."""

import io
import json
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from test_saved_states import FILES, STATES, plain

from bayesrank._states import (
    _sparse,
    check_axes,
    check_covariances,
    read_arrays,
    read_state,
    write_arrays,
    write_state,
)
from bayesrank.estimators import (
    ArenaRanker,
    LabelRanker,
    LinkLearn,
    OrderRanker,
    PairwiseRanker,
    load_ranker,
)
from bayesrank.online import OAPBPM, OnlineBayesPoint, WidrowHoff
from bayesrank.solvers.collaborative import EMState
from benchmarks.tamper import _KINDS, tamper_with

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "n": np.int64(3), "name": np.array("probit")}
read = partial(read_state, owner="a test", restore={"Test": dict})

# One file of each format of version 0.1, what loads it, and what shows that it is the same.
KINDS: dict[str, tuple[Any, Any]] = {
    "graph": (PairwiseRanker.load, lambda it: it.predict()),
    "low_rank": (load_ranker, lambda it: it.predict()),
    "orders": (OrderRanker.load, lambda it: it.predict()),
    "arena_averaged": (load_ranker, lambda it: it.predict()),
    "arena_learned": (ArenaRanker.load, lambda it: it.predict()),
    "labels_rbf": (LabelRanker.load, lambda it: it.posterior_),
    "links": (LinkLearn.load, lambda it: [it.index_.postings.toarray(), *it.collection_]),
    "OAPBPM": (lambda path: OAPBPM(3, 5, 0.5, 3).load(path), lambda it: it.state_),
    "em": (EMState.load, lambda it: it[:-2]),
}
each_kind = pytest.mark.parametrize("name", KINDS)


class Pair(NamedTuple):
    first: int
    second: str


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, raw in members.items():
            archive.writestr(f"{name}.npy", raw)


def _claims(path, shape):
    """An array of this shape, by its header; the file has some 300 bytes."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117)
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"\n"
    _archive(path, {"a": raw})


def _twice(path):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "w") as archive:
        for _ in range(2):
            archive.writestr("a.npy", _npy(np.zeros(3)))


def test_what_is_written_is_read(tmp_path):
    state = {
        "nothing": None,
        "names": ("tea", 3, 2.5, True, np.str_("milk"), "\ud800"),
        "numbers": [np.float32(0.5), np.int64(7), []],
        "pair": Pair(1, "x"),
        "table": {"a": np.arange(6.0).reshape(2, 3).T, "none": np.zeros((0, 4)), "0": np.array(1)},
        "sparse": sparse.csr_array(([2.0], ([1], [2])), shape=(3, 4)),
    }  # fmt: skip
    write_state(tmp_path / "s", "Test", state)
    found = read(tmp_path / "s")
    np.testing.assert_array_equal(found["table"].pop("a"), state["table"].pop("a"))
    assert found["table"]["none"].shape == (0, 4) and found["table"]["0"].shape == ()
    np.testing.assert_array_equal(found["sparse"].toarray(), state["sparse"].toarray())
    assert found["pair"] == {"first": 1, "second": "x"} and found["names"] == state["names"]
    assert found["numbers"] == [0.5, 7, []] and found["nothing"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
    for value in ({1, 2}, {1: 2}, np.array([{}])):
        with pytest.raises(ValueError, match="cannot be written: .* have to be text, numbers"):
            write_state(tmp_path / "s", "Test", {"a": value})
    with pytest.raises(ValueError, match=r"s is not a state .* a test \(it is of the class Other"):
        write_state(tmp_path / "s", "Other", {})
        read(tmp_path / "s")


def _headed(path, header, **arrays):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    write_arrays(path, {"header": np.frombuffer(text, np.uint8), **arrays})


def test_symmetric_arrays_take_half_the_room_and_come_back_bit_for_bit(tmp_path):
    path = tmp_path / "s.npz"
    draws = np.random.default_rng(0).normal(size=(3, 60, 50))
    covariance = draws.swapaxes(1, 2) @ draws
    covariance = covariance + covariance.swapaxes(1, 2)
    write_state(path, "Test", {"covariance": covariance, "draws": draws[:, :50]})
    found = read(path)
    for name, array in (("covariance", covariance), ("draws", draws[:, :50])):
        assert found[name].tobytes() == array.tobytes()
    assert path.stat().st_size < 0.52 * covariance.nbytes + draws[:, :50].nbytes + 2000
    kept = read_arrays(path, "a test")
    write_arrays(path, kept | {"0": kept["0"][:, 1:]})
    with pytest.raises(ValueError, match="its content has changed"):
        read(path)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b""), "it is not a complete .npz file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: write_arrays(path, {"a": [1.0, np.nan]}), "'a' holds what is not a finite"),
        (lambda path: write_arrays(path, {"a": [-np.inf]}), "'a' holds what is not a finite"),
        (lambda path: _claims(path, (10**12,)), "'a' claims a shape that it does not have"),
        (lambda path: _claims(path, (10**6, 0)), "'a' claims to be larger than the file"),
        (_twice, "it holds 'a' twice"),
        (lambda path: _archive(path, {"a": _npy(np.zeros(9**5))}, zipfile.ZIP_DEFLATED), "larger"),
        (lambda path: _archive(path, {"a": b"no array"}), "the magic string is not correct"),
        (lambda path: _archive(path, {"a": b"\x93NUMPY\x09\x00"}), "only|unknown format|version"),
        (lambda path: _archive(path, {"a": _npy(np.zeros(3))[:-1]}), "claims a shape"),
        (lambda path: _archive(path, {"a": _npy(np.array([{}]))}), "claims a shape"),
        (lambda path: write_arrays(path, {"a": 1.0}), "it has no header"),
        (lambda path: _headed(path, b"\xff"), "can't decode"),
        (lambda path: _headed(path, b"[" * 100_000), "recursion"),
        (lambda path: _headed(path, b"7"), "its header is not a JSON object"),
        (lambda path: _headed(path, {"bayesrank": "Test"}), "'format'"),
        (
            lambda path: _headed(path, {"bayesrank": "Test", "format": 4}),
            "its format is 4, but this version reads 3",
        ),
        (
            lambda path: _headed(path, {"format": 9}),
            "its format is 9, but this version reads 1 and 3",
        ),
        (
            lambda path: _headed(path, {"bayesrank": "Test", "format": 3, "checksum": "0"}),
            "its content has changed",
        ),
    ],
)
def test_what_is_no_state_is_refused_and_named(tmp_path, make, reason):
    path = tmp_path / "s"
    make(path)
    with pytest.raises(ValueError, match=rf"s is not a state .* by a test \(.*({reason})"):
        read(path)


def test_trees_of_version_0_1_are_not_deep_and_have_no_lengths_that_the_file_has_not(tmp_path):
    tree: Any = 1
    for _ in range(100):
        tree = {"tuple": [tree]}
    parts = {"sparse": {"tuple": [{"array": name} for name in "abc"]}}
    huge = {"csr": [10**9, 10**9, *({"array": name} for name in "abc")]}
    for state, reason in (
        (tree, "in depth 33"),
        (huge, "larger than the file"),
        ({"x": 1}, "'x'"),
        (parts, "'array'"),
    ):
        arrays = {"a": np.ones(1), "b": np.zeros(1, int), "c": np.zeros(2, int)}
        _headed(tmp_path / "s", {"format": 1, "class": "Test", "ranker": state}, **arrays)
        with pytest.raises(ValueError, match=f"s is not a state .*{reason}"):
            read(tmp_path / "s")


def test_arrays_that_cannot_be_what_they_are_said_to_be():
    arrays = {"mean": np.zeros(2), "spread": np.eye(2), "none": None}
    assert check_axes(arrays, {"mean": "n", "spread": "nn", "other": "q"}) == {"n": 2}
    check_covariances(arrays, "spread", "none")
    for axes, kinds in (({"mean": "nn"}, "f"), ({"mean": "n", "spread": "nm"}, "iu")):
        with pytest.raises(ValueError, match="its array 'mean' has another shape or kind"):
            check_axes(arrays, axes, kinds=kinds)
    lopsided = np.array([[1.0, 0.3], [0.0, 1.0]])
    for changed in (-np.eye(2), np.zeros((2, 2)), lopsided, np.eye(2) + 2 * np.eye(2)[::-1]):
        with pytest.raises(ValueError, match="its array 'spread' (is not a covariance|.*positive)"):
            check_covariances({"spread": changed}, "spread")


def _same(found, told):
    for one, other in zip(found, told, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def _mutations(name: str, count: int, path: Path) -> int:
    """Change bytes of a file of this kind, in both formats, `count` times; return refusals."""
    load, answer = KINDS[name]
    whole = load(STATES / f"{name}.npz")
    told = answer(whole)
    rng, refused = np.random.default_rng(0), 0
    whole.save(path)
    _same(answer(load(path)), told)
    for raw in ((STATES / f"{name}.npz").read_bytes(), path.read_bytes()):
        for number in range(count // 2):
            changed = bytearray(raw)
            for place in rng.integers(len(raw), size=1 + number % 3):
                changed[place] = rng.integers(256)
            path.write_bytes(changed[: rng.integers(len(raw))] if number % 7 == 0 else changed)
            try:
                found = answer(load(path))
            except ValueError as error:
                assert f"{path} is not a state that was saved by" in str(error)
                assert "\n" not in str(error)
                refused += 1
            else:  # what changed was no number: a date, say
                _same(found, told)
    return refused


@each_kind
def test_changed_bytes_are_refused_or_mean_nothing(name, tmp_path):
    assert _mutations(name, 20, tmp_path / "s") > 10


@pytest.mark.slow
@each_kind
def test_many_changed_bytes_are_refused_or_mean_nothing(name, tmp_path):
    assert _mutations(name, 500, tmp_path / "s") > 250


@each_kind
def test_values_that_were_changed_are_refused(name, tmp_path):
    """By the checksum in files of now; in those of version 0.1 by what they can be."""
    load, _ = KINDS[name]
    path = tmp_path / "s"
    load(STATES / f"{name}.npz").save(path)
    kept = read_arrays(path, "a test")
    for array in kept:
        if kept[array].size and array != "header":
            changed = kept[array].copy()
            changed.flat[-1] += 1
            write_arrays(path, kept | {array: changed})
            with pytest.raises(ValueError, match="s is not a state .*its content has changed"):
                load(path)
    kept = read_arrays(STATES / f"{name}.npz", "a test")
    for array, value in kept.items():
        square = value.ndim > 1 and value.shape[-1] == value.shape[-2] and value.dtype.kind == "f"
        if square and np.allclose(value, np.swapaxes(value, -1, -2)):
            for changed in (-value, value[..., :1], value + np.tri(value.shape[-1])):
                write_arrays(path, kept | {array: changed})
                with pytest.raises(ValueError, match="s is not a state that was saved by"):
                    load(path)


@pytest.mark.slow
def test_the_kind_is_in_the_file(tmp_path):
    for name in ("pairs", "orders", "arena_learned"):
        load_ranker(STATES / f"{name}.npz").save(tmp_path / f"{name}.npz")
        again, told = (plain(FILES[name](path / f"{name}.npz")) for path in (tmp_path, STATES))
        assert again == told
    with pytest.raises(ValueError, match=r"by a PairwiseRanker \(it is of the class OrderRanker\)"):
        PairwiseRanker.load(tmp_path / "orders.npz")
    with pytest.raises(ValueError, match="labels_rbf.npz .* by a ranker .*class LabelRanker"):
        load_ranker(STATES / "labels_rbf.npz")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_features": ...}, "lacks num_features"),
        ({"learner": ..., "notes": ...}, "lacks learner, notes"),
        ({"num_features": 10**12}, "speaks of 1000000000000 features"),
        ({"num_features": True}, "speaks of True features"),
        ({"num_features": -1}, "speaks of -1 features"),
        ({"feature_names": ["one"]}, "names other features"),
        ({"feature_names": 7}, "names other features"),
    ],
)
def test_headers_of_online_learners(changes, reason, tmp_path):
    arrays = read_arrays(STATES / "WidrowHoff.npz", "a test")
    header = json.loads(arrays.pop("header").tobytes()) | changes
    state = {name: value for name, value in header.items() if value is not ...}
    _headed(tmp_path / "old.npz", state, **arrays)
    write_state(tmp_path / "new.npz", "OnlineLearner", state | {"arrays": arrays})
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match=rf"{path.name} is not .* online ranker \(.*{reason}"):
            WidrowHoff(3, 0.05).load(path)


def test_features_that_there_is_no_room_for(monkeypatch):
    def too_many(self, num_features):
        raise MemoryError

    monkeypatch.setattr(OnlineBayesPoint, "_init_state", too_many)
    with pytest.raises(ValueError, match="OnlineBayesPoint.npz is not a state .*features are too"):
        OnlineBayesPoint(3, noise=(0.1, 0.5)).load(STATES / "OnlineBayesPoint.npz")


def test_states_of_em(tmp_path):
    path = tmp_path / "em.npz"
    whole = read_arrays(STATES / "em.npz", "a test")
    for changes, reason in (
        ({"tau": None}, "it lacks tau"),
        ({"tau": np.full(12, np.inf)}, "not a finite"),
        ({"tau": np.zeros(3)}, "'nu' has another shape"),
        ({"scales": -whole["scales"]}, "'scales' has numbers that are not positive"),
    ):
        fields = {k: v for k, v in (whole | changes).items() if v is not None}
        write_arrays(path, fields)
        with pytest.raises(ValueError, match=rf"em.npz is not a state .* by EM .*{reason}"):
            EMState.load(path)


@pytest.mark.parametrize("name", ["arena_learned", "arena_averaged"])
def test_a_damaged_file_of_an_arena_ranker_is_said_to_be_one(name, tmp_path):
    path = tmp_path / "r.npz"
    ArenaRanker.load(STATES / f"{name}.npz").save(path)
    for source, array, cut in ((STATES / f"{name}.npz", "3", -1), (path, "header", -20)):
        kept = read_arrays(source, "a test")
        write_arrays(path, kept | {array: kept[array][:cut]})
        with pytest.raises(ValueError, match=r"r.npz is not a state .* by an ArenaRanker \("):
            ArenaRanker.load(path)
        ArenaRanker.load(STATES / f"{name}.npz").save(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
def test_changed_values_with_a_checksum_made_good_are_refused_or_answer(kind):
    assert tamper_with(kind, 60)["refused"] > 20


def test_places_of_a_sparse_array_are_whole_numbers():
    parts = [np.ones(2), np.array([0.0, 1.0]), np.array([0, 1, 2])]
    with pytest.raises(ValueError, match="indices that are not whole numbers"):
        _sparse(2, 2, parts, 999)
    parts[1] = parts[1].astype(int)
    np.testing.assert_array_equal(_sparse(2, 2, parts, 999).toarray(), np.eye(2))
    with pytest.raises(ValueError, match="rows that end before they begin"):
        _sparse(2, 2, [*parts[:2], np.array([0, 2, 0])], 999)


def test_a_judge_whose_reliability_overflows_is_refused(tmp_path):
    ranker = ArenaRanker.load(STATES / "arena_learned.npz")
    ranker.result_ = ranker.result_._replace(log_reliability=np.array([0.0, 1e3]))
    ranker.save(tmp_path / "state.npz")
    with pytest.raises(ValueError, match="state.npz .*a judge's reliability is not finite"):
        ArenaRanker.load(tmp_path / "state.npz")
