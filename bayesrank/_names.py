"""Names as they may be shown on a terminal: files of other people must not command it."""

from __future__ import annotations

import unicodedata

__all__ = ["shown"]

# Marks and overrides of the direction of writing: they reorder what stands beside them.
_DIRECTIONS = dict.fromkeys((0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
# Controls (escape sequences begin with one), halves of pairs, and ends of lines and paragraphs.
_KINDS = frozenset(("Cc", "Cs", "Zl", "Zp"))


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
