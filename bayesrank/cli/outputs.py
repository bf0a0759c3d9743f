"""A results folder that is either complete or untouched.

The results go to a hidden folder and are forced to the disk. If there is no folder of results yet,
the hidden one takes its name. Otherwise the two change places in one step (``renameat2`` on Linux),
so the folder holds one run's results even if the power fails. Not all systems allow that, nor does
a folder that has further folders inside or is the current one. There `replace_together` exchanges
the files, without a signal in between.
"""

import contextlib
import csv
import ctypes
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bayesrank._files import (
    PlacedError,
    confirm,
    draft_folder,
    errors_name,
    ordinary_mode,
    published_together,
    reason_of,
    replace_together,
    sync,
)
from bayesrank._names import shown
from bayesrank.cli.interrupt import keep, look, undivided
from bayesrank.cli.progress import Steps, stdout_console

_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
_CRLF = "\r\n"
DPI = 100  # of pictures
_NUMBERS, _FEWEST_DRAWS = 330_000, 400  # of a posterior in a file


class OutputError(Exception):
    """The results cannot be written; the message is one line with the fix."""


class PrintError(Exception):
    """Standard output cannot be written, as `error` says; it is not an `OSError` of the results."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


@contextlib.contextmanager
def output_folder(out: Path, files: Sequence[str], inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """Give an empty folder, and publish what was written there as `out` if all went well.

    It replaces or removes only files named in `files`; `inputs` may not be among them. It refuses
    an `out` that cannot be written before any work.
    """
    place = Path(os.path.realpath(out))
    with refused("use another --out", f"{out}: the results"), contextlib.ExitStack() as stack:
        _check(out, place, files, inputs)
        draft = _draft(place, stack)
        yield draft
        look()
        with undivided():
            _publish(draft, place, files)
            keep(f"the results are in {out}")


@contextlib.contextmanager
def refused(fix: str, what: str = "") -> Iterator[None]:
    """Say in one line what cannot be written, by default the file that the system names."""
    try:
        yield
    except PlacedError as error:
        raise OutputError(str(error)) from None
    except OSError as error:
        if not what and error.filename is None:  # standard output, which nobody reads any more
            raise
        what = what or f"{error.filename}:"
        raise OutputError(f"{what} cannot be written ({reason_of(error)}); {fix}") from error


def write(path: Path, thing: Any) -> None:
    """Write a result in the way of its kind: text, bytes, table, or model."""
    if isinstance(thing, str | bytes):
        path.write_bytes(thing if isinstance(thing, bytes) else thing.encode())
    elif hasattr(thing, "itertuples"):
        with path.open("wb") as file:
            _write_rows(file, table_rows(thing))
    else:
        thing.save(path)


def netcdf(posterior: Any) -> bytes:
    """A posterior of ArviZ as a small file: few draws, and digits of single precision.

    It is made in memory, since HDF5 ends a process whose disk is full.
    """
    import xarray as xr

    # ArviZ 1 has xarray's trees.
    tree = isinstance(posterior, xr.DataTree)
    whole = posterior if tree else xr.DataTree.from_dict(dict(posterior.items()))
    groups = [whole[name] for name in ("posterior", "log_likelihood") if name in whole.children]
    draws = groups[0].sizes["draw"]
    numbers = sum(each.size for group in groups for each in group.data_vars.values())
    step = -(-draws // max(_FEWEST_DRAWS, _NUMBERS * draws // numbers))

    def small(group: Any) -> Any:
        group = group.isel(draw=slice(None, None, step), missing_dims="ignore")
        single = group.map(
            lambda each: each.astype("f4").astype("f8") if each.dtype == "f8" else each
        )
        for each in single.data_vars.values():
            each.encoding["zlib"] = True
        return single.assign_attrs(group.attrs)

    return bytes(whole.map_over_datasets(small).to_netcdf(engine="h5netcdf"))


def drawn(plot: Callable[..., Any], *args: Any, **options: Any) -> bytes:
    """Return what a plot draws as PNG, whether or not there is a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    made = plot(*args, **options)
    figure = made if hasattr(made, "savefig") else made.figure
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    plt.close(figure)
    return file.getvalue()


