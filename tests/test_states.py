"""State files of all rooms: what is damaged, foreign or made up is refused, naming the file."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest

from bayesrank._states import read_arrays, write_arrays
from bayesrank.online import OnlineBayesPoint, WidrowHoff
from bayesrank.solvers.collaborative import EMState

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "n": np.int64(3), "name": np.array("probit")}


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, raw in members.items():
            archive.writestr(f"{name}.npy", raw)


def _terabytes(path):
    """An array of 8 TB, by its header; the file has 200 bytes."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header + b"\n"
    _archive(path, {"a": raw})


def test_what_is_written_is_read(tmp_path):
    write_arrays(tmp_path / "s", ARRAYS)
    found = read_arrays(tmp_path / "s", "a test")
    assert found.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(found[name], value)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none", "a test")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b""), "it is no whole .npz file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: write_arrays(path, {"a": [1.0, np.nan]}), "'a' holds what is not a finite"),
        (lambda path: write_arrays(path, {"a": [-np.inf]}), "'a' holds what is not a finite"),
        (_terabytes, "'a' claims a shape that it does not have"),
        (lambda path: _archive(path, {"a": _npy(np.zeros(9**5))}, zipfile.ZIP_DEFLATED), "larger"),
        (lambda path: _archive(path, {"a": b"no array"}), "the magic string is not correct"),
        (lambda path: _archive(path, {"a": b"\x93NUMPY\x09\x00"}), "only|another way|version"),
        (lambda path: _archive(path, {"a": _npy(np.zeros(3))[:-1]}), "claims a shape"),
        (lambda path: _archive(path, {"a": _npy(np.array([{}]))}), "claims a shape"),
    ],
)
def test_what_is_no_state_is_refused_and_named(tmp_path, make, reason):
    path = tmp_path / "s"
    make(path)
    with pytest.raises(ValueError, match=rf"s is not a state .* by a test \(.*({reason})"):
        read_arrays(path, "a test")


def test_files_cut_or_changed_at_any_byte_are_refused_or_the_same(tmp_path):
    write_arrays(tmp_path / "s", ARRAYS)
    raw = (tmp_path / "s").read_bytes()
    for cut in range(0, len(raw), 7):
        (tmp_path / "s").write_bytes(raw[:cut])
        with pytest.raises(ValueError, match="s is not a state"):
            read_arrays(tmp_path / "s", "a test")
    rng, refused = np.random.default_rng(0), 0
    for place in rng.integers(len(raw), size=300):
        changed = bytearray(raw)
        changed[place] ^= 1 << rng.integers(8)
        (tmp_path / "s").write_bytes(changed)
        try:
            found = read_arrays(tmp_path / "s", "a test")
        except ValueError as error:
            assert f"{tmp_path / 's'} is not a state that was saved by a test" in str(error)
            refused += 1
        else:  # what changed was no number: a date, or a name of an array
            for name in found.keys() & ARRAYS.keys():
                np.testing.assert_array_equal(found[name], ARRAYS[name])
    assert refused > 150


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "state.npz"
    WidrowHoff(3).partial_fit([[0.5, 1.0], [1.0, 0.0]], [1, 3]).save(path)
    return path


def _with_header(path, **changes):
    arrays = read_arrays(path, "a test")
    header = json.loads(arrays["header"].tobytes()) | changes
    header = {name: value for name, value in header.items() if value is not ...}
    write_arrays(path, arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})


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
def test_headers_of_online_learners(saved, changes, reason):
    _with_header(saved, **changes)
    with pytest.raises(
        ValueError, match=rf"state.npz is not a state .* online ranker \(.*{reason}"
    ):
        WidrowHoff(3).load(saved)


def test_values_of_online_learners(saved):
    arrays = read_arrays(saved, "a test")
    name = next(name for name, value in arrays.items() if value.dtype.kind == "f" and value.size)
    for value in (np.nan, np.inf):
        arrays[name] = np.full_like(arrays[name], value)
        write_arrays(saved, arrays)
        with pytest.raises(ValueError, match=rf"state.npz is not .* \('{name}' holds what is not"):
            WidrowHoff(3).load(saved)
    for header in (b"\xff", b"[" * 100_000, b"7"):
        write_arrays(saved, arrays | {name: 0.0, "header": np.frombuffer(header, np.uint8)})
        with pytest.raises(ValueError, match="state.npz is not a state"):
            WidrowHoff(3).load(saved)
    write_arrays(saved, {"a": 1.0})
    with pytest.raises(ValueError, match="it has no header"):
        WidrowHoff(3).load(saved)


def test_features_that_there_is_no_room_for(saved, monkeypatch):
    def too_many(self, num_features):
        raise MemoryError

    monkeypatch.setattr(OnlineBayesPoint, "_init_state", too_many)
    _with_header(saved, learner=OnlineBayesPoint(3)._signature())
    with pytest.raises(ValueError, match="state.npz is not a state .* features are too many"):
        OnlineBayesPoint(3).load(saved)


def test_states_of_em(tmp_path):
    path = tmp_path / "em.npz"
    write_arrays(path, {name: 1.0 for name in EMState._fields if name != "tau"})
    with pytest.raises(ValueError, match=r"em.npz is not a state .* by EM \(it lacks tau\)"):
        EMState.load(path)
    write_arrays(path, {name: np.inf for name in EMState._fields})
    with pytest.raises(ValueError, match="em.npz is not a state .* by EM .*not a finite"):
        EMState.load(path)
    _terabytes(path)
    with pytest.raises(ValueError, match="em.npz is not a state .* by EM .*claims a shape"):
        EMState.load(path)
