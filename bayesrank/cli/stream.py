"""The command `stream`: levels predicted and learned line by line, and kept."""

import math
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank._names import count_of, shown
from bayesrank.cli import command

if TYPE_CHECKING:
    from bayesrank.cli.stream_run import Tally
    from bayesrank.datasets.stream import StreamLayout

_HELP = """\
Learn levels from a stream of lines, predicting each before it is learned.

DATA is a file, or - for standard input. Each line holds a level, a whole number from 1 on, and the
features: in the format of svmlight, or between commas, where the first line may name the columns.

\b
  4 1:0.5 3:2.25            4,0.5,0,2.25
  1 2:1                     1,0,1,0

The running loss is printed: by how many levels predictions were wrong, on average, and for
bayes-point the log loss in nats. What is learned is kept in a checkpoint, which is complete at any
moment: however the run ends, the same command goes on from there, exactly. In Python, the method
load of the same learner in bayesrank.online, with the same options, takes it up.
"""

_LEARNERS = {
    "bayes-point": ("OnlineBayesPoint", ("forgetting",)),
    "oap-bpm": ("OAPBPM", ("num_members", "tau", "seed")),
    "oap-bagging": ("OAPBagging", ("num_members", "tau", "seed")),
    "oap-voted": ("OAPVoted", ("num_members", "tau", "seed")),
    "prank": ("PRank", ()),
    "voted-prank": ("VotedPRank", ()),
    "widrow-hoff": ("WidrowHoff", ("eta",)),
}

_MOST_MONOMIALS = 20_000


@click.command(help=_HELP)
@click.argument("data", type=command.FILE)
@click.option(
    "--levels",
    type=click.IntRange(min=2),
    help="Number of levels; the highest of the file if not given.",
)
@click.option(
    "--features",
    type=click.IntRange(min=1),
    help="Number of features; what the file speaks of if not given.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["svmlight", "csv"]),
    help="Of the lines; judged by the first line if not given.",
)
@click.option(
    "--learner", type=click.Choice(list(_LEARNERS)), default="bayes-point", help="What learns."
)
@click.option(
    "--degree",
    type=click.IntRange(1, 5),
    default=1,
    help="Degree of a polynomial in the features. With more than 1,000 monomials bayes-point is an "
    "approximation by 100 examples.",
)
@click.option(
    "--forgetting",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="bayes-point: share forgotten at each example.",
)
@click.option(
    "--members",
    "num_members",
    type=click.IntRange(min=1),
    default=100,
    help="Ensembles (oap-bpm, oap-bagging, oap-voted): number of members.",
)
@click.option(
    "--tau",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.3,
    help="Ensembles: probability that a member is shown an example.",
)
@click.option(
    "--eta",
    type=click.FloatRange(0, min_open=True),
    default=0.1,
    help="widrow-hoff: size of a step.",
)
@command.seed("Ensembles: seed of what each member is shown.")
@click.option(
    "--checkpoint",
    type=command.FILE,
    default=Path("bayesrank-stream.npz"),
    metavar="FILE",
    help="Where what is learned is kept. If it exists, the run goes on from there.",
)
@click.option(
    "--every",
    type=click.IntRange(min=1),
    default=1000,
    help="Examples between two reports and checkpoints.",
)
@click.option(
    "--on-error",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    help="What to do with a bad line: end there, or name it, count it and go on.",
)
def stream(
    data: Path, levels: int | None, features: int | None, form: str | None, **options: Any
) -> int:
    """Set a run up, follow the stream, and say how it went."""
    from bayesrank.cli.interrupt import Interrupted, kept
    from bayesrank.cli.stream_run import StreamRun

    standard_input = str(data) == "-"
    layout = _layout(data, levels, features, form)
    _check_room(layout, **options)
    model = _learner(layout, **options)
    run = StreamRun(
        model,
        layout,
        "standard input" if standard_input else str(data),
        options["checkpoint"],
        skip=options["on_error"] == "skip",
        every=options["every"],
        report=_report,
        complain=lambda sentence: click.echo(shown(sentence), err=True),
    )
    form_name = {"csv": "CSV", "svmlight": "svmlight"}[layout.form]
    features_read = count_of(layout.num_features, "feature")
    click.echo(f"{form_name} lines, {layout.num_levels:,} levels, {features_read}.")
    with ExitStack() as stack:
        _lock(stack, options["checkpoint"])
        if run.resume():
            where = shown(str(options["checkpoint"]))
            click.echo(f"Going on from {where}, after line {run.tally.lines:,}.")
            _report(run.tally)
        try:
            with nullcontext(sys.stdin.buffer) if standard_input else data.open("rb") as lines:
                run.follow(lines)
        except (KeyboardInterrupt, Interrupted) as error:
            click.echo(f"Interrupted; {kept()}.", err=True)
            return getattr(error, "code", 130)
    click.echo(f"Done; what was learned is in {shown(str(options['checkpoint']))}.")
    return 0


