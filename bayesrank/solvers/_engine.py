"""An engine of one program, whose prior a solver keeps in a form of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from bayesrank.infer import EP
from bayesrank.infer.spi import Program, Traced, take_inventory


class OwnPriorEP(EP):
    """EP on one program; derived classes build its factors from the program's arguments."""

    program: ClassVar[Callable[..., Any]]
    reads_arguments = True

    def __init__(self, **settings: Any) -> None:
        dense: dict[str, Any] = {"structure": "dense"}
        super().__init__(type(self).program, **(dense | settings))

    def with_settings(self, **changed: Any) -> Self:
        """Make an engine with the same settings but for these."""
        return type(self)(**(self.settings | changed))

    def read_source(self, source: Traced, params: Mapping[str, Any]) -> Program:
        """Read the program at given hyperparameters."""
        args, kwargs = source.arguments()
        return self.build(take_inventory(source, dict(params)), *args, **kwargs)

    def build(self, inventory: Any, *args: Any, **kwargs: Any) -> Program:
        """Make the factors of the program with these arguments."""
        raise NotImplementedError
