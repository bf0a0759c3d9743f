"""When comparisons were: numbers or dates, on the scale of the program's prior."""

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import missing, plain_array

Array = NDArray[np.float64]

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ][\d:.]+)?")
_MICROSECONDS = 86_400e6  # of a day
_FIX = "pass numbers, or dates (datetime64, datetime, or text such as 2024-05-31)"


class TimeRange(NamedTuple):
    """What the time of a fit is measured by."""

    first: float  # time of the first comparison; of dates, in days since 1970
    last: float  # time of the last comparison
    dates: bool  # whether times are dates

    @property
    def unit(self) -> float:
        """Length of the program's unit of time: the period of the comparisons."""
        return self.last - self.first or 1.0

    def scaled(self, times: Array) -> Array:
        """Times as the program has them: 0 is that of the first comparison, 1 that of the last."""
        return (times - self.first) / self.unit

    def ahead(self, time: Any) -> Array:
        """How long after the last comparison times are, in the program's unit; none earlier."""
        times, dates = read_times(np.atleast_1d(plain_array(time)), "time")
        if dates != self.dates:
            given, wanted = (("numbers", "dates"), ("dates", "numbers"))[dates]
            raise ValueError(f"time holds {given}, and in fit it held {wanted}; pass {wanted}")
        if (times < self.last).any():
            row = int(np.argmax(times < self.last))
            raise ValueError(
                f"time is {self.text(times[row])} in row {row}, before the last comparison in fit "
                f"at {self.text(self.last)}; fit the comparisons up to that time to predict it"
            )
        return (times - self.last) / self.unit

    def text(self, time: float) -> str:
        """A time as a person reads it."""
        if not self.dates:
            return f"{time:g}"
        day = np.datetime64(round(time * _MICROSECONDS), "us")
        return str(day if time % 1.0 else day.astype("datetime64[D]"))


def read_times(values: Any, name: str) -> tuple[Array, bool]:
    """Times (K,) as numbers, dates as days since 1970, and whether they are dates."""
    array = plain_array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; pass one time for each comparison")
    dates = array.dtype.kind in "MOUT"
    usable: Any
    if array.dtype.kind in "iuf":
        times = array.astype(np.float64)
        usable = np.isfinite(times)
    elif array.dtype.kind == "M":
        times = array.astype("datetime64[us]").astype(np.int64) / _MICROSECONDS
        usable = ~np.isnat(array)
    elif dates:
        return _read_cells(array, name), True
    else:
        raise ValueError(f"{name} has dtype {array.dtype}; {_FIX}")
    if not usable.all():
        row = int(np.argmin(usable))
        raise ValueError(f"{name} is {array[row]} in row {row}; give every comparison its time")
    return times, dates


def _read_cells(cells: NDArray[Any], name: str) -> Array:
    """Days since 1970 of dates that are objects or text."""
    for row, cell in enumerate(cells):
        if missing(cell):
            raise ValueError(f"{name} is {cell} in row {row}; give every comparison its time")
        if getattr(cell, "tzinfo", None) is not None:
            raise ValueError(f"{name} has a time zone in row {row}; convert to UTC without one")
        if isinstance(cell, str) and not _DATE.fullmatch(cell.strip()):
            raise ValueError(f"{name} is {str(cell)!r} in row {row}; {_FIX}")
    try:
        plain = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        days = np.array(plain, "datetime64[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} holds what is not a date ({error}); {_FIX}") from None
    return days.astype(np.int64) / _MICROSECONDS
