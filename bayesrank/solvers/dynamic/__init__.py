"""Skills that move, by EP on Markov chains; see `bayesrank.models.dynamic`."""

from bayesrank.solvers.dynamic.engine import DynamicEP as DynamicEP
from bayesrank.solvers.dynamic.engine import check_room as check_room
from bayesrank.solvers.dynamic.process import move as move
from bayesrank.solvers.dynamic.process import pace_of as pace_of
from bayesrank.solvers.dynamic.process import steps_of as steps_of

__all__ = ["DynamicEP", "check_room", "move", "pace_of", "steps_of"]
