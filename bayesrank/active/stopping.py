"""When to stop asking: little left to learn, or the top settled."""

from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._validate import check_positive, check_share


@dataclass(frozen=True)
class Progress:
    """How far a loop has come.

    Attributes
    ----------
    answers, skipped
        Number of answers, and of questions that were skipped.
    gain
        Score of the best question that is left; None if none is left.
    settled
        Probability that the best `stop_top` items are those of the highest posterior means; None
        without that rule.
    done, reason
        Whether a rule says to stop, or no question is left; and why, in words, empty if not done.

    Examples
    --------
    >>> from bayesrank.active import QueryLoop
    >>> with QueryLoop(["tea", "milk", "water"], journal=None, hyperparameters="prior") as loop:
    ...     loop.tell("tea", "milk")
    ...     progress = loop.progress()
    >>> progress.answers, progress.done
    (1, False)
    """

    answers: int
    skipped: int
    gain: float | None
    settled: float | None
    done: bool
    reason: str


class StoppingRule(NamedTuple):
    """Stop when the best question gains less than `gain`, or the best `top` items are settled."""

    gain: float | None = None  # least expected gain that is worth a question, or None
    top: int | None = None  # number of items at the top, or None
    level: float = 0.95  # with which they have to be the top

    def judge(
        self, answers: int, skipped: int, gain: float | None, settled: float | None
    ) -> Progress:
        """Say whether to stop, and why."""
        reason = ""
        if gain is None:
            reason = "every question has been asked"
        elif self.gain is not None and gain < self.gain:
            reason = f"no question is expected to gain more than {self.gain:g}"
        elif self.top is not None and settled is not None and settled >= self.level:
            best = "best item is" if self.top == 1 else f"best {self.top} items are"
            reason = f"the {best} settled with probability {settled:.2f}"
        return Progress(answers, skipped, gain, settled, bool(reason), reason)


def check_rule(rule: StoppingRule, num_items: int, gain_has_scale: bool) -> StoppingRule:
    """Return the rule."""
    if rule.gain is not None:
        check_positive(rule.gain, "stop_gain")
    if rule.gain is not None and not gain_has_scale:
        raise ValueError(
            "stop_gain needs an acquisition that tends to zero as questions tell less, such as "
            "'bald' or 'entropy'; choose one, or stop by stop_top"
        )
    whole = isinstance(rule.top, Integral) and not isinstance(rule.top, bool)
    if rule.top is not None and not (whole and 1 <= rule.top < num_items):
        raise ValueError(f"stop_top is {rule.top!r}; pass a number from 1 to {num_items - 1}")
    check_share(rule.level, "stop_level", usual="0.95 for 95%")
    return rule


def top_settled(mean: NDArray[np.float64], samples: NDArray[np.float64], k: int) -> float:
    """Probability by draws (S, n) that the k items of highest mean are the k best."""
    if k >= len(mean):
        return 1.0
    order = np.argsort(-mean, kind="stable")
    worst_in = samples[:, order[:k]].min(axis=1)
    best_out = samples[:, order[k:]].max(axis=1)
    return float(np.mean(worst_in > best_out))
