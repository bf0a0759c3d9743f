"""The main job: comparisons to a posterior, a ranking, and files that a person keeps."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console

from bayesrank._names import shown
from bayesrank.cli._output import OutputError, output_folder, write_frame
from bayesrank.cli._settings import Settings
from bayesrank.cli._steps import Steps
from bayesrank.cli._tables import ranking_table, stdout_console
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import RankSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayesrank.diagnostics import CrossCheck
    from bayesrank.estimators import OrderRanker, PairwiseRanker
    from bayesrank.infer import EPResult, IntegratedEPResult

FIGURES = ("ranking.png", "pairs.png", "crosscheck.png")
FILES = ("ranking.csv", "posterior.nc", *FIGURES)

# Of skills that move: those of long ago tell little, and newcomers are as the average is.
PROCESS = "matern12"
_DRAWS = 2000
_NUTS = {"num_warmup": 250, "num_samples": 500, "num_chains": 4, "tolerance": 0.15}
_UNCHECKED = (
    "Not cross-checked: with so many orders, simulation (NUTS) would take very long. A file with a "
    "few dozen of the orders is checked."
)
_UNCHECKED_IN_TIME = "Not cross-checked: skills at many times take simulation (NUTS) very long."
_ITEMS_IN_PAIRS = 150
_NUMBERS_PER_COMPARISON = 10_000_000  # 80 MB


class Analysis(NamedTuple):
    """Everything that the main job finds."""

    summary: RankSummary
    notes: tuple[str, ...]  #: sentences to print below the table
    posterior: Any  #: ArviZ InferenceData (0.x) or DataTree (1.x)
    figures: dict[str, "Figure"]  #: by file name, one of `FIGURES`


def run(data: ComparisonData, settings: Settings) -> None:
    """Do the main job on `data`, write the results, and print the table.

    Parameters
    ----------
    data
        The comparisons.
    settings
        What the person chose.

    Raises
    ------
    OutputError
        If the results cannot be written. The folder is then as it was.
    """
    console = Console(stderr=True)
    steps = Steps(console, quiet=settings.quiet)
    with output_folder(settings.out, FILES, settings.inputs) as folder, steps.running():
        if data.ignored_columns and not settings.quiet:
            columns = shown(", ".join(data.ignored_columns))
            console.print(f"Columns not used: {columns}", markup=False)
        analysis = analyse(data, settings, steps)
        with steps.step("Writing the results"):
            _write(analysis, folder)
    if console.is_terminal and not settings.quiet:
        console.print()
    out = stdout_console()
    out.print(ranking_table(analysis.summary, settings.rows))
    written = ["ranking.csv", "posterior.nc", *analysis.figures]
    where = f"Results are in {settings.out}: {', '.join(written)}."
    for note in (*analysis.notes, *settings.notes, where):
        out.print(f"\n{shown(note)}", markup=False, highlight=False)


def analyse(data: ComparisonData, settings: Settings, steps: Steps) -> Analysis:
    """Learn the hyperparameters, fit, cross-check, and draw.

    Parameters
    ----------
    data
        The comparisons.
    settings
        What the person chose.
    steps
        Where to show progress.

    Returns
    -------
    Analysis
        Of 2,000 posterior draws.
    """
    with steps.step("Loading JAX and NumPyro"):
        import bayesrank.estimators  # noqa: F401
        from bayesrank.cli._notes import notes_on
    with steps.step("Fitting the skills (EP)") as advance:
        ranker = _fit(data, settings, lambda number, _: advance(None, f"{number} values tried"))
    result, check = ranker.result, None
    if settings.crosscheck and not result.eliminated_sites:
        with steps.step("Checking against simulation (NUTS)") as advance:
            check = _checked(result, settings, lambda engine, share: advance(share))
    with steps.step("Ranking and drawing"):
        summary = ranker.rank()
        figures = _draw(data, summary, result.get_samples()["f"], check)
        posterior = _to_arviz(data, result)
    notes = notes_on(data, ranker.params_, _spread(result), check)
    if settings.crosscheck and check is None:
        notes = (*notes, _UNCHECKED if data.times is None else _UNCHECKED_IN_TIME)
    return Analysis(summary, notes, posterior, figures)


def _fit(
    data: ComparisonData, settings: Settings, callback: Callable[[int, float], None]
) -> "PairwiseRanker | OrderRanker":
    """Learn the skills, from orders where there are some."""
    from bayesrank.estimators import OrderRanker, PairwiseRanker

    options: dict[str, Any] = {
        "item_features": data.features,
        "items": data.names,
        "ard": True,
        "hyperparameters": settings.hyperparameters,
        "num_samples": _DRAWS,
        "random_state": settings.seed,
    }
    names = data.names
    try:
        if data.orders is None:
            pairs = np.array(names, object)[data.comparisons]
            process = None if data.times is None else PROCESS
            ranker = PairwiseRanker(**options, time=process)
            return ranker.fit(
                pairs,
                ties=data.tied,
                sample_weight=data.weights,
                time=data.times,
                callback=callback,
            )
        orders = [[[names[i] for i in group] for group in order] for order in data.orders.groups]
        counts = data.orders.counts
        return OrderRanker(**options).fit(orders, sample_weight=counts, callback=callback)
    except ValueError as error:
        if not isinstance(settings.hyperparameters, Mapping):
            raise
        raise OutputError(f"--hyperparameters: {error}") from error


def _checked(
    result: "EPResult | IntegratedEPResult",
    settings: Settings,
    progress: Callable[[str, float], None],
) -> "CrossCheck":
    """Compare EP with NUTS, where there is a mixture at its most probable hyperparameters."""
    import jax

    from bayesrank.diagnostics import crosscheck
    from bayesrank.infer import EPResult

    if isinstance(result, EPResult):
        what, args, kwargs = result, (), {}
    else:
        what, args, kwargs = result.model, result.model_args, result.model_kwargs
        kwargs = {**kwargs, "params": {**result.params, **result.mode}}
    return crosscheck(
        what,
        *args,
        engines=("ep", "nuts"),
        contrast="pairs",
        rng_key=jax.random.key(settings.seed),
        progress_bar=False,
        progress=progress,
        **_NUTS,
        **kwargs,
    )


def _spread(result: "EPResult | IntegratedEPResult") -> dict[str, np.ndarray] | None:
    """90% intervals of the hyperparameters that were averaged over, if any were."""
    draws = getattr(result, "hyperparameters", None)
    if draws is None:
        return None
    return {name: np.quantile(v, (0.05, 0.95), axis=(0, 1)) for name, v in draws.items()}


def _draw(
    data: ComparisonData, summary: RankSummary, skills: Any, check: "CrossCheck | None"
) -> dict[str, "Figure"]:
    import matplotlib

    matplotlib.use("Agg")  # pictures go to files, whether or not there is a screen
    from bayesrank.plots import plot_crosscheck, plot_pairwise, plot_ranking

    best = summary.item[:_ITEMS_IN_PAIRS]
    draws = skills[:, best]
    axes = {
        "ranking.png": plot_ranking(summary),
        "pairs.png": plot_pairwise(draws, [data.names[i] for i in best]),
    }
    figures: dict[str, Any] = {name: ax.figure for name, ax in axes.items()}
    if check is not None:
        figures["crosscheck.png"] = plot_crosscheck(check)
    return figures


def _to_arviz(data: ComparisonData, result: "EPResult | IntegratedEPResult") -> Any:
    """Name the dimensions; of too many comparisons, leave out the log likelihood of each."""
    from bayesrank.inferencedata import to_arviz

    coords: dict[str, Any] = {"item": list(data.names)}
    dims = {"f": ["item"]}
    if data.features is None:
        # The program has a plate of items.
        coords["items"] = coords.pop("item")
        dims = {}
    else:
        coords["feature"] = list(data.feature_names)
        dims["lengthscale"] = ["feature"]
    fits = _DRAWS * data.num_comparisons <= _NUMBERS_PER_COMPARISON
    return to_arviz(
        result,
        coords=coords,
        dims=dims,
        num_predictive=0,
        log_likelihood=fits,
    )


def _write(analysis: Analysis, folder: Path) -> None:
    write_frame(folder / "ranking.csv", analysis.summary.to_dataframe())
    analysis.posterior.to_netcdf(str(folder / "posterior.nc"), engine="h5netcdf")
    for name, figure in analysis.figures.items():
        figure.savefig(folder / name, dpi=150)