def table_rows(frame: Any) -> list[Sequence[Any]]:
    """Rows of a data frame, its header first, without index; missing numbers are empty cells."""
    rows = frame.itertuples(index=False, name=None)
    return [list(frame.columns), *(["" if x != x else x for x in row] for row in rows)]


NamedTables = Iterable[tuple[Path, Iterable[Sequence[Any]]]]


def give_tables(tables: NamedTables, fix: str) -> None:
    """Write tables as CSV, none unless all can be written; ``-`` is standard output.

    Old and new tables never mix.
    """
    printed, on_screen = io.BytesIO(), sys.stdout.isatty()
    given = [(str(path), rows) for path, rows in tables]
    paths = [path for path, _ in given if path != "-"]
    with refused(fix), contextlib.ExitStack() as whole:
        with published_together(paths) as files:
            left = iter(files)
            for path, rows in given:
                if path == "-" and on_screen:
                    _show(rows)
                elif path == "-":
                    _write_rows(printed, rows)
                else:
                    with errors_name(path):
                        _write_rows(next(left), rows)
            look()
            whole.enter_context(undivided())
        if paths:
            keep(f"the results are in {', '.join(paths)}")
    sys.stdout.flush()
    sys.stdout.buffer.write(printed.getvalue())
    sys.stdout.flush()


def csv_text(frame: Any) -> str:
    """A data frame of pandas as the text of its file."""
    file = io.BytesIO()
    _write_rows(file, table_rows(frame))
    return file.getvalue().decode()


def _write_rows(file: IO[bytes], rows: Iterable[Sequence[Any]]) -> None:
    # Python before 3.13 quotes a carriage return only where lines end with one.
    csv.writer(_Lines(file), lineterminator=_CRLF).writerows(rows)
    file.flush()  # what there is no room for is told before any file is put in place


