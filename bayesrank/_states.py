"""States of rankers and learners in files: checked before use, whole or refused.

A file is an uncompressed ``.npz`` archive. Its first member, ``header``, is JSON: kind of state,
format, version, a checksum of the content, and the state as a tree. The tree's arrays are the other
members. Nothing is pickled. A reader checks what a file claims to hold before it makes room: no
array, and no length of one, may be larger than the file itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank._files import published
from bayesrank._version import __version__

T = TypeVar("T")

_FORMAT = 3
_DEEPEST = 32  # levels of a tree
_LEAST_SYMMETRIC = 16  # smaller symmetric arrays are written whole
_HEADER = "header"
# What zipfile, NumPy and the owners of states raise for files that are damaged or of another kind.
_UNREADABLE = (
    OSError, ValueError, LookupError, EOFError, RuntimeError, MemoryError, ArithmeticError,
    SyntaxError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_state(path: str | Path, kind: str, state: Mapping[str, Any]) -> None:
    """Write named values to a file, at once or not at all; `kind` is the name of their class."""
    arrays: dict[str, NDArray[Any]] = {}
    header: dict[str, Any] = {"bayesrank": kind, "format": _FORMAT, "version": __version__}
    header["state"] = _encoded(state, arrays)
    header["checksum"] = _checksum(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_arrays(path, {_HEADER: text, **arrays})


def read_state(
    path: str | Path, owner: str, restore: Mapping[str, Callable[[dict[str, Any]], T]]
) -> T:
    """Read a file of `write_state`, and return what `restore` makes of its kind.

    `owner` says whose states these are, for the `ValueError` of a file that is damaged or refused.
    """
    arrays = read_arrays(path, owner)
    try:
        kind, state = _opened(arrays)
        if kind not in restore:
            raise ValueError(f"it is of the class {kind}")
        return restore[kind](state)
    except _UNREADABLE as error:
        raise no_state(path, owner, _reason(error)) from None


def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name to a file, at once or not at all, and force them to the disk."""
    values = {name: np.asarray(value) for name, value in arrays.items()}
    with published(path) as file:
        np.savez(file, allow_pickle=False, **values)


def read_arrays(path: str | Path, owner: str) -> dict[str, NDArray[Any]]:
    """Read a file of `write_arrays`, of finite numbers; errors as for `read_state`."""
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is not a complete .npz file")
            room = os.fstat(file.fileno()).st_size
            arrays: dict[str, NDArray[Any]] = {}
            with zipfile.ZipFile(file) as archive:
                for member in archive.infolist():
                    name = member.filename.removesuffix(".npy")
                    if name in arrays:
                        raise ValueError(f"it holds {name!r} twice")
                    arrays[name] = _array(archive, member, name, room)
            return arrays
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        raise no_state(path, owner, _reason(error)) from None


def no_state(path: str | Path, owner: str, reason: str) -> ValueError:
    """What to raise where a file holds no whole state."""
    return ValueError(
        f"{path} is not a state that was saved by {owner} ({reason}); pass a file that save wrote"
    )


def check_axes(
    arrays: Mapping[str, Any],
    axes: Mapping[str, str],
    sizes: dict[str, int] | None = None,
    kinds: str = "f",
) -> dict[str, int]:
    """Refuse arrays of another shape or kind; letters of `axes` are lengths, which are returned."""
    sizes = {} if sizes is None else sizes
    for name, letters in axes.items():
        if (array := arrays.get(name)) is None:
            continue
        shape, kind = np.shape(array), np.asarray(array).dtype.kind
        fits = len(shape) == len(letters) and kind in kinds
        if not fits or any(
            sizes.setdefault(a, n) != n for a, n in zip(letters, shape, strict=True)
        ):
            raise ValueError(f"its array {name!r} has another shape or kind: {shape}, {kind!r}")
    return sizes


def check_covariances(arrays: Mapping[str, Any], *names: str) -> None:
    """Refuse all but covariances, (..., n, n): not symmetric, variances below 0; None passes."""
    for name in names:
        if (covariance := arrays.get(name)) is None:
            continue
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        if not (variance > 0.0).all():
            raise ValueError(f"its array {name!r} has a variance that is not positive")
        sd = np.sqrt(variance)
        most = sd[..., :, None] * sd[..., None, :]
        across = np.swapaxes(covariance, -2, -1)
        if (abs(covariance - across) > 1e-6 * most).any() or (abs(covariance) > 1.001 * most).any():
            raise ValueError(f"its array {name!r} is not a covariance")


