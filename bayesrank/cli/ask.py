"""The command `ask`: which of two, again and again, until the ranking is settled."""

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from bayesrank._names import shown
from bayesrank.cli.outputs import OutputError, give_tables, refuse_no_file, refuse_to_replace
from bayesrank.datasets.items import Items, read_items

if TYPE_CHECKING:
    from bayesrank.active import QueryLoop


def ask(items: Path, journal: Path, export: Path | None, **options: Any) -> int:
    """Read the items, then ask, or export the answers."""
    known = read_items(items)
    refuse_no_file("--journal", journal)
    refuse_to_replace({"--journal": journal, "--export": export}, (items,))
    if export is not None:
        _export(known, journal, export)
        return 0
    return _ask(known, journal, **options)


def _ask(
    items: "Items",
    journal: Path,
    *,
    judge: str | None,
    question: str,
    top: int,
    level: float,
    min_gain: float | None,
    retire: Sequence[str],
    restore: Sequence[str],
    seed: int,
) -> int:
    # Loading and compiling take a few seconds, once; after that a question takes some hundredths.
    with contextlib.ExitStack() as open_files:
        with Console(stderr=True).status("Choosing the first question"):
            from bayesrank.active import JournalError, QueryLoop
            from bayesrank.cli.ask_session import AskSession

            try:
                loop = QueryLoop(
                    items.names,
                    items.features,
                    journal=journal,
                    background=True,
                    judge_noise="learn",
                    ard=items.features is not None,
                    goal="pair" if min_gain is not None else "top",  # a gain in nats is of a pair
                    k=min(top, len(items.names) - 1),
                    stop_top=min(top, len(items.names) - 1),
                    stop_level=level,
                    stop_gain=min_gain,
                    seed=seed,
                )
            except JournalError as error:
                raise OutputError(str(error)) from error
            open_files.enter_context(loop)
            _come_and_go(loop, retire, restore)
            loop.ask(judge=judge)
            loop.progress(judge=judge)
        try:
            code = AskSession(loop, items, journal, judge, question).run()
        except JournalError as error:
            raise OutputError(str(error)) from error
    if loop.is_learning:
        # XLA cannot be told to stop compiling, and Python would wait for it. Nothing is lost: every
        # answer is on disk, and what is being learned is learned again when it is needed.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _come_and_go(loop: "QueryLoop", retire: Sequence[str], restore: Sequence[str]) -> None:
    """Restore and retire items as the person asks."""
    from bayesrank.active import JournalError

    try:
        for name in restore:
            loop.restore(name)
        for name in retire:
            loop.retire(name)
    except (ValueError, JournalError) as error:
        raise OutputError(str(error)) from error


def _export(items: "Items", journal: Path, export: Path) -> None:
    """Write the answers, without disturbing a process that is asking."""
    from bayesrank.active import JournalError, read_history

    try:
        answers = read_history(journal, items.names, items.features).answers
    except JournalError as error:
        raise OutputError(str(error)) from error
    if not answers:
        raise OutputError(f"{journal}: there is no answer to export yet; answer questions first")
    several = len({answer.judge for answer in answers}) > 1
    ties = any(answer.kind == "tie" for answer in answers)
    rows = [["winner", "loser", *(["tie"] if ties else []), *(["judge"] if several else [])]]
    for answer in answers:
        row = [items.names[answer.first], items.names[answer.second]]
        row += [str(int(answer.kind == "tie"))] if ties else []
        rows.append([*row, *([answer.judge or "unnamed"] if several else [])])
    give_tables([(export, rows)], "give another --export")
    said = f"{len(answers)} answers are in {export}; rank them with: {_rank(export, items)}"
    click.echo(shown(said), err=str(export) == "-")


def _rank(export: Path, items: "Items") -> str:
    features = [] if items.features is None else ["--items", str(items.path)]
    return shlex.join(["python", "-m", "bayesrank", "rank", str(export), *features])
