"""State files of all rooms: what is damaged, foreign or made up is refused, naming the file."""

import io
import json
import struct
import zipfile
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from bayesrank._states import (
    _checksum,
    _sparse,
    check_axes,
    check_covariances,
    read_arrays,
    read_state,
    write_arrays,
    write_state,
)

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "n": np.int64(3), "name": np.array("probit")}
read = partial(read_state, owner="a test", restore={"Test": dict})


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
        (lambda path: _headed(path, {"bayesrank": "Test"}), "it has another format .*fit again"),
        (
            lambda path: _headed(path, {"bayesrank": "Test", "format": 4}),
            "it has another format .*; fit again",
        ),
        (
            lambda path: _headed(path, {"format": 1, "ranker": {}}),
            "it has another format .*; fit again",
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


def test_trees_are_not_deep_and_have_no_lengths_that_the_file_has_not(tmp_path):
    tree: Any = 1
    for _ in range(100):
        tree = {"tuple": [tree]}
    huge = {"csr": [10**9, 10**9, *({"array": name} for name in "abc")]}
    for state, reason in ((tree, "in depth 33"), (huge, "larger than the file"), ({"x": 1}, "'x'")):
        arrays = {"a": np.ones(1), "b": np.zeros(1, int), "c": np.zeros(2, int)}
        header = {"bayesrank": "Test", "format": 3, "state": state}
        _headed(tmp_path / "s", header | {"checksum": _checksum(header, arrays)}, **arrays)
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


def test_places_of_a_sparse_array_are_whole_numbers():
    parts = [np.ones(2), np.array([0.0, 1.0]), np.array([0, 1, 2])]
    with pytest.raises(ValueError, match="indices that are not whole numbers"):
        _sparse(2, 2, parts, 999)
    parts[1] = parts[1].astype(int)
    np.testing.assert_array_equal(_sparse(2, 2, parts, 999).toarray(), np.eye(2))
    with pytest.raises(ValueError, match="rows that end before they begin"):
        _sparse(2, 2, [*parts[:2], np.array([0, 2, 0])], 999)
