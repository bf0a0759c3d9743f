"""From the posterior of a fit to the comparisons that would tell most."""

import math

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_count
from bayesrank.active import Beliefs, FactoredBeliefs, bald, best_batch, best_pair_batch, best_pairs
from bayesrank.estimators.checks import check_pairs
from bayesrank.infer import EPResult, IntegratedEPResult, LargeEPResult

__all__ = ["questions"]


def questions(
    result: EPResult | IntegratedEPResult, likelihood: str, n: int, candidates: ArrayLike | None
) -> NDArray[np.intp]:
    """Choose pairs to compare next.

    Parameters
    ----------
    result
        EP's result on a program of `bayesrank.models.comparisons`.
    likelihood
        "probit", or "logit": its noise on the difference then counts as normal noise of the same
        variance.
    n, candidates
        Number of pairs, and the pairs to choose from.

    Returns
    -------
    ndarray
        Shape (n, 2), or fewer rows.

    Raises
    ------
    ValueError
        If an argument does not fit.
    """
    mean = result.mean["f"]
    noise = float(result.params.get("noise", result.mean.get("noise", 1.0)))
    if likelihood == "logit":
        noise *= math.pi / math.sqrt(6.0)  # two performances make up the noise of a difference
    n = check_count(n, "n")
    pairs = None if candidates is None else check_pairs(candidates, len(mean), "candidates")
    compared = np.asarray(result.model_args[1])
    if isinstance(result, LargeEPResult):
        factor, diagonal = result.posterior.factors()
        beliefs = FactoredBeliefs(mean, factor, diagonal, noise)
        found = best_pair_batch(beliefs, n, candidates=pairs, exclude=compared)
        kept = [each.pair for each in found if each.score > -np.inf]
        return np.array(kept, np.intp).reshape(-1, 2)
    with jax.enable_x64(True):
        beliefs = Beliefs(mean, result.covariance["f"], noise)
        choose = best_pairs if n == 1 else best_batch
        chosen, gains = choose(bald, beliefs, n, candidates=pairs, exclude=compared)
        kept = np.asarray(gains) > -np.inf
    return np.asarray(chosen, np.intp)[kept]