def _lock(stack: ExitStack, checkpoint: Path) -> None:
    """Refuse a checkpoint that another run is writing to, or that cannot be written."""
    from bayesrank._files import locked
    from bayesrank.cli.outputs import OutputError, refuse_no_file

    refuse_no_file("--checkpoint", checkpoint)
    try:
        stack.enter_context(locked(checkpoint))
    except BlockingIOError:
        raise OutputError(
            f"{checkpoint}: another run keeps there what it learns; wait until it has ended, or "
            "use another --checkpoint"
        ) from None
    except OSError as error:
        problem = f"the checkpoint cannot be written ({error.strerror or type(error).__name__})"
        raise OutputError(f"{checkpoint}: {problem}; use --checkpoint") from None


def _layout(
    data: Path, levels: int | None, features: int | None, form: str | None
) -> "StreamLayout":
    from bayesrank.datasets.stream import StreamLayout, survey

    # A pipe with a name, such as <(zcat data.gz) has, is read once, too.
    once = str(data) == "-" or (data.exists() and not data.is_file() and not data.is_dir())
    if not once:
        return survey(data, levels, features, form)
    if levels is None or features is None or form is None:
        name = "Standard input" if str(data) == "-" else f"{data} is no file on disk, and"
        raise click.UsageError(
            f"{name} cannot be looked at twice: give --levels, --features and --format."
        )
    return StreamLayout(form, levels, features)


def _check_room(
    layout: "StreamLayout", learner: str, degree: int, num_members: int, every: int, **others: Any
) -> None:
    """Refuse what would not fit into memory before anything is learned."""
    from bayesrank._memory import check_room
    from bayesrank.online.bayes_point import NUM_COMPONENTS

    unknowns = layout.num_features + layout.num_levels - 1
    held = unknowns * (num_members if learner.startswith("oap") else 1)
    if learner == "bayes-point" and degree == 1:
        held = unknowns**2 * NUM_COMPONENTS
    features = count_of(layout.num_features, "feature")
    check_room(
        8 * (held + every * layout.num_features),
        f"{features} and {layout.num_levels:,} levels",
        "see whether the file says what it should, choose another --learner (prank takes least), "
        "or lower --every",
    )


def _learner(layout: "StreamLayout", learner: str, degree: int, **options: Any) -> Any:
    from tinygp.kernels import Polynomial

    from bayesrank import online

    monomials = math.comb(layout.num_features + degree, degree)
    if degree > 1 and monomials > _MOST_MONOMIALS:
        raise click.UsageError(
            f"{layout.num_features} features have {monomials:,} monomials up to degree {degree}, "
            f"and {_MOST_MONOMIALS:,} are possible: lower --degree."
        )
    name, own = _LEARNERS[learner]
    kernel = None if degree == 1 else Polynomial(order=degree, sigma=1.0)
    chosen = {option: options[option] for option in own}
    if learner.startswith(("oap", "prank", "widrow")):
        chosen["budget"] = _MOST_MONOMIALS  # so that polynomials are explicit features
    return getattr(online, name)(layout.num_levels, kernel=kernel, **chosen)


def _report(tally: "Tally") -> None:
    log_loss = f"  log loss {tally.log_loss:.4f}" if tally.nats else ""
    skipped = f"  bad lines {tally.skipped:,}" if tally.skipped else ""
    click.echo(
        f"{tally.examples:>12,} examples  rank loss {tally.rank_loss:.4f}{log_loss}{skipped}"
    )
