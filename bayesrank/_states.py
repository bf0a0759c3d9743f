"""States of learners in files: named arrays of finite numbers, whole or refused.

The format is NumPy's ``.npz``, uncompressed. What a file claims to hold is looked at before room is
made for it: no array may be larger than the file itself.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._files import published

__all__ = ["no_state", "read_arrays", "write_arrays"]

# What zipfile and NumPy raise for archives that are damaged or of another kind.
_UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, OverflowError, SyntaxError,
    NotImplementedError, TypeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a file, at once or not at all, and force them to the disk.

    Parameters
    ----------
    path
        The file.
    arrays
        Arrays by name.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    values = {name: np.asarray(value) for name, value in arrays.items()}
    with published(path) as file:
        np.savez(file, allow_pickle=False, **values)


def read_arrays(path: str | Path, owner: str) -> dict[str, NDArray[Any]]:
    """Read a file of `write_arrays`.

    Parameters
    ----------
    path
        The file.
    owner
        Whose states these are, for the message: "an online ranker".

    Returns
    -------
    dict
        Arrays by name; all numbers are finite.

    Raises
    ------
    ValueError
        If it is not such a file, or damaged. The message names the file.
    FileNotFoundError
        If there is no file.
    """
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no whole .npz file")
            room = os.fstat(file.fileno()).st_size
            with zipfile.ZipFile(file) as archive:
                return {
                    member.filename.removesuffix(".npy"): _array(archive, member, room)
                    for member in archive.infolist()
                }
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise no_state(path, owner, reason or type(error).__name__) from None


def no_state(path: str | Path, owner: str, reason: str) -> ValueError:
    """What to raise where a file holds no whole state."""
    return ValueError(
        f"{path} is not a state that was saved by {owner} ({reason}); pass a file that `save` wrote"
    )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, room: int) -> NDArray[Any]:
    name = member.filename.removesuffix(".npy")
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > room:
        raise ValueError(f"{name!r} claims to be larger than the file")
    raw = io.BytesIO(archive.read(member))  # all of it, so that its checksum is looked at
    version = np.lib.format.read_magic(raw)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in read_header:
        raise ValueError(f"{name!r} is written in another way")
    shape, _, dtype = read_header[version](raw)
    count = 1
    for length in shape:
        count *= length
    if dtype.hasobject or count * dtype.itemsize != member.file_size - raw.tell():
        raise ValueError(f"{name!r} claims a shape that it does not have")
    raw.seek(0)
    array = np.lib.format.read_array(raw, allow_pickle=False)
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise ValueError(f"{name!r} holds what is not a finite number")
    return array
