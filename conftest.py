"""Settings of every test run, doctests of the package included, and the limit of a fast test."""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from sybil import Document, Example, Region, Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

os.environ.setdefault("MPLBACKEND", "Agg")
jax.config.update("jax_enable_x64", True)

# Processor seconds of a test that is not marked `slow`: of its call and of its own fixtures, with
# what it compiles and the processes that it starts. Fixtures of a module or a session are shared,
# and count for no test: what several tests compile belongs in one.
LIMIT = 1.0
# A test over the limit is listed; a run fails over this multiple of it, since the same test takes
# twice as much where it is the first to compile a program, and again where others use the machine.
# On a machine of continuous integration, whose pace nothing is known of, tests are listed alone.
_ALLOWANCE = 4.0
# How long `_lap` takes where the limit was set, with nothing beside it.
_LAP = 0.05

_spent = pytest.StashKey[float]()
_over: dict[str, float] = {}
_shared = 0.0


def _enter_folder(namespace: dict[str, Any]) -> None:
    """Let the programs of a page write where nothing is."""
    namespace["__folder__"] = stack = contextlib.ExitStack()
    stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))


def _write_file(example: Example) -> None:
    name, content = example.parsed
    Path(name).write_text(content, encoding="utf-8")


def _files_shown(document: Document) -> Iterator[Region]:
    """Find the files that a page shows below their names."""
    shown = re.compile(r"^`(\S+)`:\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for found in shown.finditer(document.text):
        yield Region(found.start(), found.end(), found.groups(), _write_file)


# The programs of a page run one after the other, with the variables of those before.
pytest_collect_file = Sybil(
    [PythonCodeBlockParser(), SkipParser(), _files_shown],
    pattern="*.md",
    setup=_enter_folder,
    teardown=lambda namespace: namespace["__folder__"].close(),
).pytest()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Doctests and pages are slow: each compiles programs of its own."""
    for item in items:
        if isinstance(item, pytest.DoctestItem | SybilItem):
            item.add_marker("slow")
        if isinstance(item, SybilItem):  # reading a file as its columns say is no fault of a page
            item.add_marker(pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote"))


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def _lap() -> float:
    """Processor seconds of a fixed piece of work."""
    start, total = time.process_time(), 0
    for k in range(1_000_000):
        total += k * k % 7
    return time.process_time() - start


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
    """Add up what shared fixtures take."""
    global _shared
    start, before = _processor_seconds(), _shared
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            _shared = before + _processor_seconds() - start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note what the test's own fixtures take."""
    start, before = _processor_seconds(), _shared
    try:
        return (yield)
    finally:
        item.stash[_spent] = _processor_seconds() - start - (_shared - before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hand on what a test took, where it is over the limit on a machine at its full pace."""
    start = _processor_seconds()
    try:
        return (yield)
    finally:
        spent = item.stash[_spent] + _processor_seconds() - start
        if spent > LIMIT and item.get_closest_marker("slow") is None:
            spent /= max(1.0, _lap() / _LAP)  # other work slows the processor itself
            if spent > LIMIT:
                item.user_properties.append(("processor seconds", spent))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Hear of a test over the limit: in the process that reports, from those of all workers."""
    seconds = dict(report.user_properties).get("processor seconds")
    if seconds is not None and report.when == "call":
        _over[report.nodeid] = float(str(seconds))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where tests are far over the limit, unless they are compiled as users compile."""
    judged = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") != "0" and not os.environ.get("CI")
    far = max(_over.values(), default=0.0) > _ALLOWANCE * LIMIT
    if judged and far and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests over the limit."""
    if _over:
        terminalreporter.section(f"over {LIMIT:g} s of processor time, and not marked slow")
        for name, seconds in sorted(_over.items(), key=lambda pair: -pair[1]):
            terminalreporter.line(f"{seconds:6.1f} s  {name}")
