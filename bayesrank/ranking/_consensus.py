r"""One ranking out of many: the order that best stands for the whole posterior.

Which order is best depends on what a mistake costs. With :math:`R_i` the random rank of item
``i``, :math:`\pi_i` its place in the order and :math:`P_{ij}` the probability that ``i`` beats
``j``:

* the *Spearman* cost :math:`E \sum_i (R_i - \pi_i)^2` is least when items are sorted by expected
  rank: it is a constant minus :math:`2 \sum_i \pi_i E R_i`, and the rearrangement inequality does
  the rest;
* the *Kendall* cost, the expected number of pairs in the wrong order, is
  :math:`\sum_{i \text{ before } j} P_{ji}`. It is least when every pair stands with its more
  probable winner first, which is possible when "beats with probability above one half" is
  transitive. For a Gaussian posterior it always is, and the order is that of the means.

References
----------
.. [1] J. G. Kemeny (1959), Mathematics without numbers, *Daedalus* 88(4).
.. [2] A. H. Copeland (1951), A reasonable social welfare function, University of Michigan.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesrank.ranking._pairwise import pairwise_probability
from bayesrank.ranking._ranks import expected_rank
from bayesrank.ranking._validate import Array, check_samples

ConsensusMethod = Literal["expected_rank", "mean", "copeland", "kemeny"]


def _best_first(score: Array) -> Array:
    """Return item indices by falling score; equal scores by rising index."""
    return np.argsort(-score, kind="stable")


def _copeland(probability: Array) -> Array:
    """Order by the number of opponents beaten with probability above one half."""
    margin = np.round(probability - probability.T, 12)
    return _best_first(np.sign(margin).sum(axis=1))


def _move_items(order: Array, probability: Array) -> Array:
    """Move single items to other places as long as that lowers the Kendall cost."""
    margin = probability - probability.T
    improved = True
    while improved:
        improved = False
        for item in order.copy():
            place = int(np.flatnonzero(order == item)[0])
            rest = np.delete(order, place)
            # Cost of standing at place q of the rest, up to a constant: what stands before the
            # item should beat it.
            cost = np.concatenate([[0.0], np.cumsum(margin[item, rest])])
            target = int(np.argmin(cost))
            if cost[target] < cost[place] - 1e-9:
                order = np.insert(rest, target, item)
                improved = True
    return order


def consensus_ranking(samples: ArrayLike, method: ConsensusMethod = "expected_rank") -> Array:
    """Return one order of the items that stands for the posterior over orders.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    method
        ``"expected_rank"`` (default) minimises the expected sum of squared rank errors
        (Spearman), exactly. Robust to skewed and heavy-tailed posteriors.

        ``"mean"`` sorts by posterior mean skill. For a Gaussian posterior this minimises the
        expected number of pairs in the wrong order (Kendall).

        ``"copeland"`` sorts by the number of opponents that an item beats with probability above
        one half. An item that beats all others comes first; the Kendall cost is least when the
        majority relation is transitive.

        ``"kemeny"`` starts at Copeland's order and moves single items as long as the Kendall cost
        falls: the least cost when the majority relation is transitive, otherwise an order that
        no move of one item improves. (The exact minimum is NP-hard in general.)

    Returns
    -------
    Array
        Shape ``(n,)``: item indices, best first. Exact ties of the criterion go to the item with
        the smaller index.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array or ``method`` is not known.

    Examples
    --------
    >>> consensus_ranking([[2.0, 5.0, 1.0], [3.0, 4.0, 7.0], [1.0, 6.0, 0.0]])
    array([1, 0, 2])
    """
    array = check_samples(samples)
    if method == "expected_rank":
        return _best_first(-expected_rank(array))
    if method == "mean":
        return _best_first(array.mean(axis=0, dtype=np.float64))
    if method == "copeland":
        return _copeland(pairwise_probability(array))
    if method == "kemeny":
        probability = pairwise_probability(array)
        return _move_items(_copeland(probability), probability)
    raise ValueError(
        f"method must be 'expected_rank', 'mean', 'copeland' or 'kemeny', got {method!r}"
    )
