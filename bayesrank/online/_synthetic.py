"""The paper's synthetic stream."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EDGES = np.array([-1.0, -0.1, 0.25, 1.0])


class SyntheticStream(NamedTuple):
    """Examples with known rules.

    Attributes
    ----------
    X
        Features in the unit square, shape (n, 2).
    y
        Levels from 1 to 5, shape (n,).
    ideal
        Levels that they would have without noise, shape (n,): nobody can predict better.

    Examples
    --------
    >>> from bayesrank.online import synthetic_stream
    >>> synthetic_stream(100, seed=0).X.shape
    (100, 2)
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    ideal: NDArray[np.int64]


def synthetic_stream(num_examples: int, seed: int, noise: float = 0.125) -> SyntheticStream:
    r"""Draw examples of five levels, :math:`\max\{r : 10 (x_1 - .5)(x_2 - .5) + n > c_r\}`.

    The features are uniform in the unit square, the edges are -1, -0.1, 0.25 and 1, and the noise
    :math:`n` is normal. A kernel of degree two can express the rule.

    Parameters
    ----------
    num_examples : int
        Number of examples.
    seed : int
        Seed of the draw.
    noise : float, default 0.125
        Standard deviation of the noise.

    References
    ----------
    .. [1] Herbrich, R., Graepel, T. and Obermayer, K. (2000). Large margin rank boundaries for
       ordinal regression. In: Advances in Large Margin Classifiers, MIT Press.
    .. [2] Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron
       algorithm. ICML, section 4.1.

    Examples
    --------
    >>> stream = synthetic_stream(1000, seed=0)
    >>> stream.X.shape, int(stream.y.min()), int(stream.y.max())
    ((1000, 2), 1, 5)
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(num_examples, 2))
    score = 10.0 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    noisy = score + noise * rng.normal(size=num_examples)
    return SyntheticStream(X, _levels(noisy), _levels(score))


def _levels(score: NDArray[np.float64]) -> NDArray[np.int64]:
    return 1 + (score[:, None] > EDGES).sum(1)
