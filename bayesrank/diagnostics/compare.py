"""Which of several programs describes the same data best: by evidence, and by leaving out.

The *evidence* of a program is the density that it gave the data before it saw them. Its logarithm
sums how well each observation was predicted from those before it, so a program pays for what it has
to learn. With equal prior odds, differences are log odds between programs. *Leaving one out* asks
how well each observation is predicted from all others [1]_. It hardly depends on priors, and says
nothing of which program is true.

References
----------
.. [1] Vehtari, A., Gelman, A. and Gabry, J. (2017). Practical Bayesian model evaluation using
   leave-one-out cross-validation and WAIC. Statistics and Computing, 27, 1413-1432.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from bayesrank._arviz import import_arviz
from bayesrank._stack import outside
from bayesrank.diagnostics.crosscheck_result import aligned
from bayesrank.infer import EPResult
from bayesrank.infer.spi import take_inventory

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

_TOO_MANY = 0.02
_WIDTH = 100


class _LeaveOneOut(NamedTuple):
    """PSIS-LOO of one program: its parts, and how many of them cannot be relied on."""

    parts: Array
    num_effective: float
    num_unreliable: int

    @property
    def total(self) -> float:
        return float(self.parts.sum())


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Programs compared on the same data; print it for the table and the notes.

    Attributes
    ----------
    names
        Names of the programs, best first by leaving one out.
    log_evidence
        Log evidence of each program, in nats; NaN for results that have none.
    probability
        Probability of each program, if one of them is true and all were equally probable before;
        NaN unless all have an evidence.
    elpd
        Expected log density of new data of the same number, in nats: the sum over observations of
        the log density of each given all others.
    elpd_difference, difference_error
        By how much that is below the best one's, and the standard error of the difference; zero for
        the best.
    num_effective
        Effective number of parameters.
    num_unreliable
        Number of observations that matter too much for their leaving out to be computed well.
    num_observations
        Number of observations.
    notes
        Warnings about the numbers.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> from bayesrank.diagnostics import compare
    >>> wider = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 9.0})
    >>> compare({"narrow": result, "wide": wider}).num_observations
    3
    """

    names: tuple[str, ...]
    log_evidence: Array
    probability: Array
    elpd: Array
    elpd_difference: Array
    difference_error: Array
    num_effective: Array
    num_unreliable: Array
    num_observations: int
    notes: tuple[str, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """The table, one row for each program, best first, with the attributes as columns."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in _COLUMNS}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="program"))

    def __str__(self) -> str:
        """Lay out the table and the notes."""
        cells = [("program", *_HEADER)]
        for name, row in zip(self.names, self.to_dataframe().to_numpy(), strict=True):
            formats = zip(row, _FORMATS, strict=True)
            cells.append((name, *("-" if np.isnan(x) else format(x, f) for x, f in formats)))
        return "\n".join([*aligned(cells, 1), "", *(fill(note, _WIDTH) for note in self.notes)])


_COLUMNS = {
    "log_evidence": ("log evidence", ".2f"),
    "probability": ("probability", ".3f"),
    "elpd": ("left out", ".2f"),
    "elpd_difference": ("worse by", ".2f"),
    "difference_error": ("± error", ".2f"),
    "num_effective": ("parameters", ".1f"),
    "num_unreliable": ("unreliable", ".0f"),
}
_HEADER = tuple(header for header, _ in _COLUMNS.values())
_FORMATS = tuple(style for _, style in _COLUMNS.values())


def compare(results: Mapping[str, Any]) -> ModelComparison:
    """Compare programs that were run on the same data.

    Parameters
    ----------
    results
        Results of at least two programs by name: of `EP`, ``numpyro.infer.MCMC`` objects, or
        whatever else `bayesrank.to_arviz` takes.

    Returns
    -------
    ModelComparison
        ``print`` it, or call ``to_dataframe()``.

    Raises
    ------
    ValueError
        If there are fewer than two results or names, a program observes nothing, or their data
        differ.

    Warns
    -----
    UserWarning
        If the data may differ: as many observations, but of other pairs of items.

    Notes
    -----
    Where EP was run with hyperparameters="map", the numbers flatter the program, as the same data
    taught them; its default averages over them instead. Leaving out is computed by Pareto-smoothed
    importance sampling (ArviZ).

    Examples
    --------
    >>> import jax, numpyro, numpyro.distributions as dist
    >>> from bayesrank.diagnostics import compare
    >>> from bayesrank.infer import EP
    >>> def model(y, scale):
    ...     level = numpyro.sample("level", dist.Normal(0.0, scale))
    ...     numpyro.sample("y", dist.Normal(level, 1.0).expand([3]), obs=y)
    >>> y = np.array([2.0, 3.0, 2.5])
    >>> narrow, wide = (EP(model).run(jax.random.key(0), y, scale) for scale in (0.1, 3.0))
    >>> compare({"narrow": narrow, "wide": wide}).names
    ('wide', 'narrow')
    """
    from bayesrank.inferencedata import to_arviz

    if not isinstance(results, Mapping) or len(results) < 2:
        raise ValueError("results must be a mapping from names to at least two results to compare")
    by_name = {str(name): result for name, result in results.items()}
    if len(by_name) < len(results):
        raise ValueError(
            f"results has names that are the same as text, {list(results)}; give each a name of "
            "its own"
        )
    data = {name: to_arviz(result, num_predictive=0) for name, result in by_name.items()}
    _check_observed(data)
    _check_arguments(by_name)
    left_out = _without_masked({name: _leave_one_out(data[name]) for name in by_name})
    names = sorted(by_name, key=lambda name: -left_out[name].total)
    evidence = np.array([float(getattr(by_name[k], "log_evidence", np.nan)) for k in names])
    best = left_out[names[0]].parts
    differences = [best - left_out[name].parts for name in names]
    return ModelComparison(
        tuple(names),
        evidence,
        softmax(evidence) if np.isfinite(evidence).all() else np.full(len(names), np.nan),
        np.array([left_out[name].total for name in names]),
        np.array([d.sum() for d in differences]),
        np.array([np.sqrt(d.size) * d.std() for d in differences]),
        np.array([left_out[name].num_effective for name in names]),
        np.array([left_out[name].num_unreliable for name in names]),
        best.size,
        tuple(_notes({name: by_name[name] for name in names}, evidence, left_out)),
    )


def _leave_one_out(data: Any) -> _LeaveOneOut:
    """PSIS-LOO over all observations of all sites."""
    import xarray as xr  # a fit does not wait for it

    az = import_arviz()

    flat = [
        np.asarray(values).reshape(*values.shape[:2], -1)
        for _, values in sorted(data["log_likelihood"].data_vars.items())
    ]
    every = np.concatenate(flat, axis=2)
    # A constant density, that of a masked element among others, is the same if it is left out.
    parts, varies = every[0, 0].astype(float), (every != every[:1, :1]).any(axis=(0, 1))
    if not varies.any():
        return _LeaveOneOut(parts, 0.0, 0)
    density = xr.Dataset({"all": (("chain", "draw", "observation"), every[:, :, varies])})
    posterior = data["posterior"]
    posterior = posterior if isinstance(posterior, xr.Dataset) else posterior.to_dataset()
    groups = {"posterior": posterior, "log_likelihood": density}
    container = vars(az).get("InferenceData")  # ArviZ 1.x answers getattr, with a warning
    tree: Any = xr.DataTree.from_dict(groups) if container is None else container(**groups)
    # What ArviZ warns of is counted and told in the notes.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        loo = az.loo(tree, pointwise=True)
    old = hasattr(loo, "loo_i")  # ArviZ before 1.0
    parts[varies] = np.asarray(loo.loo_i if old else loo.elpd_i, float)
    unreliable = int(np.sum(np.asarray(loo.pareto_k) > loo.good_k))
    return _LeaveOneOut(parts, float(loo.p_loo if old else loo.p), unreliable)


def _without_masked(left_out: Mapping[str, _LeaveOneOut]) -> dict[str, _LeaveOneOut]:
    """Leave out the elements that count in no program: those that all of them mask."""
    counts = np.any([entry.parts != 0.0 for entry in left_out.values()], axis=0)
    return {k: entry._replace(parts=entry.parts[counts]) for k, entry in left_out.items()}


# ---------------------------------------------------------------- whether the data are the same


def _check_observed(data: Mapping[str, Any]) -> None:
    first, *others = data
    groups = {name: _groups_of(entry) for name, entry in data.items()}
    for name in data:
        if "log_likelihood" not in groups[name]:
            raise ValueError(f"program {name!r} observes nothing, so there is nothing to compare")
    sites = {
        name: {k: np.asarray(v) for k, v in entry["observed_data"].data_vars.items()}
        for name, entry in data.items()
    }
    for name in others:
        if sites[first].keys() != sites[name].keys():
            raise ValueError(
                f"programs {first!r} and {name!r} observe different sites, {sorted(sites[first])} "
                f"and {sorted(sites[name])}; programs to compare have to give a density to the "
                "same data under the same names"
            )
        for site, values in sites[first].items():
            if values.shape != sites[name][site].shape:
                raise ValueError(
                    f"site {site!r} has shape {values.shape} in program {first!r} but "
                    f"{sites[name][site].shape} in {name!r}; run both on the same data"
                )
            if not _equal(values, sites[name][site]):
                raise ValueError(
                    f"programs {first!r} and {name!r} observe different values at site {site!r}; "
                    "run both on the same data, in the same order"
                )


def _groups_of(data: Any) -> set[str]:
    names: Any = data.groups() if callable(data.groups) else data.groups
    return {str(name).strip("/") for name in names}


def _check_arguments(results: Mapping[str, Any]) -> None:
    """Warn if two programs got tables of integers of one shape, none of which is the same."""
    first, *others = results
    for name in others:
        one, two = (_integer_tables(results[k]) for k in (first, name))
        alike = [(a, b) for a in one for b in two if a.shape == b.shape]
        if alike and not any(np.array_equal(a, b) for a, b in alike):
            warnings.warn(
                f"programs {first!r} and {name!r} were run with different arrays of integers of "
                f"shape {alike[0][0].shape}: if those say which items were compared, the data "
                "differ and the comparison means nothing",
                UserWarning,
                stacklevel=outside(),
            )


def _integer_tables(result: Any) -> list[NDArray]:
    args = getattr(result, "model_args", getattr(result, "_args", ()))
    kwargs = getattr(result, "model_kwargs", getattr(result, "_kwargs", {}))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((args, kwargs)) if np.ndim(leaf)]
    return [leaf for leaf in leaves if leaf.dtype.kind in "iu"]


# ---------------------------------------------------------------- notes


def _notes(
    results: Mapping[str, Any], evidence: Array, left_out: Mapping[str, _LeaveOneOut]
) -> list[str]:
    notes = [
        "left out: summed log density of each observation given all others, higher is better; "
        "parameters: their effective number."
    ]
    total = next(iter(left_out.values())).parts.size
    doubtful = [k for k, v in left_out.items() if v.num_unreliable > _TOO_MANY * total]
    if doubtful:
        notes.append(
            f"For {_listed(doubtful)}, leaving out is not reliable: more than {_TOO_MANY:.0%} "
            "of the observations have too large a Pareto k. Leave out groups, and fit again."
        )
    averaged = [k for k, v in results.items() if getattr(v, "hyperparameters", None)]
    given = {k: v for k, v in results.items() if getattr(v, "hyperparameters", None) == {}}
    fixed = [k for k, v in given.items() if v.params]
    if fixed:
        notes.append(
            f"Hyperparameters of {_listed(fixed)} are held fixed. If they were learned from these "
            "data, both numbers flatter the program. Average over them (EP's default)."
        )
    if fixed and averaged:
        notes.append(
            f"The log evidence of {_listed(averaged)} is averaged over hyperparameters and that of "
            f"{_listed(fixed)} is not: they cannot be compared with each other."
        )
    for name, result in given.items():
        if _factors(result):
            notes.append(
                f"The log evidence of {name} is that of the data and of the factor statements "
                f"{_listed(sorted(_factors(result)))}, which are not normalised."
            )
    if np.isfinite(evidence).all() and int(np.argmax(evidence)) != 0:
        by_evidence = list(results)[int(np.argmax(evidence))]
        notes.append(
            f"The evidence prefers {by_evidence}, leaving out prefers {next(iter(results))}: the "
            "evidence counts what it costs to learn from the prior on, leaving out does not."
        )
    return notes


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether the same values are there and the same ones are missing (not a number, masked)."""
    return np.array_equal(first, second, equal_nan=first.dtype.kind == second.dtype.kind == "f")


def _factors(result: EPResult) -> frozenset[str]:
    with jax.enable_x64(True):
        return take_inventory(result.traced, result.params).factors


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"
