r"""Whitening: Gaussian sites written as standard normal ones.

A site :math:`f \sim N(\mu, L L')` becomes :math:`z \sim N(0, I)` and :math:`f = \mu + L z`. The
program means the same, but samplers and guides work on :math:`z`, whose prior has no correlations
and one scale. The data say little about most directions of a smooth Gaussian process, so its
posterior is then well scaled too, and NUTS mixes [1]_, [2]_. In the centred form its step is bound
to the smallest eigenvalue of :math:`L L'`.

References
----------
.. [1] Papaspiliopoulos, O., Roberts, G. O. and Sköld, M. (2007). A general framework for the
   parametrization of hierarchical models. Statistical Science, 22, 59-73.
.. [2] Murray, I. and Adams, R. P. (2010). Slice sampling covariance hyperparameters of latent
   Gaussian models. Advances in Neural Information Processing Systems 23.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpyro import handlers
from numpyro.infer.reparam import Reparam
from tinygp.numpyro_support import TinyDistribution

from bayesrank.infer.reader.prior import is_gaussian

_DONE = "is_whitened"


class WhitenReparam(Reparam):
    """Draw a Gaussian site as its location plus a root of its covariance times a white site.

    The white site has the site's name with ``_white`` appended, its shape, and a standard normal
    prior; the site itself becomes deterministic. Use it in the ``config`` of
    `numpyro.handlers.reparam`, for ``Normal``, ``MultivariateNormal``,
    ``LowRankMultivariateNormal``, tinygp's ``numpyro_dist()``, and affine transforms of these,
    expanded or in plates. The white site of a ``ZeroSumNormal`` has an element less along each
    axis. `whiten` serves all sites of a program at once.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> def model(K):
    ...     numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=K))
    >>> white = handlers.reparam(model, config={"f": WhitenReparam()})
    >>> sites = handlers.trace(handlers.seed(white, jax.random.key(0))).get_trace(jnp.eye(2))
    >>> {name: site["type"] for name, site in sites.items()}
    {'f_white': 'sample', 'f': 'deterministic'}
    """

    def __call__(self, name: str, fn: dist.Distribution, obs: Any) -> tuple[None, Array]:
        """Replace a site, for `numpyro.handlers.reparam`; a `ValueError` if it is not served."""
        if obs is not None:
            raise ValueError(
                f"site {name!r} is observed or has its value fixed, so it cannot be whitened; "
                "leave "
                "it out of the config"
            )
        base, batch_shape, event_dim = self._unwrap(fn)
        if not _is_served(base):
            raise ValueError(
                f"site {name!r} ({type(base).__name__}) cannot be whitened: only Normal, "
                "MultivariateNormal, LowRankMultivariateNormal, tinygp's distributions and affine "
                "transforms of these can, without a mask; leave it out of the config"
            )
        standard = dist.Normal(jnp.zeros(()), jnp.ones(()))
        shape = (*batch_shape, *_white_shape(base)[len(base.batch_shape) :])
        white_fn = standard.expand(shape).to_event(event_dim)
        white = numpyro.sample(f"{name}_white", white_fn, infer={_DONE: True})
        return None, _colour(base, jnp.asarray(white))


def whiten(model: Callable[..., Any]) -> Callable[..., Any]:
    """Whiten every latent Gaussian site of a program that `WhitenReparam` serves.

    The new program leaves alone observed sites and sites whose value a handler inside has fixed.
    The same goes for sites under a mask, a scale or a ``sample_shape``: replacing these would
    change the density by a factor.

    Parameters
    ----------
    model
        A NumPyro program.

    Examples
    --------
    Run NUTS on the white program; its draws have the program's own sites as well.

    >>> import jax
    >>> from numpyro.infer import MCMC, NUTS
    >>> def model(y):
    ...     spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    ...     skill = numpyro.sample("skill", dist.Normal(0.0, spread).expand([3]))
    ...     numpyro.sample("y", dist.Normal(skill, 1.0), obs=y)
    >>> mcmc = MCMC(NUTS(whiten(model)), num_warmup=500, num_samples=1000)
    >>> sites = handlers.trace(handlers.seed(whiten(model), jax.random.key(0))).get_trace(0.5)
    >>> list(sites)
    ['spread', 'skill_white', 'skill', 'y']
    """
    return handlers.reparam(model, config=_choose)


def _choose(site: dict[str, Any]) -> WhitenReparam | None:
    """The reparameterisation of a site under `whiten`, or None."""
    if site["is_observed"] or site["value"] is not None or site["infer"].get(_DONE):
        return None
    if site["scale"] is not None or site["kwargs"].get("sample_shape"):
        return None
    base = site["fn"]
    while isinstance(base, (dist.Independent, dist.ExpandedDistribution)):
        base = base.base_dist
    return WhitenReparam() if _is_served(base) else None


def _white_shape(base: dist.Distribution) -> tuple[int, ...]:
    while isinstance(base, dist.TransformedDistribution):
        base = base.base_dist
    return base.shape()


def _is_served(base: dist.Distribution) -> bool:
    if isinstance(base, dist.TransformedDistribution) and not is_gaussian(base):
        return False
    return _colour.dispatch(type(base)) is not _colour.dispatch(object)


@singledispatch
def _colour(fn: Any, white: Array) -> Array:
    """Turn standard normal draws into draws of a Gaussian distribution."""
    raise NotImplementedError(f"{type(fn).__name__} cannot be whitened")


@_colour.register
def _(fn: dist.Normal, white: Array) -> Array:
    return jnp.asarray(fn.loc) + jnp.asarray(fn.scale) * white


@_colour.register
def _(fn: dist.MultivariateNormal, white: Array) -> Array:
    return _affine(fn.loc, jnp.asarray(fn.scale_tril), white)


@_colour.register(dist.LowRankMultivariateNormal)
@_colour.register(TinyDistribution)
def _(fn: Any, white: Array) -> Array:
    return _affine(fn.loc, jnp.linalg.cholesky(fn.covariance_matrix), white)


@_colour.register
def _(fn: dist.TransformedDistribution, white: Array) -> Array:
    base: Any = fn.base_dist
    while isinstance(base, (dist.Independent, dist.ExpandedDistribution)):
        base = base.base_dist
    value: Any = _colour(base, white)
    for transform in fn.transforms:
        value = transform(value)
    return jnp.asarray(value)


def _affine(loc: ArrayLike, root: Array, white: Array) -> Array:
    return jnp.asarray(loc) + jnp.matmul(root, white[..., None])[..., 0]
