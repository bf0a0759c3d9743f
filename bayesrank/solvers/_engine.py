"""An engine of one program, whose prior and posterior a solver keeps in a form of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from jax import Array

from bayesrank.infer import EP
from bayesrank.infer.spi import Program, Rows, Traced, take_inventory


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


class SeenGaussian:
    """A posterior that knows the margins of the sites that made it; of the latents, by its core."""

    core: Any  # a `DenseGaussian`
    margin_mean: Array  # shape (K,)
    margin_variance: Array  # shape (K,)

    @property
    def mean(self) -> Array:
        """Means of the latents."""
        return self.core.mean

    @property
    def covariance(self) -> Array:
        """Covariance of the latents."""
        return self.core.covariance

    def margins(self, rows: Rows, block: int = 0) -> tuple[Array, Array]:
        """Means and variances of the margins of the sites that made this posterior."""
        del rows
        return self.margin_mean, self.margin_variance

    def ready(self, rows: Sequence[Rows]) -> Self:
        """Return itself: nothing is left to prepare."""
        return self

    def watched(self, rows: Sequence[Rows]) -> tuple[tuple[Array, Array], ...]:
        """The margins of all sites."""
        return tuple(self.margins(block) for block in rows)
