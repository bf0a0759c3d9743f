"""States in files: any object made of this package's classes, without pickled code.

A file is an uncompressed ``.npz`` archive. Its member ``header`` is JSON: the class, the format,
the version, a checksum, and the state as a list of nodes. A node names only nodes before it, so
nothing is deep or circular, and what several nodes name is decoded once. The other members are the
arrays.

A reader makes classes of this package and of tinygp's kernels without calling their constructors,
and looks up functions in `bayesrank.models` alone. It runs no other code that a file names. What it
makes room for is bounded by the size of the file.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank._files import published
from bayesrank._process import refuse_forked_child
from bayesrank._version import __version__

_FORMAT = 4
_HEADER = "header"
_LEAST_SYMMETRIC = 16  # smaller symmetric arrays are written whole
_COPIES = 8  # bytes that may be made of each byte of a file
_CLASSES = (
    "datasets", "distributions", "estimators", "gp", "infer", "models", "online", "ranking",
    "retrieval", "solvers",
)  # fmt: skip
_KINDS = (
    "nothing", "number", "dict", "list", "tuple", "array", "objects", "csr", "frame", "key", "code",
    "of", "symmetric",
)  # fmt: skip
_KERNELS, _PROGRAMS = "tinygp.kernels", "bayesrank.models"
# What zipfile, NumPy and the classes raise for files that are damaged or of another kind.
_UNDECODABLE = (
    ValueError, LookupError, MemoryError, ArithmeticError, TypeError, AttributeError, ImportError,
)  # fmt: skip
_UNREADABLE = (
    *_UNDECODABLE, OSError, EOFError, RuntimeError, SyntaxError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_state(path: str | Path, state: Any, kind: str) -> None:
    """Write an object to a file, whole or not at all, after making sure that it can be read.

    Raises
    ------
    ValueError
        If part of it is neither of this package nor plain data; the message names the part.
    """
    writer = _Writer()
    header: dict[str, Any] = {"bayesrank": kind, "format": _FORMAT, "version": __version__}
    header["root"] = writer.reference(state, "")
    header["nodes"] = writer.nodes
    header["checksum"] = _checksum(header, writer.arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    raw = io.BytesIO()
    np.savez(raw, allow_pickle=False, **{_HEADER: text, **writer.arrays})
    try:
        _opened(raw, raw.getbuffer().nbytes)
    except _Unreadable as error:
        raise ValueError(f"{kind} cannot be written so that it can be read ({error})") from error
    with published(path) as file:
        file.write(raw.getbuffer())


def read_state(path: str | Path, owner: str, classes: tuple[type, ...]) -> Any:
    """Read the object of a file of `write_state`, which has to be of one of `classes`.

    Raises
    ------
    ValueError
        If the file is damaged, of another format or of another class; `owner` says whose states
        these are.
    FileNotFoundError
        If there is no file.
    """
    refuse_forked_child()
    try:
        with open(path, "rb") as file:
            state = _opened(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise
    except (OSError, _Unreadable) as error:
        raise ValueError(
            f"{path} is not a state that was saved by {owner} ({_reason(error)}); pass a file that "
            "save wrote"
        ) from None
    if not isinstance(state, classes):
        raise ValueError(
            f"{path} is not a state that was saved by {owner} (it is of the class "
            f"{type(state).__name__}); load it by that class"
        )
    return state


def state_bytes(state: Any) -> int:
    """Bytes that the arrays of an object take in its file."""
    writer = _Writer()
    writer.reference(state, "")
    return sum(array.nbytes for array in writer.arrays.values())


class _Unreadable(Exception):
    """A file holds no whole state; the message is one line."""


def _reason(error: BaseException) -> str:
    """One line of what is wrong."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    return text[:200] or type(error).__name__  # zipfile quotes bytes of the file


def _opened(file: Any, room: int) -> Any:
    """The state in an open file of `room` bytes."""
    try:
        arrays = _read_arrays(file, room)
        if _HEADER not in arrays:
            raise ValueError("it has no header")
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        _check_header(header, arrays)
    except _UNREADABLE as error:
        raise _Unreadable(_reason(error)) from error
    try:
        return _Decoder(arrays, _COPIES * room).read(header["nodes"], header["root"])
    except _UNDECODABLE as error:
        raise _Unreadable(_reason(error)) from error