def _reason(error: BaseException) -> str:
    """One line of what is wrong."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    return text[:200] or type(error).__name__  # zipfile quotes bytes of the file


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, room: int) -> NDArray[Any]:
    """One array of an archive whose file has `room` bytes."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > room:
        raise ValueError(f"{name!r} claims to be larger than the file")
    raw = io.BytesIO(archive.read(member))  # all of it, so that its checksum is looked at
    version = np.lib.format.read_magic(raw)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read_header:
        raise ValueError(f"{name!r} is in an unknown format")
    shape, _, dtype = read_header[version](raw)
    count = 1
    for length in shape:
        count *= length
    if dtype.hasobject or count * dtype.itemsize != member.file_size - raw.tell():
        raise ValueError(f"{name!r} claims a shape that it does not have")
    if max(shape, default=0) > room:  # of an array without numbers
        raise ValueError(f"{name!r} claims to be larger than the file")
    raw.seek(0)
    array = np.lib.format.read_array(raw, allow_pickle=False)
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"{name!r} holds something other than real numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name!r} holds what is not a finite number")
    return array


def _encoded(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """A tree that JSON can hold, with its arrays put aside."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _encoded(each, arrays) for name, each in value.items()}}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encoded(each, arrays) for each in value]}
    if sparse.issparse(value):
        rows: Any = sparse.csr_array(value)
        parts = (*rows.shape, rows.data, rows.indices, rows.indptr)
        return {"csr": [_encoded(part, arrays) for part in parts]}
    array = np.asarray(value) if hasattr(value, "__array__") else None
    if array is None or array.dtype.hasobject:
        raise ValueError(
            f"a {type(value).__name__} cannot be written: {value!r}; names and options have to be "
            "text, numbers or arrays"
        )
    name, n = str(len(arrays)), array.shape[-1] if array.ndim > 1 else 0
    if n >= _LEAST_SYMMETRIC and np.array_equal(array, np.swapaxes(array, -2, -1)):
        arrays[name] = array[..., *np.tril_indices(n)]
        return {"symmetric": [name, n]}
    arrays[name] = array
    return {"array": name}


def _decoded(tree: Any, arrays: Mapping[str, NDArray[Any]], depth: int = 0) -> Any:
    """Undo `_encoded`."""
    if not isinstance(tree, dict):
        return tree
    [(kind, value)] = tree.items()
    kinds = ("array", "symmetric", "csr", "dict", "list", "tuple")
    if depth > _DEEPEST or kind not in kinds:
        raise ValueError(f"its header has a {kind!r} in depth {depth}")
    if kind == "array":
        return arrays[value]
    if kind == "symmetric":
        return _symmetric(arrays[value[0]], value[1])
    if kind == "dict":
        return {name: _decoded(each, arrays, depth + 1) for name, each in value.items()}
    values: Any = [_decoded(each, arrays, depth + 1) for each in value]
    if kind == "csr":
        rows, columns, *parts = values
        return _sparse(rows, columns, parts, sum(array.nbytes for array in arrays.values()))
    return values if kind == "list" else tuple(values)


def _symmetric(triangle: NDArray[Any], n: int) -> NDArray[Any]:
    """Symmetric arrays (..., n, n) of their lower triangles, a row of numbers each."""
    if triangle.shape[-1] != n * (n + 1) // 2:
        raise ValueError(f"a symmetric array of side {n} has {triangle.shape[-1]} numbers")
    array = np.empty((*triangle.shape[:-1], n, n), triangle.dtype)
    rows, columns = np.tril_indices(n)
    array[..., rows, columns] = triangle
    array[..., columns, rows] = triangle
    return array


def _sparse(rows: int, columns: int, parts: Sequence[Any], room: int) -> Any:
    """A sparse array of its data, indices and indptr, in a file of `room` bytes."""
    if max(rows, columns) > room:
        raise ValueError("a sparse array claims to be larger than the file")
    if any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise ValueError("a sparse array has indices that are not whole numbers")
    ends = parts[2]
    if (ends[1:] < ends[:-1]).any():  # SciPy does not look at them where the last is 0
        raise ValueError("a sparse array has rows that end before they begin")
    found: Any = sparse.csr_array(tuple(parts), shape=(rows, columns))
    found.check_format(full_check=True)
    return found


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Checksum of all that is in a file but itself."""
    content = {name: value for name, value in header.items() if name != "checksum"}
    digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        numbers: Any = array.reshape(-1).view(np.uint8)
        digest.update(numbers)
    return digest.hexdigest()


def _opened(arrays: dict[str, NDArray[Any]]) -> tuple[str, dict[str, Any]]:
    """Kind and state in the arrays of a file."""
    if _HEADER not in arrays:
        raise ValueError("it has no header")
    header = json.loads(arrays.pop(_HEADER).tobytes().decode())
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    if "bayesrank" not in header or header.get("format") != _FORMAT:
        raise ValueError("it has another format than this version writes; fit again")
    if header["checksum"] != _checksum(header, arrays):
        raise ValueError("its content has changed since it was written")
    return str(header["bayesrank"]), _decoded(header["state"], arrays)
