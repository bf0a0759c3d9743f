"""`LambdaRank`: scores learned along a field of lambda."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from bayesrank._process import enter_jax
from bayesrank._validate import check_choice, check_count, check_not_negative, check_positive
from bayesrank.datasets import QueryLists
from bayesrank.estimators.base import seed_of
from bayesrank.estimators.checks import standardization
from bayesrank.estimators.lists import ListEstimator
from bayesrank.infer import EP, EPResult
from bayesrank.models import weighted_preferences
from bayesrank.solvers.lambda_rank import (
    Field,
    LambdaField,
    apply_network,
    fit_differentiable,
    fit_trees,
    frozen_pairs,
    init_network,
)

Array = NDArray[np.float64]


class LambdaRank(ListEstimator):
    """Learn to rank along a field, which says how each item of a list should move.

    The method is LambdaRank [1]_.

    Parameters
    ----------
    field : {"ranknet", "margin", "ndcg", "loss2", "loss2++", "mrr", "wta"} or callable
        "ranknet", the default, and "margin" weigh all pairs of a list alike; the others weigh them
        by ranks, see `bayesrank.solvers.lambda_rank.Field`. With hundreds of queries rank weights
        hurt linear models; with thousands, or trees, try "ndcg". Fields with gains ("ndcg",
        "loss2", "loss2++") take whole grades from 0; above 0 is relevant for "mrr" and "wta". A JAX
        function takes ``(scores, labels, where)`` of one padded list and returns ``(lam,
        curvature)``.
    model : {"linear", "network", "trees"}, default "linear"
        Linear scores; a network with tanh layers; gradient-boosted trees of LightGBM, which is an
        extra (``pip install 'bayesrank[trees]'``).
    k : int, optional
        Ranks that count in the field "ndcg"; all by default.
    sigma : float, default 1.0
        Steepness of the logistic; its inverse is the unit of scores.
    delta : float, default 1.0
        Margin of the field "margin": how far ahead the better item is to be.
    l2 : float, default 0.01
        Pull of the weights to zero, for "linear" and "network".
    hidden : sequence of int, default (16,)
        Widths of the network's layers.
    num_steps : int, default 300
        Steps of Adam for "linear" and "network".
    learning_rate : float, default 0.01
        Their size at the start.
    num_trees : int, default 100
        Trees of "trees".
    tree_params : mapping, optional
        Parameters of LightGBM.
    random_state : int, RandomState instance or None, default 0
        Seed of the network's first weights.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Weights of the features, for the linear model.
    booster_ : lightgbm.Booster
        For trees.
    feature_mean_, feature_scale_ : ndarray of shape (d,)
        What features are centred and divided by, for "linear" and "network".

    References
    ----------
    .. [1] Burges, C. J. C. (2005). Ranking as learning structured outputs. NIPS Workshop on
       Learning to Rank.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank import LambdaRank
    >>> X = np.array([[0.0], [1.0], [2.0], [0.5], [3.0]])
    >>> model = LambdaRank(num_steps=50).fit(X, [0, 1, 2, 0, 2], ["a", "a", "a", "b", "b"])
    >>> bool(model.predict([[4.0]])[0] > model.predict([[1.0]])[0])
    True
    """

    def __init__(
        self,
        *,
        field: Literal["ranknet", "margin", "ndcg", "loss2", "loss2++", "mrr", "wta"]
        | LambdaField = "ranknet",
        model: Literal["linear", "network", "trees"] = "linear",
        k: int | None = None,
        sigma: float = 1.0,
        delta: float = 1.0,
        l2: float = 0.01,
        hidden: Sequence[int] = (16,),
        num_steps: int = 300,
        learning_rate: float = 0.01,
        num_trees: int = 100,
        tree_params: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.field = field
        self.model = model
        self.k = k
        self.sigma = sigma
        self.delta = delta
        self.l2 = l2
        self.hidden = hidden
        self.num_steps = num_steps
        self.learning_rate = learning_rate
        self.num_trees = num_trees
        self.tree_params = tree_params
        self.random_state = random_state

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if "booster_" in state:  # as text, which a file can keep
            state["booster_"] = state["booster_"].model_to_string(num_iteration=-1)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "booster_" in state:
            from lightgbm import Booster

            self.booster_ = Booster(model_str=state["booster_"])

    def _learn(self, rows: Any, grades: Array, lists: QueryLists) -> None:
        field = self._check_options()
        if isinstance(field, Field):
            field.check_labels(lists.unsort(grades))
        spread = np.maximum.reduceat(grades, lists.starts) - np.minimum.reduceat(
            grades, lists.starts
        )
        if not spread.any():
            raise ValueError(
                "y is the same within every list; give lists with two different grades"
            )
        self._grades, self._lists = grades, lists
        if self.model == "trees":
            params = self.tree_params or {}
            trees = {"num_trees": self.num_trees, "params": params}
            self.booster_ = fit_trees(rows, grades, lists, field, **trees)
        else:
            self._learn_network(_dense(rows), field)

    def _learn_network(self, dense: Array, field: LambdaField) -> None:
        """Learn the weights of a network, or of a linear score."""
        self.feature_mean_, self.feature_scale_, _ = standardization(dense)
        seed = seed_of(self.random_state)
        hidden = tuple(self.hidden) if self.model == "network" else ()
        self._rows = self._standard(dense)
        self._layers = fit_differentiable(
            self._rows,
            self._grades,
            self._lists,
            field,
            init_network(np.random.default_rng(seed), dense.shape[1], hidden),
            num_steps=self.num_steps,
            learning_rate=float(self.learning_rate),
            l2=float(self.l2),
        )
        if self.model == "linear":
            self.coef_ = self._layers[0][0][:, 0] / self.feature_scale_

    def _scores(self, rows: Any) -> Array:
        enter_jax()
        if self.model == "trees":
            return np.asarray(self.booster_.predict(rows))
        return self._score_standard(self._standard(_dense(rows)))

    def posterior(
        self,
        *,
        field: Literal["ranknet", "ndcg", "loss2", "loss2++", "mrr", "wta"] = "ndcg",
        scale: float = 1.0,
        num_samples: int = 1000,
        seed: int = 0,
    ) -> EPResult:
        """Posterior of the linear weights where the field is frozen at the fitted scores.

        A field of ranks has no potential, and so no posterior of its own. Its weights at these
        scores, summing to a list's items less one, make `bayesrank.models.weighted_preferences`.
        Pairs count as independent: 90% intervals of weights cover 91% with lists of two items, and
        86% with five.

        Parameters
        ----------
        field : {"ranknet", "ndcg", "loss2", "loss2++", "mrr", "wta"}, default "ndcg"
            The field to freeze.
        scale : float, default 1.0
            Prior standard deviation of a weight of standardised features.
        num_samples, seed : int
            Draws that the result keeps, and their seed.

        Returns
        -------
        EPResult
            Site ``w``, shape (d,), weights of standardised features; its `model_args` and
            `model_kwargs` are what NUTS and SVI take as well.

        Raises
        ------
        ValueError
            If the model is not linear, or the field is "margin".
        """
        check_is_fitted(self)
        if self.model != "linear":
            raise ValueError(f"model is {self.model!r}; a posterior needs model='linear'")
        if field == "margin":
            raise ValueError(
                "field is 'margin', but the frozen program is logistic; choose another field"
            )
        frozen = Field(field, self.k, float(self.sigma))
        frozen.check_labels(self._lists.unsort(self._grades))
        pairs, weights = frozen_pairs(
            frozen, self._score_standard(self._rows), self._grades, self._lists
        )
        codes = self._lists.codes[pairs[:, 0]]
        total = np.bincount(codes, weights, minlength=len(self._lists.sizes))
        weights = weights * ((self._lists.sizes - 1)[codes] / total[codes])
        return EP(weighted_preferences).run(
            jax.random.key(seed),
            self._rows,
            pairs,
            weights,
            scale=float(scale),
            sigma=float(self.sigma),
            num_samples=num_samples,
        )

    def score_draws(self, X: Any, posterior: EPResult) -> Array:
        """Posterior draws of scores: with `bayesrank.metrics`, the distribution of a metric.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features of items.
        posterior : EPResult
            What `posterior` returned.

        Returns
        -------
        ndarray of shape (num_samples, n)
        """
        check_is_fitted(self)
        rows = self._standard(_dense(self._check_features(X)))
        return np.asarray(posterior.get_samples()["w"]) @ rows.T

    def _standard(self, rows: Array) -> Array:
        return (rows - self.feature_mean_) / self.feature_scale_

    def _score_standard(self, rows: Array) -> Array:
        with jax.enable_x64(True):
            return np.asarray(apply_network(self._layers, rows))

    def _check_options(self) -> LambdaField:
        """Return the field."""
        check_choice(self.model, "model", "linear", "network", "trees")
        for name in ("num_steps", "num_trees"):
            check_count(getattr(self, name), name)
        if self.k is not None:
            check_count(self.k, "k")
        if not np.iterable(self.hidden):
            raise ValueError(f"hidden is {self.hidden!r}; pass the width of each layer, as (16,)")
        for width in self.hidden:
            check_count(width, "hidden")
        for name in ("learning_rate", "sigma", "delta"):
            check_positive(getattr(self, name), name)
        check_not_negative(self.l2, "l2")
        if callable(self.field):
            return self.field
        return Field(self.field, self.k, float(self.sigma), delta=float(self.delta))


def _dense(rows: Any) -> Array:
    return rows.toarray() if sparse.issparse(rows) else rows
