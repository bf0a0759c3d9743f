"""Commands of the online learners' benchmarks."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

__all__ = ["COMMANDS"]


@click.command()
@click.option("--trials", default=20)
@click.option("--examples", default=50_000)
@click.option("--members", default=100)
@click.option("--curves", default=0, help="Trials whose running losses are kept, for --plot.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
@click.option("--others", is_flag=True, help="Learners that are not in the paper instead.")
def online_synthetic(
    trials: int, examples: int, members: int, curves: int, path: Path | None, others: bool
) -> None:
    """Rank losses on the paper's synthetic stream (Table 1, Figure 2)."""
    from benchmarks import online_synthetic as synthetic

    if others and (curves or path):
        raise click.UsageError(
            "--curves and --plot are for the paper's learners; leave out --others."
        )
    half_width, paper_says = synthetic.half_width, synthetic.PAPER
    chosen = synthetic.other_learners if others else synthetic.learners
    study = synthetic.run_trials(trials, examples, members, curves=curves, chosen=chosen)
    click.echo(f"{'learner':35} {'unrounded':>17} {'rounded':>17} {'paper':>6}")
    for name, losses in study.unrounded.items():
        whole = study.rounded[name]
        paper = f"{paper_says[name]:.2f}" if name in paper_says else ""
        click.echo(
            f"{name:35} {np.mean(losses):8.4f} +- {half_width(losses):.4f} "
            f"{np.mean(whole):8.4f} +- {half_width(whole):.4f} {paper:>6}"
        )
    if path is not None:
        synthetic.plot(study, path)


@click.command()
@click.option("--draws", default=500)
@click.option("--answers", is_flag=True, help="Five answers of 2,700 people instead of MovieLens.")
def online_movielens(draws: int, answers: bool) -> None:
    """Rank losses of predicting a person's ratings from other people's (Table 2)."""
    from benchmarks.online_movielens import run_draws
    from benchmarks.online_synthetic import half_width

    unrounded, rounded = run_draws(draws, answers)
    click.echo(f"in {'levels' if answers else 'half stars'}, {draws} draws")
    click.echo(f"{'learner':28} {'unrounded':>17} {'rounded':>17}")
    for name, losses in unrounded.items():
        whole = rounded[name]
        click.echo(
            f"{name:28} {np.mean(losses):8.3f} +- {half_width(losses):.3f}  "
            f"{np.mean(whole):8.3f} +- {half_width(whole):.3f}"
        )


@click.command()
@click.option("--streams", default=40)
@click.option("--seed", default=0)
def online_calibration(streams: int, seed: int) -> None:
    """Calibration of the first hundred forecasts, and of the next two hundred."""
    from benchmarks.online_calibration import STREAMS, report

    for name in STREAMS:
        for line in report(name, streams, seed):
            click.echo(line)


@click.command()
@click.option("--examples", default=1_000_000, help="Of the stream from the disk.")
def online_throughput(examples: int) -> None:
    """Time an example of the online learners, and memory of a long stream."""
    from benchmarks.online_throughput import from_disk, in_memory

    names = ("OAP-BPM, 100 members", "OnlineBayesPoint", "OnlineBayesPoint, one noise")
    for name in (*names, "OnlineBayesPoint, diagonal"):
        row = in_memory(name)
        click.echo(
            f"{name:28} {row.examples:,} examples of 2 features, degree 2: {row.seconds:.2f} s, "
            f"CPU {row.cpu_seconds:.2f} s, {1e6 * row.seconds / row.examples:.1f} us an example"
        )
    row = from_disk(examples)
    click.echo(
        f"{'OAP-BPM, 100 members':28} {row.examples:,} examples of 100 features from the disk: "
        f"{row.seconds:.1f} s, CPU {row.cpu_seconds:.1f} s, "
        f"{1e6 * row.seconds / row.examples:.1f} us an example; peak memory {row.early_mb:.0f} MB "
        f"after a tenth, {row.late_mb:.0f} MB at the end"
    )


COMMANDS = (online_synthetic, online_calibration, online_movielens, online_throughput)
