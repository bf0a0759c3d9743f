"""One line for each refusal: what is said, and the call that it answers."""

import re
from collections.abc import Callable
from typing import Any

import pytest


def refused(
    message: str | re.Pattern[str],
    call: Callable[..., Any],
    *args: Any,
    kind: type[Exception] = ValueError,
    **options: Any,
) -> None:
    """The call ends in an error of this kind that says so, by a regular expression."""
    with pytest.raises(kind, match=message):
        call(*args, **options)