def _show(rows: Iterable[Sequence[Any]]) -> None:
    """Print a table for a person: names may not command the terminal, numbers are short."""
    head, *body = [[str(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [[row[k] for row in body] for k in range(len(head))]
    for k, (title, cells) in enumerate(zip(head, columns, strict=True)):
        numbers = all(map(_NUMBER.fullmatch, cells))
        if numbers:
            columns[k] = [f"{float(cell):.3g}" if "." in cell else cell for cell in cells]
        table.add_column(title, justify="right" if numbers else "left", overflow="fold")
    for row in zip(*columns, strict=True):
        table.add_row(*(Text(shown(cell)) for cell in row))
    stdout_console().print(table)


def refuse_to_replace(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse a file to write to that is read, or is another to write to, by whatever name."""
    taken = [path for path in inputs if path is not None]
    for option, path in outputs.items():
        if path is None or str(path) == "-":
            continue
        if any(_same(path, other) for other in taken):
            raise OutputError(f"{path}: this file is used already; give another {option}")
        taken.append(path)


def refuse_no_file(option: str, path: Path) -> None:
    """Refuse a device, a pipe or a folder in the place of a file that is read and written."""
    if path.exists() and not path.is_file():
        raise OutputError(f"{path}: this is not a regular file; give another {option}")


def _same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, hard links included."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return path.is_file() and os.path.samefile(path, other)
    except OSError:
        return False


class _Lines:
    """Takes the lines that a writer of CSV gives, one a call, and ends them as Unix does."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        """Write one line."""
        self._file.write(f"{line.removesuffix(_CRLF)}\n".encode())


def _check(out: Path, place: Path, files: Sequence[str], inputs: Sequence[Path]) -> None:
    if os.path.lexists(place) and not place.is_dir():
        raise OutputError(f"{out}: this is a file; give a folder for the results")
    taken = {os.path.realpath(path) for path in inputs}
    for name in files:
        if os.path.realpath(place / name) in taken:
            raise OutputError(f"{out / name}: the results would replace this input; use --out")
        if os.path.lexists(place / name) and not _ordinary(place / name):
            what = "a folder" if (place / name).is_dir() else "a device or a pipe"
            raise OutputError(f"{out / name}: {what} is in the way of a result; use --out")


def _ordinary(path: Path) -> bool:
    """Whether a name is a file or a link, and no folder, device or pipe."""
    return not path.is_dir() and (path.is_symlink() or path.is_file())


def _draft(place: Path, stack: contextlib.ExitStack) -> Path:
    """Make a draft beside the results, or, where nothing can be made there, among them."""
    if not place.exists():
        parent = next(path for path in place.parents if path.exists())
        return stack.enter_context(draft_folder(parent))
    try:
        if place.stat().st_dev == place.parent.stat().st_dev:
            return stack.enter_context(draft_folder(place.parent))
    except PermissionError:
        pass
    return stack.enter_context(draft_folder(place))


def _publish(draft: Path, place: Path, files: Sequence[str]) -> None:
    for path in draft.iterdir():
        sync(path)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.chmod(ordinary_mode(0o777))  # a draft is closed to others, a results folder is not
        sync(draft)
        draft.rename(place)
        confirm([place.parent])
    elif not _folders_exchanged(draft, place, files):
        made = {name: draft / name if os.path.lexists(draft / name) else None for name in files}
        replace_together({place / name: made[name] for name in files})


def _folders_exchanged(draft: Path, place: Path, files: Sequence[str]) -> bool:
    """Let the two folders change places in one step; return whether that could be done."""
    if place == draft.parent or place in (Path.cwd(), *Path.cwd().parents):
        return False
    others = {path.name for path in place.iterdir()} - {*files}
    try:
        before = place.stat()
        for name in others:  # in both folders, for a moment
            os.link(place / name, draft / name, follow_symlinks=False)
        draft.chmod(stat.S_IMODE(before.st_mode))
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(draft, before.st_uid, before.st_gid)
        sync(draft)
    except OSError:  # a folder, or a file of somebody else
        return False
    if not exchange(draft, place):
        return False
    for path in draft.iterdir():
        if path.name not in {*files, *others}:  # came just now
            try:
                os.rename(path, place / path.name)
            except OSError as error:
                raise PlacedError(
                    f"the new results are in {place}, but {path.name}, which came just now, is in "
                    f"{draft} ({reason_of(error)}); move it back before the next run"
                ) from None
    confirm([place.parent])
    return True


def exchange(first: Path, second: Path) -> bool:
    """Let two paths change places by ``renameat2``; return whether the system did so."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not on this system
        return False
    paths = os.fsencode(first), os.fsencode(second)
    return rename(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) == 0


class Job:
    """A run of a command: its steps, the results it writes, and what it prints."""

    def __init__(self, place: Path, folder: Path, steps: Steps) -> None:
        self.steps, self._place, self._folder = steps, place, folder
        self._written: list[str] = []
        self._begun = False

    def write(self, things: Mapping[str, Any]) -> None:
        """Write results by the names of their files; what is None is none."""
        with self.steps.step("Writing the results"):
            for name, thing in things.items():
                if thing is not None:
                    write(self._folder / name, thing)
                    self._written.append(name)

    def show(self, *things: Any) -> None:
        """Print sentences and tables, with a blank line between them."""
        try:
            self._show(things)
        except OSError as error:
            raise PrintError(error) from None

    def _show(self, things: Sequence[Any]) -> None:
        console, text = stdout_console(), ""
        for thing in things:
            text += "\n" if self._begun else ""
            self._begun = True
            with console.capture() as printed:
                if isinstance(thing, str):
                    for line in thing.splitlines():
                        console.print(shown(line), markup=False, highlight=False)
                else:
                    console.print(thing)
            text += "".join(f"{line.rstrip()}\n" for line in printed.get().splitlines())
        console.file.write(text)  # by Rich, the process would end where nobody reads
        console.file.flush()

    @property
    def width(self) -> int:
        """Columns of standard output."""
        return stdout_console().width

    @property
    def where(self) -> str:
        """Sentence on the place of the results."""
        return f"Saved to {self._place}: {', '.join(self._written)}"


@contextmanager
def job(
    place: Path, files: Sequence[str], inputs: Sequence[Path | None], *, quiet: bool
) -> Iterator[Job]:
    """Give the frame of a run, and publish what it wrote if all went well."""
    steps = Steps(Console(stderr=True), quiet=quiet)
    read = [path for path in inputs if path is not None]
    with output_folder(place, files, read) as folder:
        yield Job(place, folder, steps)
