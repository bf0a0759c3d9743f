"""What a cell says of who won: the words and numbers that logs of comparisons use.

Case does not matter, and ``_`` and ``-`` are blanks. A strength ("much better") is understood and
not used: every comparison counts as one win. Numbers around zero, such as -2 to 2, say by how much
one side is better: positive ones favour the first side by default. The numbers 0, 0.5 and 1 are the
first side's points.
"""

import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LOSS, TIE, WIN = 0, 1, 2
_TIES = {
    *("tie", "ties", "tied", "draw", "d", "equal", "equally good", "equally bad", "both", "x"),
    *("tie (bothbad)", "tie(bothbad)", "tie (both bad)", "tie (bothgood)", "bothbad", "both bad"),
    *("both good", "bothgood", "neither", "same", "the same", "about the same", "about equal"),
    *("no preference", "no difference", "c (tie)", "[[c]]", "a=b", "b=a", "0 0"),
    *("1/2 1/2", "½ ½", "0.5 0.5", "1/2", "½"),
}
_AGAINST = {"opponent", "opp", "baseline", "reference", "visitor"}
_FIRST = {"a", "first", "left", "1 0"}
_SECOND = {"b", "second", "right", "0 1"}
_POINTS = re.compile(r"(\d{1,3}) ?[ :] ?(\d{1,3})", re.ASCII)  # 3-1, its dash as a blank
_OWN_RESULT = re.compile(r"(win|won|w|loss|lost|l|tie|t|draw|d)[ ,]+\d.*")  # W 110-100
_HOW_MUCH = re.compile(
    r"\b(?:much|far|slightly|somewhat|significantly|strongly|weakly|marginally|moderately|a lot|"
    r"a bit|a little)\b|[<>]{2}"
)
_PHRASES = re.compile(r"\ba (?:lot|bit|little)\b")
_FILLERS = {
    *("is", "are", "was", "the", "much", "far", "slightly", "somewhat", "significantly", "clearly"),
    "equally",
    *("strongly", "weakly", "marginally", "better", "best", "preferred", "prefer", "preference"),
    *("wins", "won", "win", "winner", "than", "i", "very", "moderately", "for", "good"),
}
_THINGS = {"model", "item", "option", "answer", "response", "system", "output", "candidate"}
_SIGNS = re.compile(r"\[{0,2}([ab])\s*(>{1,3}|<{1,3})\s*([ab])\]{0,2}")


def words_mean(cell: str, first: str, second: str) -> int | None:
    """What a cell says: `WIN` of the first side, `TIE`, `LOSS`, or None if that is not clear.

    The columns' names, `first` and `second`, stand for the two sides as well.

    Examples
    --------
    >>> words_mean("tie (bothbad)", "model_a", "model_b") == TIE
    True
    >>> words_mean("B is slightly better", "model_a", "model_b") == LOSS
    True
    """
    text = _plain(cell)
    points = _POINTS.fullmatch(text)
    if _turned(_plain(first), _plain(second)) and (points is None or "black" in _plain(first)):
        meant = words_mean(cell, second, first)
        return meant if meant is None else WIN + LOSS - meant
    if points is not None:
        return int(np.sign(int(points[1]) - int(points[2]))) + TIE
    if _plain(second) in _AGAINST:
        text = _OWN_RESULT.sub(r"\1", text)
    sides = _words_for(_plain(first), _plain(second))
    if text in _TIES or text in sides:
        return sides.get(text, TIE)
    signs = _SIGNS.fullmatch(text)
    if signs is not None and signs[1] != signs[3]:
        return WIN if (signs[1] == "a") == (">" in signs[2]) else LOSS
    if text in ("[[a]]", "[[b]]"):
        return WIN if text == "[[a]]" else LOSS
    words = _PHRASES.sub(" ", text).replace(":", " ").split()
    if "than" in words:
        words = words[: words.index("than")]
    worse = "worse" in words
    rest = [word for word in words if word not in _FILLERS | _THINGS | {"worse"}]
    if len(rest[0] if rest else "") > 1 and " ".join(rest) in _TIES:
        return TIE
    if len(rest) != 1 or rest[0] not in sides:
        return None
    meant = sides[rest[0]]
    return WIN + LOSS - meant if worse else meant


def _words_for(first: str, second: str) -> dict[str, int]:
    """What stands for either side, by the names of their columns."""
    sides = {first: WIN, second: LOSS}
    sides |= dict.fromkeys(_FIRST, WIN) | dict.fromkeys(_SECOND, LOSS)
    if "home" in first:
        sides |= {"h": WIN, "home": WIN, "away": LOSS, "home win": WIN, "away win": LOSS}
        sides |= {"1": WIN, "2": LOSS, "a": LOSS}
    if first.startswith("left"):
        sides |= {"l": WIN, "r": LOSS}
    if "white" in first:
        sides |= {"white": WIN, "black": LOSS, "w": WIN}
    if first.endswith("1") and second.endswith("2"):
        sides |= {"1": WIN, "2": LOSS}
    if first.split()[:1] in (["red"], ["r"]):
        sides |= {"red": WIN, "blue": LOSS}
    if second in _AGAINST:
        sides |= {"win": WIN, "w": WIN, "won": WIN, "loss": LOSS, "l": LOSS, "lost": LOSS, "t": TIE}
    return sides


def holds_points(cell: str) -> bool:
    """Whether a cell holds the points of both sides, as in 3-1."""
    return _POINTS.fullmatch(_plain(cell)) is not None


def tells_how_much(cell: str) -> bool:
    """Whether words or signs say how much better one side is."""
    return _HOW_MUCH.search(cell.lower()) is not None


def _turned(first: str, second: str) -> bool:
    """Whether the columns' names say that what was named first is the second side."""
    for one, other in (("a", "b"), ("left", "right"), ("white", "black"), ("first", "second")):
        if first.split()[-1:] == [other] and second.split()[-1:] == [one]:
            return True
    return "away" in first and "home" in second


def _plain(cell: str) -> str:
    return " ".join(re.sub(r"[_\-\u2013]", " ", cell.lower()).split())


def numbers_mean(
    values: NDArray[np.float64], positive: Literal["first", "second"]
) -> list[int] | str | None:
    """What a column of numbers says, cell by cell; NaN is none."""
    if np.isnan(values).any():
        return None
    if (values < 0).any():
        sign = np.sign(values) if positive == "first" else -np.sign(values)
        return (sign.astype(int) + TIE).tolist()
    if 0.5 in values and set(values.tolist()) <= {0.0, 0.5, 1.0}:
        return (2 * values).astype(int).tolist()
    return f"holds the numbers {', '.join(f'{value:g}' for value in sorted(values)[:6])}"
