"""The command `stream`: levels predicted and learned line by line, and stored."""

import math
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import click

from bayesrank._files import locked
from bayesrank._memory import check_memory
from bayesrank._names import count_of, shown
from bayesrank.cli.interrupt import Interrupted, kept
from bayesrank.cli.outputs import OutputError, refuse_no_file, refused
from bayesrank.cli.stream_run import StreamRun, Tally
from bayesrank.datasets.stream import StreamLayout, survey

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


def stream(
    data: Path, levels: int | None, features: int | None, form: str | None, **options: Any
) -> int:
    """Set a run up, follow the stream, and say how it went."""
    standard_input = str(data) == "-"
    layout = _layout(data, levels, features, form)
    _check_memory(layout, **options)
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
    click.echo("Rank loss: how many levels predictions were off by, on average so far.")
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
    refuse_no_file("--checkpoint", checkpoint)
    with refused("use --checkpoint", f"{checkpoint}: the checkpoint"):
        try:
            stack.enter_context(locked(checkpoint))
        except BlockingIOError:
            raise OutputError(
                f"{checkpoint}: another run keeps there what it learns; wait until it has ended, "
                "or use another --checkpoint"
            ) from None


def _layout(
    data: Path, levels: int | None, features: int | None, form: str | None
) -> "StreamLayout":
    # A pipe with a name, such as <(zcat data.gz) has, is read once, too.
    once = str(data) == "-" or (data.exists() and not data.is_file() and not data.is_dir())
    if not once:
        return survey(data, levels, features, form)
    if levels is None or features is None or form is None:
        name = "Standard input" if str(data) == "-" else f"{data} is not a file on disk, and"
        raise click.UsageError(
            f"{name} cannot be read twice: give --levels, --features and --format."
        )
    return StreamLayout(form, levels, features)


def _check_memory(
    layout: "StreamLayout", learner: str, degree: int, num_members: int, every: int, **others: Any
) -> None:
    """Refuse what would not fit into memory before anything is learned."""
    from bayesrank.online.bayes_point import NUM_COMPONENTS

    unknowns = layout.num_features + layout.num_levels - 1
    held = unknowns * (num_members if learner.startswith("oap") else 1)
    if learner == "bayes-point" and degree == 1:
        held = unknowns**2 * NUM_COMPONENTS
    features = count_of(layout.num_features, "feature")
    check_memory(
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
