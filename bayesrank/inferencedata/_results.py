"""What a result must offer to be converted, and SVI made to offer it."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import SVI, Predictive

from bayesrank._validate import check_count

Arrays = dict[str, NDArray[Any]]


@runtime_checkable
class PosteriorResult(Protocol):
    """What `to_arviz` asks of a result; ``bayesrank.infer.EPResult`` and `SVIPosterior` have it.

    Attributes
    ----------
    model
        The NumPyro program.
    model_args, model_kwargs
        What it was run on.
    params
        Hyperparameters that were fixed, by site name.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> from bayesrank import to_arviz
    >>> from bayesrank.inferencedata import PosteriorResult
    >>> isinstance(result, PosteriorResult)
    True
    >>> posterior = to_arviz(result)
    """

    @property
    def model(self) -> Callable[..., Any]: ...  # noqa: D102

    @property
    def model_args(self) -> tuple[Any, ...]: ...  # noqa: D102

    @property
    def model_kwargs(self) -> dict[str, Any]: ...  # noqa: D102

    @property
    def params(self) -> Mapping[str, Any]: ...  # noqa: D102

    def get_samples(self, group_by_chain: bool = False) -> Mapping[str, Any]:
        """Return the same draws at every call, with the fixed hyperparameters among them."""
        ...


class SVIPosterior:
    """Posterior draws of a guide fitted by ``numpyro.infer.SVI``.

    Parameters
    ----------
    svi
        The ``SVI`` object, for its model and its guide.
    params
        Fitted parameters: ``svi_result.params``, or ``svi.get_params(state)``.
    model_args, model_kwargs
        What the model was fitted on.
    num_samples
        Number of draws.
    rng_key
        Key of the draws, which are taken once; ``jax.random.key(0)`` if not given.

    Raises
    ------
    ValueError
        If ``num_samples`` is not positive, or, in `get_samples`, the guide leaves out a latent site
        of the model.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> from numpyro import optim, sample
    >>> from numpyro.infer import Trace_ELBO, autoguide
    >>> def model(y):
    ...     skill = sample("skill", dist.Normal(0.0, 1.0))
    ...     sample("y", dist.Normal(skill, 1.0), obs=y)
    >>> svi = SVI(model, autoguide.AutoNormal(model), optim.Adam(0.1), Trace_ELBO())
    >>> fit = svi.run(jax.random.key(1), 50, 0.7, progress_bar=False)
    >>> posterior = SVIPosterior(svi, fit.params, model_args=(0.7,), num_samples=10)
    >>> posterior.get_samples()["skill"].shape
    (10,)
    """

    def __init__(
        self,
        svi: SVI,
        params: Mapping[str, Any],
        *,
        model_args: Sequence[Any] = (),
        model_kwargs: Mapping[str, Any] | None = None,
        num_samples: int = 1000,
        rng_key: jax.Array | None = None,
    ) -> None:
        num_samples = check_count(num_samples, "num_samples")
        self.model: Callable[..., Any] = svi.model
        self.guide: Callable[..., Any] = svi.guide
        self.guide_params = dict(params)
        self.model_args = tuple(model_args)
        self.model_kwargs = dict(model_kwargs or {})
        self.num_samples = num_samples
        self.rng_key = jax.random.key(0) if rng_key is None else rng_key

    @cached_property
    def _sites(self) -> dict[str, str]:
        """Types, ``sample`` or ``param``, of the model's sites that a draw gives values to."""
        model = substitute(seed(self.model, jax.random.key(0)), data=self.guide_params)
        sites = trace(model).get_trace(*self.model_args, **self.model_kwargs)
        return {
            name: site["type"]
            for name, site in sites.items()
            if site["type"] == "param" or (site["type"] == "sample" and not site["is_observed"])
        }

    @property
    def params(self) -> Arrays:
        """Fitted values of the model's own ``param`` sites, by name."""
        names = [name for name, kind in self._sites.items() if kind == "param"]
        return {name: np.asarray(self.guide_params[name]) for name in names}

    @cached_property
    def _draws(self) -> Arrays:
        """Draws of the latent sites and the broadcast params, ``(num_samples, ...)``."""
        predictive = Predictive(self.guide, params=self.guide_params, num_samples=self.num_samples)
        drawn = predictive(self.rng_key, *self.model_args, **self.model_kwargs)
        latents = [name for name, kind in self._sites.items() if kind == "sample"]
        missing = [name for name in latents if name not in drawn]
        if missing:
            raise ValueError(f"the guide draws no value for the model's sites {missing}")
        draws = {name: np.asarray(drawn[name]) for name in latents}
        for name, value in self.params.items():
            draws[name] = np.broadcast_to(value, (self.num_samples, *value.shape))
        return draws

    def get_samples(self, group_by_chain: bool = False) -> Arrays:
        """Return the draws of the model's latent and own ``param`` sites, the same at every call.

        Their shapes are (num_samples, ...), or with `group_by_chain` (1, num_samples, ...).
        """
        return {k: v[None] if group_by_chain else v for k, v in self._draws.items()}
