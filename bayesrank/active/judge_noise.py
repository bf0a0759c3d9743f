"""How noisy each judge is: as given, or as learned from the answers."""

from collections.abc import Mapping

from bayesrank._validate import check_positive
from bayesrank.active.history import History


class JudgeNoise:
    """How many times as noisy as nobody named each judge is: given by name (else 1) or learned."""

    def __init__(self, given: Mapping[str, float] | str | None) -> None:
        self.learned = given == "learn"
        if not self.learned and not isinstance(given, Mapping | None):
            raise ValueError(
                f"judge_noise is {given!r}; pass 'learn', or a mapping from judges to how "
                "many times as noisy as the others they are"
            )
        self._given = dict(given) if isinstance(given, Mapping) else {}
        for name, factor in self._given.items():
            if not isinstance(name, str):
                raise ValueError(f"judge_noise names {name!r}; judges have names that are texts")
            check_positive(factor, f"judge_noise[{name!r}]")

    def of(self, history: History, judge: str | None) -> float:
        """The factor of one judge, or of nobody named."""
        known = history.learned_noise if self.learned else self._given
        return 1.0 if judge is None else float(known.get(judge, 1.0))

    def names(self, history: History) -> list[str]:
        """Judges whose factors can be learned; none if all answers are of one."""
        seen = dict.fromkeys(event.judge for event in history.answers)
        if not self.learned or len(seen) < 2:
            return []
        return [name for name in seen if name is not None]
