"""Form of posterior that `EP(structure=, power=)` asks for."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.tables import MOST_SHARED

# Up to here a joint covariance is made where nobody says otherwise.
MOST_DENSE = 3000


class Plan(Enum):
    """What stands for the posterior."""

    COVARIANCES = "the covariances of all latents"
    SPARSE = "the prior as it is stated, and sites of short rows"
    TABLES = "the same, once long rows are kept in tables"


class Wanted(NamedTuple):
    """Structure of the posterior, see `EP`, and EP's power."""

    structure: str
    power: float
    eliminates: str | None = None  # a plate, whose latents are eliminated however few they are

    def is_large(self, size: int) -> bool:
        """Whether so many latents get no joint covariance."""
        return self.structure != "dense" and (self.structure != "auto" or size > MOST_DENSE)

    def takes(self, structure: str) -> bool:
        """Whether a structure will do."""
        return self.structure in ("auto", structure)

    def most_shared(self, size: int) -> int:
        """Number of latents that may be shared: fewer than all, unless low rank is asked for."""
        return MOST_SHARED if self.structure == "low_rank" else min(MOST_SHARED, size // 2)

    def refuse_others(self) -> None:
        """Refuse where something else than covariances was asked for."""
        if not self.takes("dense"):
            reason = "not_low_rank" if self.structure == "low_rank" else "not_sparse"
            also = "power=1 and " if self.power != 1 else ""
            raise Refusal(reason, self.structure, also).error()
