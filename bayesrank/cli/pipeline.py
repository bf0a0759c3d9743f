"""The main job: comparisons to a posterior, a ranking, and files that a person keeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from bayesrank.cli._output import output_folder
from bayesrank.cli._settings import Settings
from bayesrank.cli._steps import Steps
from bayesrank.cli._tables import ranking_table, stdout_console
from bayesrank.datasets import ComparisonData
from bayesrank.ranking import RankSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("ranking.png", "crosscheck.png")
FILES = ("ranking.csv", "posterior.nc", *FIGURES)


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
            console.print(f"Columns not used: {', '.join(data.ignored_columns)}", markup=False)
        analysis = analyse(data, settings, steps)
        with steps.step("Writing the results"):
            _write(analysis, folder)
    out = stdout_console()
    out.print(ranking_table(analysis.summary, settings.rows))
    for note in (*analysis.notes, f"Results are in {settings.out}."):
        out.print(f"\n{note}", markup=False, highlight=False)


def analyse(data: ComparisonData, settings: Settings, steps: Steps) -> Analysis:
    """Learn the hyperparameters, fit, cross-check, and draw."""
    raise NotImplementedError


def _write(analysis: Analysis, folder: Path) -> None:
    analysis.summary.to_dataframe().to_csv(folder / "ranking.csv", index=False)
    analysis.posterior.to_netcdf(str(folder / "posterior.nc"), engine="h5netcdf")
    for name, figure in analysis.figures.items():
        figure.savefig(folder / name, dpi=150)
