"""Names of items: one each, and as a terminal may show them, which they must not command."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

# Marks and overrides of the direction of writing: they reorder what stands beside them.
_DIRECTIONS = dict.fromkeys((0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
# Controls (escape sequences begin with one), halves of pairs, and ends of lines and paragraphs.
_WHOLE = re.compile(r"0*(\d+)(?:\.0*)?", re.ASCII)  # 1, 1.0 and 01
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


def alike_note(names: Sequence[str], fix: str) -> tuple[str, ...]:
    """A sentence on names that differ in case, blanks, invisible letters, or as 1 and 1.0 do."""
    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(_plain_name(name), []).append(name)
    alike = [" and ".join(map(ascii, each)) for each in known.values() if len(each) > 1]
    if not alike:
        return ()
    more = f"; and {len(alike) - 3:,} more" if len(alike) > 3 else ""
    return (f"Names that may be one are taken apart: {'; '.join(alike[:3])}{more}. {fix}",)


def first_spellings(names: Iterable[str]) -> dict[str, str]:
    """Each name as the first of those that look alike is spelled."""
    first: dict[str, str] = {}
    return {name: first.setdefault(_plain_name(name), name) for name in names}


def meant(name: object, names: Iterable[object], otherwise: str) -> str:
    """The fix for an unknown name: the known name that comes close, or something else."""
    known = {str(each): each for each in names}
    alike = (each for each in known if _plain_name(each) == _plain_name(str(name)))
    close = [*alike, *get_close_matches(str(name), known, n=1)]
    return f"did you mean {known[close[0]]!r}?" if close else otherwise


def _plain_name(name: str) -> str:
    """A name without what the eye does not see, or takes for the same."""
    whole = _WHOLE.fullmatch(name)
    if whole is not None:
        return whole[1]
    plain = unicodedata.normalize("NFC", name.casefold())
    if not plain.isascii():
        plain = "".join(x for x in plain if unicodedata.category(x) != "Cf")
    return " ".join(plain.split())


def shown(text: str) -> str:
    """A text for screens, without what moves the cursor, clears the screen, or reorders a line."""
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_DIRECTIONS)
    return "".join(" " if unicodedata.category(letter) in _KINDS else letter for letter in text)
