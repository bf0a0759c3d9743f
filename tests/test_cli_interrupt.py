"""Ctrl-C and SIGTERM: never lost, never half-way, and no traceback."""

import gc
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bayesrank.cli.interrupt import Interrupted, keep, kept, look, waiting, watched

ROOT = Path(__file__).parents[1]
SLOW = pytest.mark.slow

# `rank` with a stand-in for the inference, which says when it is at work.
RANK = """
    import sys, time
    from pathlib import Path
    import numpy as np
    from bayesrank.cli import interrupt as _interrupt, main, pipeline
    from bayesrank.cli.words import Headline
    from bayesrank.ranking import summarize

    class Ranker:
        result = None

        def save(self, path):
            path.write_text("new")

        def prob_better(self, pairs):
            return np.full(len(pairs), 0.5)

    assert "jax" not in sys.modules  # it loads in a step, which a signal ends in good order

    def rank_items(data, settings, steps):
        with steps.step("First"):
            print("ready", flush=True)
            {work}
        with steps.step("Second"):
            pass
        skills = np.random.default_rng(0).normal(size=(9, data.num_items))
        ranked = pipeline.Ranked("", summarize(skills, data.names), Headline("", "", ""))
        return pipeline.Ranking(Ranker(), skills, (ranked,))

    pipeline.rank_items, pipeline.state_bytes = rank_items, lambda ranker: 0
    pipeline.analyse = lambda *given: pipeline.Analysis((), (), (), b"new", {{}})
    {before}
    main(["rank", "c.csv", "--out", "out", "--force", "--save", "all"])
"""


@pytest.fixture(autouse=True)
def heeded():
    """A shell has what it runs behind `&` ignore Ctrl-C, and so would all that is started here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "c.csv").write_text("winner,loser\nA,B\nB,C\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ranking.csv").write_text("old")
    return tmp_path


def start(folder, code, **options):
    program = textwrap.dedent(code)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        **{**streams, **options},
    )


def rank(folder, work="time.sleep(60)", before="pass"):
    process = start(folder, RANK.format(work=work, before=before))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def untouched(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["c.csv", "out"]
    return [path.read_text() for path in (folder / "out").iterdir()] == ["old"]


def test_a_signal_that_an_exception_would_be_lost_in_is_seen_between_steps():
    """As in JAX's hook of the garbage collector, whose exceptions go nowhere."""

    def hook(phase, info):
        if phase == "start":
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with watched():
        look()
        gc.callbacks.append(hook)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(hook)
        with pytest.raises(Interrupted) as caught:
            look()
        assert caught.value.code == 130
    assert signal.getsignal(signal.SIGINT) is handler
    with watched():
        look()  # forgotten
        keep("what there is is in \x1b[2Ja")
        assert kept() == "what there is is in  [2Ja"


def test_what_waits_for_input_is_ended_at_once():
    with watched():
        with pytest.raises(Interrupted) as caught, waiting():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        assert caught.value.code == 143
        with pytest.raises(Interrupted), waiting():
            pass
    look()  # what came is no matter of what is run next


def test_one_signal_ends_between_steps(folder):
    process = rank(folder, work="time.sleep(0.3)")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert err.endswith("Error: Interrupted; nothing was written.\n")
    assert "Second" not in err and untouched(folder)


def test_a_second_one_ends_at_once_and_leaves_nothing(folder):
    process = rank(folder)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("\nError: Interrupted; nothing was written.\n") and untouched(folder)


def test_patience_has_an_end(folder):
    process = rank(folder, before="_interrupt._QUIET = _interrupt._PATIENCE = 0.1")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143 and untouched(folder)
    assert "\nInterrupted; ending. Ctrl-C again ends at once.\n\nError: Inter" in err


@pytest.mark.slow
def test_nothing_ends_the_process_while_results_are_put_in_place(folder):
    (folder / "slow.py").write_text(
        textwrap.dedent("""
        import os, signal
        output = sys.modules["bayesrank.cli.outputs"]
        publish = output._publish
        def slow(*args):
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
            publish(*args)
        output._publish = slow
    """)
    )
    process = rank(folder, work="pass", before="exec(open('slow.py').read())")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.endswith("Interrupted; the results are in out.\n")
    files = {path.name for path in (folder / "out").iterdir()}
    results = {"card.png", "ranker.npz", "ranking.csv", "ranking.json", "report.html"}
    assert files == results | {"posterior.nc"}
    assert (folder / "out" / "posterior.nc").read_text() == "new"


@pytest.mark.parametrize(
    "module",
    ["bayesrank.cli.app", pytest.param("click", marks=SLOW), pytest.param("numpy", marks=SLOW)],
)
def test_ctrl_c_during_imports_shows_no_traceback(folder, module):
    code = f"""
        import os, signal, sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == {module!r}:
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Finder())
        sys.argv = ["bayesrank", "rank", "c.csv", "--out", "out", "--force"]
        import runpy
        runpy.run_module("bayesrank", run_name="__main__")
    """
    process = start(folder, code)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    assert err.endswith("\nError: Interrupted; nothing was written.\n") or err.startswith(
        "Error: I"
    )
    assert "Traceback" not in err and untouched(folder)


@pytest.mark.slow
def test_what_the_shell_has_it_ignore_is_ignored(folder):
    code = RANK.format(work="time.sleep(0.3)", before="pass")
    process = start(folder, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                    + textwrap.dedent(code))  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


@SLOW
def test_on_a_terminal_the_cursor_comes_back(folder):
    mine, theirs = pty.openpty()
    code = RANK.format(work="time.sleep(60)", before="pass")
    process = start(folder, code, stdin=theirs, stdout=theirs, stderr=theirs)
    screen, pressed, end = b"", 0, time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if select.select([mine], [], [], 0.1)[0]:
            screen += os.read(mine, 65536)
        if b"First" in screen and pressed < 2:
            process.send_signal(signal.SIGINT)
            pressed += 1
            time.sleep(0.1)
    process.kill()
    while select.select([mine], [], [], 0.1)[0]:
        screen += os.read(mine, 65536)
    os.close(mine)
    os.close(theirs)
    assert process.returncode == 130 and untouched(folder)
    assert b"\x1b[?25l" in screen  # progress hid it
    assert screen.rindex(b"\x1b[?25h") > screen.rindex(b"\x1b[?25l")
    assert b"Interrupted; nothing was written." in screen and b"Traceback" not in screen
