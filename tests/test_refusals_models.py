"""What the programs of the package refuse of their arguments."""

from typing import Any

import numpy as np
from numpyro import handlers
from refusals import each, rows

from bayesrank import PreferenceGP, gp
from bayesrank.models import ordinal_version_space, preference_gp, thurstone

RNG = np.random.default_rng(11)
X, X_NEW, K = RNG.normal(size=(8, 2)), RNG.normal(size=(3, 2)), 3
Y = 1 + np.arange(8) % K
COMPARISONS = np.array([RNG.choice(8, size=2, replace=False) for _ in range(20)])
OUTCOMES = RNG.integers(0, 3, size=20)
BY_FEATURES = {"X": X, "comparisons": COMPARISONS}
ALONE = {"num_items": 8, "comparisons": COMPARISONS}
GRAPH = gp.knn_graph(X, 3)
L = gp.laplacian(GRAPH).toarray()


def _trace(model: Any, *args: Any, **kwargs: Any) -> Any:
    return handlers.trace(handlers.seed(model, 0)).get_trace(*args, **kwargs)


def _sites(*args: Any, **kwargs: Any) -> Any:
    return _trace(ordinal_version_space, *args, **kwargs)


def _with(array: Any, index: Any, value: Any) -> Any:
    changed = np.array(array)
    changed[index] = value
    return changed


REFUSED = [
    *rows(
        lambda X, y, num_levels: _sites(X, y, num_levels=num_levels),
        (X, Y, 1, "num_levels is 1"),
        (X, Y, 2.5, "num_levels is 2.5"),
        (X[0], Y, K, r"X has shape \(2,\)"),
        (X, Y[:5], K, r"y has shape \(5,\)"),
        (X, Y.astype(float), K, "dtype float64"),
        (X, Y - 1, K, r"y is 0 in row \d+; pass levels from 1 to 3"),
        (X, Y, 2, r"y is 3 in row \d+; pass levels from 1 to 2"),
    ),
    *rows(
        lambda model, given, changed: _trace(model, **(given | changed)),
        *(
            (preference_gp, BY_FEATURES, changed, message)
            for changed, message in (
                ({"X": X[:, 0]}, r"X has shape \(8,\); pass \(n, d\)"),
                ({"X": X[:0]}, r"X has shape \(0, 2\)"),
                ({"X": X.astype(str)}, "X has dtype <U32; pass a table of numbers"),
                ({"X": _with(X, (3, 1), np.nan)}, "X is nan in row 3, column 1; remove"),
                ({"X": _with(X, (0, 0), -np.inf)}, "X is -inf in row 0, column 0"),
                ({"X_new": X_NEW[:, :1]}, "X_new has 1 columns, but X has 2; describe the new it"),
                ({"X_new": _with(X_NEW, (2, 0), np.nan)}, "X_new is nan in row 2"),
                ({"comparisons": COMPARISONS[:, :1]}, r"comparisons has shape \(20, 1\)"),
                ({"comparisons": COMPARISONS[:0]}, "comparisons has no rows; pass None"),
                ({"comparisons": COMPARISONS * 1.0}, "comparisons has .* dtype float64"),
                (
                    {"comparisons": _with(COMPARISONS, (4, 1), 8)},
                    "comparisons names item 8 in row 4, but the 8 items are numbered 0 to 7",
                ),
            )
        ),
        *(
            (thurstone, ALONE, changed, message)
            for changed, message in (
                ({"comparisons": _with(COMPARISONS, (2, 0), -1)}, "names item -1 in row 2"),
                (
                    {"comparisons": _with(COMPARISONS, 5, [3, 3])},
                    "compares item 3 with itself in row",
                ),
                ({"comparisons": None, "outcomes": OUTCOMES}, "outcomes is given without compari"),
                ({"outcomes": OUTCOMES[1:]}, r"outcomes has shape \(19,\) .*; pass \(20,\)"),
                ({"outcomes": OUTCOMES * 1.0}, "outcomes has .* dtype float64"),
                (
                    {"outcomes": _with(OUTCOMES, 7, 3)},
                    "outcomes is 3 in row 7; pass 2 if the first",
                ),
                ({"likelihood": "cauchit"}, "likelihood is 'cauchit'; choose 'probit' or 'logit'"),
                ({"comparisons": None, "weights": [1.0]}, "weights is given without comparisons"),
                ({"weights": [1.0]}, r"weights has shape \(1,\)"),
                ({"weights": np.arange(20)}, "weights is 0 in row 0; pass positive numbers"),
                ({"num_items": 0}, "num_items is 0; pass a whole number from 1 on"),
                ({"num_items": 2.5}, "num_items is 2.5; pass a whole number from 1 on"),
            )
        ),
    ),
    *rows(
        lambda laplacian: _trace(preference_gp, X, laplacian=laplacian),
        (L[:5, :5], "laplacian has shape (5, 5); pass (8, 8), a row and a column for each row"),
        (L.astype(str), "laplacian has dtype <U32; pass a matrix of numbers"),
        (np.where(L == L[0, 0], np.nan, L), "laplacian is nan in row 0, column 0"),
        (np.triu(L), "laplacian is not symmetric; make it of a graph whose edges"),
        (GRAPH, "laplacian is not positive semi-definite, as a Laplacian is; pass"),
        (-L, "laplacian is not positive semi-definite"),
        literal=True,
    ),
    *rows(
        lambda laplacian: PreferenceGP(laplacian=laplacian).fit(X, [(7, 0)]),
        (8, "laplacian is 8; as a number of nearest neighbours of each of the 8 items"),
        (0, "laplacian is 0; as a number of nearest neighbours"),
        ("knn", "laplacian is 'knn'; pass a number of nearest neighbours, the Laplacian of"),
        (True, "laplacian is True; pass a number of nearest neighbours"),
        (L[:5, :5], "laplacian has shape (5, 5); pass (8, 8)"),
        (lambda X: gp.knn_graph(X, 3), "laplacian is not positive semi-definite"),
        literal=True,
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
