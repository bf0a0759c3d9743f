"""What a cross-check returns: comparisons, a table, and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrank.diagnostics.verdict import Comparison, Reference, Verdict, rms
from bayesrank.infer import EPResult
from bayesrank.infer.spi import Importance

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class NUTSResult:
    """Draws of NUTS from a program; `bayesrank.to_arviz` takes it.

    Attributes
    ----------
    model, model_args, model_kwargs
        The program and what it was called with.
    params
        Values of the hyperparameters that were held fixed: all of them, but where they were
        integrated over.
    num_divergent
        Number of draws that ended a divergent trajectory.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> from bayesrank.diagnostics import crosscheck
    >>> settings = {"num_samples": 300, "num_chains": 1, "progress_bar": False}
    >>> check = crosscheck(result, engines=["ep", "nuts"], **settings)
    >>> check.nuts.num_divergent
    0
    """

    model: Callable[..., Any]
    model_args: tuple
    model_kwargs: dict[str, Any]
    params: dict[str, np.ndarray]
    num_divergent: int
    draws: dict[str, np.ndarray] = field(repr=False)

    def get_samples(self, group_by_chain: bool = False) -> dict[str, np.ndarray]:
        """Draws of the latent sites, and the hyperparameters, repeated where they were fixed.

        Their shapes are (chains * draws, ...), or with `group_by_chain` (chains, draws, ...).
        """
        samples = dict(self.draws)
        chains, draws = next(iter(samples.values())).shape[:2]
        for name, value in self.params.items():
            samples[name] = np.broadcast_to(value, (chains, draws, *np.shape(value)))
        if group_by_chain:
            return samples
        return {k: v.reshape(chains * draws, *v.shape[2:]) for k, v in samples.items()}


@dataclass(frozen=True, eq=False)
class EngineRun:
    """One engine's run."""

    engine: str  # "ep", "nuts" or "svi"
    seconds: float  # time it took, compilation included; NaN where it was run before
    log_evidence: float = np.nan  # EP's log evidence, SVI's ELBO; NaN for NUTS
    weights: Importance | None = None  # importance sampling from its posterior; None for NUTS
    warning: str | None = None  # what the engine itself says is wrong with its result, if anything


