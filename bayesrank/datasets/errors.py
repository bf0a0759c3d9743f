"""The one error that reading a file raises, and notes on a file that was read."""

import warnings
from pathlib import Path

_LONGEST = 400  # letters of a problem: a cell of a damaged file may be as long as the file


class ReadingNote(UserWarning):
    """A note on how ambiguous data were read.

    Examples
    --------
    >>> import warnings
    >>> from bayesrank.datasets import ReadingNote
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ReadingNote)  # read without notes
    ...     # read_comparisons("games.csv")
    """


def tell(sentence: str) -> None:
    """Say how data were understood."""
    warnings.warn(sentence, ReadingNote, stacklevel=3)


def quoted(cell: str) -> str:
    """A cell as a message has it, by its beginning."""
    return repr(cell if len(cell) <= 40 else f"{cell[:40]}...")


class DataError(ValueError):
    """A data file cannot be used as it is.

    The message is one line: file, row, column, what is wrong, and the fix. It quotes the
    beginning of a long cell.

    Parameters
    ----------
    path
        The file.
    problem
        What is wrong, starting in lower case.
    fix
        What the person can do about it.
    row
        Line of the file, counted from 1 as a spreadsheet does (the header is row 1); 0 is none.
    column
        Name of the column.

    Examples
    --------
    >>> from bayesrank.datasets import DataError
    >>> print(DataError("a.csv", "the winner is missing", "fill it in", row=3, column="winner"))
    a.csv, row 3, column 'winner': the winner is missing; fill it in
    """

    def __init__(
        self,
        path: str | Path,
        problem: str,
        fix: str,
        *,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.problem = problem
        self.fix = fix
        self.row = row
        self.column = column
        place = [str(path)]
        if row:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {_brief(column)!r}")
        super().__init__(" ".join(f"{', '.join(place)}: {_brief(problem)}; {fix}".splitlines()))

    def with_fix(self, fix: str) -> "DataError":
        """The same with another fix."""
        return DataError(self.path, self.problem, fix, row=self.row, column=self.column)


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
