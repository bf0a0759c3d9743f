"""A learner's state in a file: a header, as JSON, beside the arrays."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._states import no_state, read_arrays, write_arrays

__all__ = ["OWNER", "read_state", "write_state"]

OWNER = "an online ranker"
_HEADER = "header"
_FIELDS = {"learner", "num_features", "feature_names", "notes"}


def write_state(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays and a header to an ``.npz`` file, at once or not at all.

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
    text = json.dumps(header).encode()
    write_arrays(path, {**arrays, _HEADER: np.frombuffer(text, np.uint8)})


def read_state(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file of `write_state`: its header and its arrays.

    Raises
    ------
    ValueError
        If it is not such a file.
    FileNotFoundError
        If there is no file.
    """
    arrays = read_arrays(path, OWNER)
    if _HEADER not in arrays:
        raise no_state(path, OWNER, "it has no header")
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
    except (ValueError, RecursionError):
        raise no_state(path, OWNER, "its header cannot be read") from None
    if not isinstance(header, dict):
        raise no_state(path, OWNER, "its header is another's")
    if missing := _FIELDS - header.keys():
        raise no_state(path, OWNER, f"its header lacks {', '.join(sorted(missing))}")
    return header, arrays