def _read_arrays(file: Any, room: int) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, which may claim no more than `room` bytes together."""
    if not zipfile.is_zipfile(file):
        raise ValueError("it is not a complete .npz file")
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > room:
            raise ValueError("it claims to be larger than the file")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {name!r} twice")
            raw = io.BytesIO(archive.read(member))  # all of it, so that its checksum is looked at
            arrays[name] = np.lib.format.read_array(raw, allow_pickle=False)
            if raw.read(1):
                raise ValueError(f"{name!r} is longer than its shape says")
            if max(arrays[name].shape, default=0) > room:  # of an array without numbers
                raise ValueError(f"{name!r} claims to be larger than the file")
    return arrays


def _check_header(header: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError("it has another format than this version reads; fit again")
    if header["checksum"] != _checksum(header, arrays):
        raise ValueError("its content has changed since it was written")
    if header["version"] != __version__:
        raise ValueError(
            f"bayesrank {header['version']} wrote it, and this is {__version__}; fit again"
        )


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


class _Writer:
    """Turns objects into nodes: ``[kind, *parts]``, where ``[k]`` is the node of number k."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self._numbers: dict[int, int | None] = {}
        self._kept: list[Any] = []  # what has a number lives on, so that no other gets its id

    def reference(self, value: Any, where: str) -> Any:
        """A plain value as it is, and anything else as the node that stands for it."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) not in self._numbers:
            self._numbers[id(value)] = None
            self._kept.append(value)
            self.nodes.append(self._node(value, where))
            self._numbers[id(value)] = len(self.nodes) - 1
        if self._numbers[id(value)] is None:
            raise ValueError(f"{where} holds itself, which a file cannot keep")
        return [self._numbers[id(value)]]

    def _node(self, given: Any, where: str) -> list[Any]:
        if isinstance(given, np.random.RandomState | np.random.Generator):
            return ["nothing"]
        if isinstance(given, np.generic) and given.dtype.kind in "biufU":
            return ["number", given.dtype.str, given.item()]
        value: Any = given  # of whatever class
        if type(value) is dict:
            pairs = ((self.reference(k, where), k, v) for k, v in value.items())
            return ["dict", *([key, self.reference(v, _at(where, k))] for key, k, v in pairs)]
        if type(value) in (list, tuple):
            return [type(value).__name__, *(self.reference(each, where) for each in value)]
        if sparse.issparse(value):
            rows: Any = sparse.csr_array(value)
            parts = (rows.data, rows.indices, rows.indptr, rows.shape)
            return ["csr", *(self.reference(part, where) for part in parts)]
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(value, pandas.DataFrame):
            columns = [value.iloc[:, k].to_numpy() for k in range(value.shape[1])]
            parts = (value.columns.tolist(), value.index.tolist(), columns)
            return ["frame", *(self.reference(part, where) for part in parts)]
        if hasattr(value, "__array__") and hasattr(value, "dtype"):
            return self._array(value, where)
        of = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
        name = f"{of.__module__}:{of.__qualname__}"
        if not _is_ours(name, of):
            raise ValueError(
                f"{where or 'the state'} holds a {type(value).__name__}, which a file cannot keep: "
                f"{value!r:.200}; pass text, numbers, arrays or pandas tables"
            )
        if of is value:
            return ["code", name]
        return ["of", name, self.reference(_state_of(value), where)]

    def _array(self, value: Any, where: str) -> list[Any]:
        jax = sys.modules.get("jax")
        if jax is not None and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return ["key", self.reference(np.asarray(jax.random.key_data(value)), where)]
        array = np.asarray(value)
        if array.dtype.kind == "O":
            cells = (self.reference(each, where) for each in array.ravel())
            return ["objects", list(array.shape), *cells]
        if array.dtype.kind not in "biufcUSmM":
            raise ValueError(f"{where} has dtype {array.dtype}, which a file cannot keep")
        name, n = str(len(self.arrays)), array.shape[-1] if array.ndim > 1 else 0
        if n >= _LEAST_SYMMETRIC and np.array_equal(array, np.swapaxes(array, -2, -1)):
            self.arrays[name] = array[..., *np.tril_indices(n)]
            return ["symmetric", name, n]
        self.arrays[name] = array
        return ["array", name]


class _Decoder:
    """Turns nodes into objects, which may take `room` bytes beside the arrays of the file."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], room: int) -> None:
        self.arrays, self.room = arrays, room
        self._made: list[Any] = []

    def read(self, nodes: list[list[Any]], root: Any) -> Any:
        """Make the objects of all nodes in their order, and return the one that is the root."""
        for kind, *parts in nodes:
            if kind not in _KINDS:
                raise ValueError(f"its header has a {kind!r}")
            self._made.append(getattr(self, f"_{kind}")(*parts))
        return self._at(root)

    def _at(self, reference: Any) -> Any:
        if not isinstance(reference, list):
            return reference
        [number] = reference
        if number < 0:
            raise ValueError("its header names a node that is not there")
        return self._made[number]

    def _charged(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise ValueError("it claims to be larger than the file")

    def _nothing(self) -> None:
        return None

    def _number(self, dtype: str, value: Any) -> Any:
        if np.dtype(dtype).kind not in "biufU":
            raise ValueError(f"its header has a number of dtype {dtype}")
        return np.dtype(dtype).type(value)

    def _array(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def _symmetric(self, name: str, n: int) -> NDArray[Any]:
        """Symmetric arrays (..., n, n) of their lower triangles, a row of numbers each."""
        triangle = self.arrays[name]
        if triangle.shape[-1] != n * (n + 1) // 2:
            raise ValueError(f"a symmetric array of side {n} has {triangle.shape[-1]} numbers")
        self._charged(2 * triangle.nbytes)
        array = np.empty((*triangle.shape[:-1], n, n), triangle.dtype)
        rows, columns = np.tril_indices(n)
        array[..., rows, columns] = triangle
        array[..., columns, rows] = triangle
        return array

    def _objects(self, shape: list[int], *cells: Any) -> NDArray[Any]:
        array = np.empty(len(cells), object)
        for k, cell in enumerate(cells):
            array[k] = self._at(cell)
        return array.reshape(shape)

    def _key(self, data: Any) -> Any:
        import jax

        self._charged(self._at(data).nbytes)
        return jax.random.wrap_key_data(self._at(data))

    def _list(self, *cells: Any) -> list[Any]:
        return [self._at(cell) for cell in cells]

    def _tuple(self, *cells: Any) -> tuple[Any, ...]:
        return tuple(self._at(cell) for cell in cells)

    def _dict(self, *pairs: Any) -> dict[Any, Any]:
        return {self._at(key): self._at(value) for key, value in pairs}

    def _csr(self, *parts: Any) -> Any:
        data, indices, indptr, shape = (self._at(part) for part in parts)
        self._charged(data.nbytes + indices.nbytes + indptr.nbytes)
        if indices.dtype.kind not in "iu" or (indptr[1:] < indptr[:-1]).any():
            raise ValueError("a sparse array has places that cannot be")
        rows: Any = sparse.csr_array((data, indices, indptr), shape=shape)
        rows.check_format(full_check=True)
        return rows

    def _frame(self, columns: Any, index: Any, cells: Any) -> Any:
        import pandas as pd

        names, values = self._at(columns), self._at(cells)
        self._charged(sum(value.nbytes for value in values))
        table = pd.DataFrame(dict(enumerate(values)), index=self._at(index))
        return table.set_axis(names, axis=1)

    def _code(self, name: str) -> Any:
        return _named(name)

    def _of(self, name: str, state: Any) -> Any:
        of, values = _named(name), self._at(state)
        if not isinstance(of, type):
            raise ValueError(f"its header has a {name!r} for a class")
        wanted = _fields_of(of)
        if wanted is not None and values.keys() != wanted:
            raise ValueError(f"its {of.__name__} has other parts than this version's; fit again")
        if issubclass(of, tuple):
            return of(**values)
        made = object.__new__(of)
        if hasattr(of, "__setstate__") and _ours_alone(of.__setstate__):
            made.__setstate__(values)
        else:
            for each, value in values.items():
                object.__setattr__(made, each, value)
        return made


def _at(where: str, name: Any) -> str:
    return f"{where}.{name}" if where else str(name)


def _ours_alone(method: Any) -> bool:
    return str(getattr(method, "__module__", "")).startswith("bayesrank.")


def _state_of(value: Any) -> dict[str, Any]:
    """What an object of this package is made of, by name, without what it derives by itself."""
    if isinstance(value, tuple):
        return getattr(value, "_asdict")()  # noqa: B009
    if _ours_alone(type(value).__getstate__):
        return value.__getstate__()
    names = _fields_of(type(value))
    if names is not None:
        return {name: getattr(value, name) for name in names}
    derived = (cached_property,)
    return {k: v for k, v in vars(value).items() if not isinstance(_static(value, k), derived)}


def _static(value: Any, name: str) -> Any:
    return next((vars(each)[name] for each in type(value).__mro__ if name in vars(each)), None)


def _fields_of(of: Any) -> Any:
    """Names of the parts that an object has to have, or None if its class does not say."""
    if issubclass(of, tuple):
        return dict.fromkeys(getattr(of, "_fields")).keys()  # noqa: B009
    if is_dataclass(of) and not _ours_alone(getattr(of, "__getstate__")):  # noqa: B009
        return {each.name: None for each in fields(of)}.keys()
    return None


def _is_ours(name: str, of: Any) -> bool:
    """Whether a file may name this class or function, and a reader finds it by the name."""
    try:
        return _named(name) is of
    except _UNDECODABLE:
        return False


def _named(name: str) -> Any:
    """A class of this package or of tinygp's kernels, or a program, by its place."""
    module, _, path = name.partition(":")
    parts = module.split(".")
    ours = parts[0] == "bayesrank" and len(parts) > 1 and parts[1] in _CLASSES
    if not (ours or module == _KERNELS or module.startswith(f"{_KERNELS}.")) or "__" in name:
        raise ValueError(f"it names {name!r}, which is not of bayesrank")
    there: Any = importlib.import_module(module)
    for part in path.split("."):
        there = getattr(there, part)
    program = module == _PROGRAMS or module.startswith(f"{_PROGRAMS}.")
    if there.__module__ != module or not (
        isinstance(there, type) or (program and callable(there) and hasattr(there, "__code__"))
    ):
        raise ValueError(f"it names {name!r}, which is neither a class nor a program of bayesrank")
    if isinstance(there, type) and issubclass(there, BaseException | type):
        raise ValueError(f"it names {name!r}, which no state is of")
    return there