@dataclass(frozen=True, eq=False)
class CrossCheck:
    """Engines compared on one program; print it for the table and the verdicts.

    Attributes
    ----------
    runs
        The engines' runs, by name, in the order asked for.
    references
        For each latent site, what NUTS says, and for each hyperparameter that was integrated over;
        empty where NUTS was not run.
    comparisons
        For each engine other than NUTS and each latent site, the engine against NUTS.
    verdicts
        For each engine other than NUTS, what to think of it.
    params
        Values of the hyperparameters held fixed, the same for all engines.
    tolerance
        Largest error that does not matter.
    ep
        EP's result, or that with hyperparameters integrated over; None where EP was not among the
        engines.
    nuts
        NUTS's draws, or None.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> from bayesrank.models import thurstone
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])  # (winner, loser)
    >>> result = EP(thurstone).run(jax.random.key(0), 3, games, params={"scale": 1.0})
    >>> from bayesrank.diagnostics import crosscheck
    >>> check = crosscheck(result, num_samples=300, num_chains=1, progress_bar=False)
    >>> sorted(check.runs)
    ['ep', 'nuts', 'svi']
    """

    runs: dict[str, EngineRun]
    references: tuple[Reference, ...] = field(repr=False)
    comparisons: tuple[Comparison, ...] = field(repr=False)
    verdicts: dict[str, Verdict]
    params: dict[str, np.ndarray]
    tolerance: float
    ep: EPResult | None = field(repr=False)
    nuts: NUTSResult | None = field(repr=False)

    @property
    def verdict(self) -> Verdict:
        """The verdict on EP, or, where EP was not among the engines, on SVI."""
        return self.verdicts.get("ep") or next(iter(self.verdicts.values()))

    def to_dataframe(self) -> pd.DataFrame:
        """The table, one row for each latent site and engine.

        Returns
        -------
        pandas.DataFrame
            Columns ``site``, ``engine``; ``mean_error_rms`` and ``mean_error_max``, in posterior
            standard deviations; ``monte_carlo_error``, what the former would be by NUTS's Monte
            Carlo error alone; ``sd_ratio_min``, ``sd_ratio_median``, ``sd_ratio_max``; ``r_hat``
            (largest) and ``ess`` (smallest) of NUTS; ``k_hat``; ``log_evidence`` (EP's, or SVI's
            ELBO); ``importance_evidence`` and its standard error ``importance_error``; ``seconds``.
            Without NUTS there is one row for each engine and ``site`` is empty.
        """
        import pandas as pd

        rows = []
        for reference in self.references or (None,):
            for run in self.runs.values():
                rows.append(self._row(reference, run))
        return pd.DataFrame(rows)

    def _row(self, reference: Reference | None, run: EngineRun) -> dict[str, Any]:
        row: dict[str, Any] = {"site": "", "engine": run.engine, **dict.fromkeys(_FIGURES, np.nan)}
        row |= {"log_evidence": run.log_evidence, "seconds": run.seconds}
        if reference is not None:
            row |= {"site": reference.contrast.site, "monte_carlo_error": rms(reference.mean_error)}
            if run.engine == "nuts":
                row |= {"r_hat": float(reference.r_hat.max()), "ess": float(reference.ess.min())}
        for comparison in self.comparisons:
            if comparison.reference is reference and comparison.engine == run.engine:
                row["mean_error_rms"] = rms(comparison.error)
                row["mean_error_max"] = float(np.abs(comparison.error).max())
                row["sd_ratio_min"] = float(comparison.ratio.min())
                row["sd_ratio_median"] = float(np.median(comparison.ratio))
                row["sd_ratio_max"] = float(comparison.ratio.max())
        if run.weights is not None:
            row["k_hat"] = run.weights.k_hat
            row["importance_evidence"] = run.weights.log_evidence
            row["importance_error"] = run.weights.error
        return row

    def __str__(self) -> str:
        """Lay out the table and the verdicts."""
        titles, units, _, _ = zip(*_COLUMNS, strict=True)
        cells = [["site", "engine", *titles], ["", "", *units]]
        cells += [_cells(row) for row in self.to_dataframe().to_dict("records")]
        table = "\n".join(aligned(cells, 2))
        return "\n".join([table, "", _LEGEND, "", *(v.sentence for v in self.verdicts.values())])


_FIGURES = (
    *("mean_error_rms", "mean_error_max", "monte_carlo_error", "sd_ratio_min", "sd_ratio_median"),
    *("sd_ratio_max", "r_hat", "ess", "k_hat", "log_evidence", "importance_evidence"),
    *("importance_error", "seconds"),
)
_COLUMNS = (
    ("mean err", "(rms)", "mean_error_rms", ".3f"),
    ("worst", "", "mean_error_max", ".3f"),
    ("sd ratio", "(median)", "sd_ratio_median", ".3f"),
    ("from", "", "sd_ratio_min", ".2f"),
    ("to", "", "sd_ratio_max", ".2f"),
    ("R-hat", "", "r_hat", ".3f"),
    ("ESS", "", "ess", ".0f"),
    ("k-hat", "", "k_hat", ".2f"),
    ("log evidence", "", "log_evidence", ".2f"),
    ("by sampling", "", "importance_evidence", ".2f"),
    ("seconds", "", "seconds", ".1f"),
)
_LEGEND = (
    "mean err: error of posterior means in posterior standard deviations (± is NUTS's own Monte "
    "Carlo error);\nsd ratio: standard deviations relative to NUTS's; log evidence: EP's estimate, "
    "SVI's lower bound, and\nan estimate by importance sampling from each."
)


def _cells(row: dict[str, Any]) -> list[str]:
    shown = {name: _number(row[name], style) for _, _, name, style in _COLUMNS}
    if row["engine"] == "nuts":
        shown["mean_error_rms"] = "±" + _number(row["monte_carlo_error"], ".3f")
    if shown["importance_evidence"]:
        shown["importance_evidence"] += " ± " + _number(row["importance_error"], ".2f")
    return [str(row["site"]), row["engine"].upper(), *shown.values()]


def _number(value: float, style: str) -> str:
    return "" if np.isnan(value) else format(value, style)


def aligned(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of a table whose first columns stand to the left, and its figures to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    rows = (map(lambda side, cell, width: side(cell, width), sides, row, widths) for row in cells)
    return ["  ".join(row).rstrip() for row in rows]
