"""The joint Gaussian of a program's latents, from the conditionals that the program states.

A program draws its latents one after another, each Gaussian given those before it, with a mean
affine in them: ``z_s | z_<s ~ N(c_s + J_s z_<s, Q_s)``. Means and covariances of the joint follow
site by site, without an inverse: ``K_ss = J_s K J_s' + Q_s`` and ``K_s,< = J_s K``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import transforms

from bayesrank.infer.gaussian.dense import DensePrior, DiagonalPrior
from bayesrank.infer.gaussian.low_rank import LowRank, LowRankPrior

_FAMILIES = (dist.Normal, dist.MultivariateNormal, dist.LowRankMultivariateNormal)
# What these make of a Gaussian is one, of fewer dimensions than its own for some.
_AFFINE_TRANSFORMS = (
    transforms.AffineTransform,
    transforms.DiscreteCosineTransform,
    transforms.HaarTransform,
    transforms.IdentityTransform,
    transforms.LowerCholeskyAffine,
    transforms.PackRealFastFourierCoefficientsTransform,
    transforms.PermuteTransform,
    transforms.RealFastFourierTransform,
    transforms.RecursiveLinearTransform,
    transforms.ReshapeTransform,
    transforms.ZeroSumTransform,
)


class GaussianForm(NamedTuple):
    """Location and spread that a Gaussian distribution states."""

    loc: Any  # shape of the site
    scale: Any  # standard deviations, shape of the site; None if multivariate
    covariance: Any  # (..., d, d), or a `LowRank`; None if elementwise
    proper: Any  # whether the spread is


class Conditional(NamedTuple):
    """A latent site given the latents before it."""

    loc: Array  # mean where those are zero, shape (n_s,)
    rows: Array | None  # ``J_s``, shape (n_s, latents before it), or None when it depends on none
    covariance: Any  # ``Q_s``, shape (n_s, n_s), or its diagonal (n_s,), or a `LowRank`
    proper: Array  # whether ``Q_s`` is positive definite


def unwrap(fn: dist.Distribution) -> tuple[dist.Distribution, Any]:
    """The distribution inside expansions, reinterpretations and masks; and the mask."""
    mask = None
    while isinstance(fn, (dist.Independent, dist.ExpandedDistribution, dist.MaskedDistribution)):
        if isinstance(fn, dist.MaskedDistribution):
            mask = fn._mask if mask is None else fn._mask & mask
        fn = fn.base_dist
    return fn, mask


def gaussian_form(fn: dist.Distribution, shape: tuple[int, ...]) -> GaussianForm | None:
    """Location and spread of a site of this shape, or None if it is of no known Gaussian family."""
    base, mask = unwrap(fn)
    if mask is not None:
        return None
    if isinstance(base, dist.Normal):
        loc, scale = (jnp.broadcast_to(_float(x), shape) for x in (base.loc, base.scale))
        return GaussianForm(loc, scale, None, jnp.all(scale > 0))
    if isinstance(base, dist.TransformedDistribution) and is_gaussian(base):
        return _transformed_form(base, shape)
    if not isinstance(base, (dist.MultivariateNormal, dist.LowRankMultivariateNormal)):
        return None
    if isinstance(base, dist.LowRankMultivariateNormal) and len(shape) == 1:
        factor, diagonal = _float(base.cov_factor), _float(base.cov_diag)
        proper = jnp.all(diagonal > 0) & jnp.all(jnp.isfinite(factor))
        loc = jnp.broadcast_to(_float(base.loc), shape)
        return GaussianForm(loc, None, LowRank(factor, diagonal), proper)
    covariance = _float(base.covariance_matrix)
    if isinstance(base, dist.MultivariateNormal):
        factor = _float(base.scale_tril)
    else:
        factor = jnp.linalg.cholesky(covariance)
    # Densities are computed from the lower half alone, the covariance from all of the factor.
    triangular = jnp.allclose(jnp.tril(factor), factor)
    proper = triangular & jnp.all(jnp.diagonal(factor, axis1=-2, axis2=-1) > 0)
    batch = (*shape[:-1], shape[-1], shape[-1])
    covariance = jnp.broadcast_to(after(covariance, factor), batch)
    return GaussianForm(jnp.broadcast_to(_float(base.loc), shape), None, covariance, proper)


def after(matrix: Array, decomposition: Array) -> Array:
    """A matrix that waits for a decomposition, or NaN; two at once can hang jaxlib 0.10."""
    return jnp.where(jnp.isnan(decomposition[..., :1, :1]), jnp.nan, matrix)


def is_gaussian(fn: dist.Distribution) -> bool:
    """Whether it is a Gaussian, maybe on a subspace, or an affine transform of one."""
    base, _ = unwrap(fn)
    if isinstance(base, dist.TransformedDistribution):
        return is_gaussian(base.base_dist) and all(map(_is_affine, base.transforms))
    return isinstance(base, _FAMILIES)


def _is_affine(transform: Any) -> bool:
    if isinstance(transform, transforms.ComposeTransform):
        return all(map(_is_affine, transform.parts))
    if isinstance(transform, transforms.IndependentTransform):
        return _is_affine(transform.base_transform)
    return any(isinstance(x, _AFFINE_TRANSFORMS) for x in (transform, transform.inv))


def _transformed_form(fn: dist.TransformedDistribution, shape: tuple[int, ...]) -> GaussianForm:
    """Location and covariance of an affine map of a Gaussian, all elements of a site at once."""
    inner = fn.base_dist.expand(shape[: len(shape) - fn.event_dim])
    form = gaussian_form(inner, inner.shape())
    if form is None:
        raise TypeError(f"{type(fn).__name__} is not Gaussian")
    transform = transforms.ComposeTransform(fn.transforms)
    # The map's slope is the same everywhere; at a constant, it depends on no latent.
    at = jnp.zeros(inner.shape(), jnp.result_type(float))
    slope = jax.jacfwd(transform)(at).reshape(-1, at.size)
    if form.scale is not None:
        root = slope * form.scale.reshape(-1)
        covariance = root @ root.T
    else:
        covariance = slope @ block_diagonal(as_matrix(form.covariance)) @ slope.T
    return GaussianForm(jnp.asarray(transform(form.loc)), None, covariance, form.proper)


def _float(x: Any) -> Array:
    return jnp.asarray(x, jnp.result_type(float))


def block_diagonal(matrices: Array) -> Array:
    """A batch of square matrices (..., d, d) as one block-diagonal matrix."""
    size = matrices.shape[-1]
    blocks = matrices.reshape(-1, size, size)
    count = blocks.shape[0]
    if count == 1:
        return blocks[0]
    spread = jnp.eye(count, dtype=blocks.dtype)[:, None, :, None] * blocks[:, :, None, :]
    return spread.reshape(count * size, count * size)


def joint_prior(
    conditionals: Sequence[Conditional],
) -> tuple[Array, DensePrior | DiagonalPrior | LowRankPrior]:
    """Mean (n,) of latents drawn in order; their Gaussian: diagonal, of low rank, or dense."""
    if all(c.rows is None and c.covariance.ndim == 1 for c in conditionals):
        return (
            jnp.concatenate([c.loc for c in conditionals]),
            DiagonalPrior(jnp.concatenate([c.covariance for c in conditionals])),
        )
    if all(c.rows is None and _is_thin(c.covariance) for c in conditionals):
        parts = [_low_rank(c.covariance) for c in conditionals]
        factor = jax.scipy.linalg.block_diag(*(part.factor for part in parts))
        diagonal = jnp.concatenate([part.diagonal for part in parts])
        loc = jnp.concatenate([c.loc for c in conditionals])
        return loc, LowRankPrior(LowRank(factor, diagonal))
    first = conditionals[0]
    mean, covariance = extend(first.loc, as_matrix(first.covariance), conditionals[1:])
    return mean, DensePrior(covariance)


def extend(
    mean: Array, covariance: Array, conditionals: Sequence[Conditional]
) -> tuple[Array, Array]:
    """Append sites in order to a joint Gaussian of mean (n,) and covariance (n, n)."""
    for site in conditionals:
        own = as_matrix(site.covariance)
        if site.rows is None:
            cross = jnp.zeros((own.shape[0], mean.shape[0]), mean.dtype)
            loc = site.loc
        else:
            cross = site.rows @ covariance
            own = own + cross @ site.rows.T
            loc = site.loc + site.rows @ mean
        covariance = jnp.block([[covariance, cross.T], [cross, own]])
        mean = jnp.concatenate([mean, loc])
    return mean, covariance


def as_matrix(covariance: Any) -> Array:
    """A covariance in any of its forms as a matrix, batches of matrices as they are."""
    if isinstance(covariance, LowRank):
        return covariance.dense()
    return jnp.diag(covariance) if covariance.ndim == 1 else covariance


def _is_thin(covariance: Any) -> bool:
    return isinstance(covariance, LowRank) or covariance.ndim == 1


def _low_rank(covariance: Any) -> LowRank:
    if isinstance(covariance, LowRank):
        return covariance
    return LowRank(jnp.zeros((covariance.size, 0), covariance.dtype), covariance)
