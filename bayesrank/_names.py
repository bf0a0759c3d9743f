"""Names of items: one each, and as a terminal may show them, which they must not command."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

# Marks and overrides of the direction of writing: they reorder what stands beside them.
_DIRECTIONS = dict.fromkeys((0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
# Controls (escape sequences begin with one), halves of pairs, and ends of lines and paragraphs.
_KINDS = frozenset(("Cc", "Cs", "Zl", "Zp"))


def check_names(names: Sequence[object] | None, count: int) -> list[str]:
    """The items' names as strings, or numbers; a `ValueError` unless there is one for each."""
    if names is None:
        return [str(i) for i in range(count)]
    if isinstance(names, str) or len(names) != count:
        given = "one string" if isinstance(names, str) else f"{len(names)}"
        raise ValueError(f"names must hold one name per item, {count} in all, got {given}")
    return [str(name) for name in names]


def count_of(number: int, thing: str) -> str:
    """Return a number with what it counts, in the plural unless it is one."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def look_alikes(names: Sequence[str]) -> list[tuple[str, ...]]:
    r"""Names that differ in case, blanks, invisible letters or Unicode form alone, together.

    Examples
    --------
    >>> look_alikes(["Tea", "Milk", "tea", "Tea\u200b"])
    [('Tea', 'tea', 'Tea\u200b')]
    """
    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(_plain_name(name), []).append(name)
    return [tuple(each) for each in known.values() if len(each) > 1]


def first_spellings(names: Iterable[str]) -> dict[str, str]:
    """Each name as it is spelled first, whatever its case, blanks and invisible letters.

    Examples
    --------
    >>> first_spellings(["Tea", "Milk", "tea"])
    {'Tea': 'Tea', 'Milk': 'Milk', 'tea': 'Tea'}
    """
    first: dict[str, str] = {}
    return {name: first.setdefault(_plain_name(name), name) for name in names}


def _plain_name(name: str) -> str:
    """A name without what the eye does not see, or takes for the same."""
    plain = unicodedata.normalize("NFC", name.casefold())
    if not plain.isascii():
        plain = "".join(x for x in plain if unicodedata.category(x) != "Cf")
    return " ".join(plain.split())


def shown(text: str) -> str:
    r"""Return a text without what would move the cursor, clear the screen, or reorder the line.

    Controls and ends of lines become blanks; marks and overrides of direction are left out. Files
    keep names as they are: this is for screens.

    Examples
    --------
    >>> shown("\x1b[2JTea\u202e")
    ' [2JTea'
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_DIRECTIONS)
    return "".join(" " if unicodedata.category(letter) in _KINDS else letter for letter in text)
