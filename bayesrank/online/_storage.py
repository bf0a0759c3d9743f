"""A learner's state in a file that is either complete or untouched."""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_state", "write_state"]

_HEADER = "header"
# What zipfile and NumPy raise for archives that are damaged or of another kind.
_UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_state(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays and a header to an ``.npz`` file, at once or not at all.

    The file is written beside its place, forced to the disk and then renamed, so that whoever is
    killed while writing leaves the file that was there before.

    Parameters
    ----------
    path
        The file.
    header
        What JSON can hold.
    arrays
        Arrays by name.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    values = {name: np.asarray(value) for name, value in arrays.items()}
    values[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    try:
        with open(draft, "wb") as file:
            np.savez(file, allow_pickle=False, **values)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        if error.filename is None:
            raise
        # Name what was asked for, not the draft.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        draft.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the new name itself reaches the disk
        finally:
            os.close(folder)


def read_state(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file of `write_state`: its header and its arrays.

    Raises
    ------
    ValueError
        If it is not such a file.
    FileNotFoundError
        If there is no file.
    """
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no whole .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        if _HEADER not in arrays:
            raise ValueError("it has no header")
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        if not isinstance(header, dict):
            raise ValueError("its header is another's")
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{path} is not a state that was saved by an online ranker ({reason}); pass a file "
            "that `save` wrote."
        ) from None
    return header, arrays
