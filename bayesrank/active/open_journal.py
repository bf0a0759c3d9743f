"""Which items a journal is about: those that it was begun with, and those added since."""

import os
from collections.abc import Hashable, Sequence

from numpy.typing import ArrayLike

from bayesrank.active.history import History, replay
from bayesrank.active.items import NamedItems, as_items
from bayesrank.active.store import Journal, JournalError, read_journal

PathLike = str | os.PathLike[str]


def open_journal(path: PathLike, items: NamedItems) -> Journal:
    """Open a journal for some items, or begin it, and add those at their end that it lacks."""
    journal = Journal(path, items.header(_begun_with(path)))
    try:
        known = _check_added(replay(journal.records), items, journal.header, path)
        if known < len(items.names):
            journal.append(items.addition(known))
    except BaseException:
        journal.close()
        raise
    return journal


def read_history(
    path: PathLike, items: int | Sequence[Hashable], features: ArrayLike | None = None
) -> History:
    """Read answers that were not undone, by numbers of items; do not lock or change the journal.

    Parameters
    ----------
    path : path
        The journal, which another process may be writing to.
    items, features
        As for `bayesrank.active.QueryLoop`.

    Raises
    ------
    JournalError
        If the journal cannot be read, or is about other items.
    """
    named = as_items(items, features)
    contents = read_journal(path, named.header(_begun_with(path)))
    history = replay(contents.records)
    _check_added(history, named, contents.header, path)
    return history


def _begun_with(path: PathLike) -> int | None:
    """Number of items of an existing journal when it was begun; None if there is no such number."""
    try:
        count = read_journal(path).header.get("items")
    except JournalError:  # opening it will say what is wrong, or begin it
        return None
    return count if isinstance(count, int) else None


def _check_added(history: History, items: NamedItems, header: dict, path: PathLike) -> int:
    """Check the items that were added to a journal, and return the number of all that it has."""
    count = header["items"]
    for record in history.added:
        count = record["items"]
        if count > len(items.names):
            names = ", ".join(map(repr, record["labels"]))
            raise JournalError(
                f"{path}: this journal has {count} items, and {len(items.names)} are given; add "
                f"{names} at their end again, and retire what is to be asked about no more"
            )
        wanted = items.header(count)
        other = [key for key in ("names", "features") if record[key] != wanted[key]]
        if other:
            raise JournalError(
                f"{path}: items were added to this journal that are not those given (not the same "
                f"{' or '.join(other)}); give the first {count} as they were, in their order"
            )
    return count
