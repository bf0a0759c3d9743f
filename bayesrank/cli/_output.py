"""A results folder that is either complete or untouched."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class OutputError(Exception):
    """The results cannot be written; the message is one line with the cure."""


@contextmanager
def output_folder(out: Path, files: Sequence[str], inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """Give an empty folder, and move what was written there to `out` if all went well.

    The folder is made on entering, so that an `out` that cannot be written is refused before any
    work. On an error inside the block it is removed, and `out` is as it was.

    Parameters
    ----------
    out
        Where the results go. May exist: files of the names in `files` are replaced or, if there is
        no such result now, removed, and all others are left alone.
    files
        Names of the files that may be written.
    inputs
        Files that must not be overwritten.

    Yields
    ------
    Path
        The folder to write to.

    Raises
    ------
    OutputError
        If `out` is not a folder or cannot be written, or a result would replace an input.
    """
    out = Path(os.path.abspath(out))
    _check(out, files, inputs)
    try:
        draft = Path(tempfile.mkdtemp(prefix=".bayesrank-", dir=_nearest_folder(out)))
    except OSError as error:
        raise _unwritable(out, error) from None
    try:
        yield draft
        _publish(draft, out, files)
    except OSError as error:
        raise _unwritable(out, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check(out: Path, files: Sequence[str], inputs: Sequence[Path]) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: this is a file; give a folder for the results")
    taken = {path.resolve() for path in inputs}
    for name in files:
        if (out / name).resolve() in taken:
            raise OutputError(f"{out / name}: the results would replace this input; use --out")
        if (out / name).is_dir():
            raise OutputError(f"{out / name}: a folder is in the way of a result; use --out")


def _nearest_folder(out: Path) -> Path:
    """Return `out` or the nearest of its parents that exists: the same file system as `out`."""
    return next(path for path in (out, *out.parents) if path.exists())


def _publish(draft: Path, out: Path, files: Sequence[str]) -> None:
    if out.exists():
        results = sorted(draft.iterdir())
        for path in results:
            os.replace(path, out / path.name)
        for name in set(files) - {path.name for path in results}:
            (out / name).unlink(missing_ok=True)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    mask = os.umask(0)
    os.umask(mask)
    draft.chmod(0o777 & ~mask)  # a temporary folder is closed to others, a results folder is not
    draft.rename(out)


def _unwritable(out: Path, error: OSError) -> OutputError:
    reason = error.strerror or type(error).__name__
    return OutputError(f"{out}: the results cannot be written ({reason}); use another --out")
