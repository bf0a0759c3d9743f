"""One row for each refusal: the call, and what is said."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest


class Refusal(NamedTuple):
    """A call that ends in an error of this kind that says so, by a regular expression."""

    call: Callable[[], Any]
    message: str | re.Pattern[str]
    kind: type[Exception] = ValueError

    def check(self) -> None:
        with pytest.raises(self.kind, match=self.message):
            self.call()


def rows(
    call: Callable[..., Any], *given: Any, kind: type[Exception] = ValueError, literal: bool = False
) -> list[Refusal]:
    """Rows of one call: its arguments, and at the end what is said, as a pattern or literally."""
    return [
        Refusal(partial(call, *args), re.escape(message) if literal else message, kind)
        for *args, message in given
    ]


def refused(
    message: str | re.Pattern[str],
    call: Callable[..., Any],
    *args: Any,
    kind: type[Exception] = ValueError,
    **options: Any,
) -> None:
    """The call ends in an error of this kind that says so, by a regular expression."""
    Refusal(partial(call, *args, **options), message, kind).check()


def each(table: list[Refusal]) -> pytest.MarkDecorator:
    """Run a test on every row."""
    return pytest.mark.parametrize("refusal", table, ids=lambda row: str(row.message)[:40])
