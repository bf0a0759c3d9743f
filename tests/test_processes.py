"""Threads and processes: what runs side by side agrees; what cannot says so, and does not hang."""

import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

from bayesrank import _process

ROOT = Path(__file__).parents[1]
X = np.random.default_rng(0).normal(size=(6, 2))
PAIRS = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])


def _compare():
    from bayesrank import PreferenceGP

    return PreferenceGP(hyperparameters="prior").fit(X, PAIRS).predict(X)


def _rank_lists():
    """What learns from lists: with JAX, with SciPy alone, and with both."""
    from tinygp.kernels import ExpSquared

    from bayesrank import ConeRank, LambdaRank, RankRLS

    models = [LambdaRank(num_steps=20), ConeRank(num_atoms=2, ridge=1.0), RankRLS()]
    fits = [model.fit(X, [0, 1] * 3, [0, 0, 1, 1, 2, 2]) for model in models]
    fits.append(RankRLS(kernel=ExpSquared(), regularization=1.0).fit(X, [0, 1] * 3, ["q"] * 6))
    return np.concatenate([fitted.predict(X) for fitted in fits])


def _call(work):
    import jax

    jax.config.update("jax_enable_x64", True)  # as in these tests
    return work()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_estimators_side_by_side_agree_with_one_after_the_other(backend):
    works = [_compare, _rank_lists]
    alone = [_call(work) for work in works]
    together = Parallel(n_jobs=2, backend=backend)(delayed(_call)(work) for work in works)
    for found, wanted in zip(list(together), alone, strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_forked_children_say_that_fork_is_not_safe_and_do_not_hang():
    """Those that are forked before anything is computed compute."""
    code = """
        import jax, multiprocessing, os, signal, sys, warnings
        warnings.simplefilter("ignore")  # JAX warns of the fork itself
        import numpy as np
        from tinygp.kernels import ExpSquared
        from bayesrank import (
            CollaborativeGP, LambdaRank, Ranker, PreferenceGP, RankRLS
        )
        from bayesrank.active import QueryLoop
        from bayesrank.online import WidrowHoff

        X, pairs = np.random.default_rng(0).normal(size=(6, 2)), [[0, 1], [2, 3], [4, 5]]
        pid = os.fork()  # before anything is computed: the child can
        if not pid:
            signal.alarm(60)
            WidrowHoff(3).partial_fit(X, [1, 2, 3, 1, 2, 3])
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        fitted = WidrowHoff(3).partial_fit(X, [1, 2, 3, 1, 2, 3])
        loop = QueryLoop(["a", "b", "c"])
        grades, lists = [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2]
        names = [("a", "b"), ("b", "c")]
        ranked = Ranker(hyperparameters="prior").fit(names)
        orders = Ranker(hyperparameters="prior").fit([["a", "b", "c"]])
        rated = CollaborativeGP().fit(["a", "b", "a"], ["x", "y", "y"], [1.0, 2.0, 3.0])
        lists_of = [RankRLS(kernel=ExpSquared()), LambdaRank(num_steps=3)]
        for model in lists_of:
            model.fit(X, grades, lists)

        def say(work):
            try:
                work()
                print("went on")
            except RuntimeError as error:
                print(error)

        pid = os.fork()
        if not pid:
            signal.alarm(60)
            say(lambda: fitted.predict(X))
            say(lambda: fitted.partial_fit(X, [1] * 6))
            say(lambda: PreferenceGP().fit(X, pairs))
            say(lambda: CollaborativeGP().fit(["a", "b", "a"], ["x", "y", "y"], [1.0, 2.0, 3.0]))
            say(lambda: loop.ask())
            for first in (ranked.rank, orders.rank, ranked.suggest, orders.predict):
                say(first)
            say(lambda: ranked.predict_proba(names))
            say(lambda: rated.predict(["a"], ["x"]))
            say(lambda: rated.recommend("a"))
            say(lambda: jax.numpy.zeros((3, 17)) @ jax.numpy.zeros((17, 19)))
            for model in (*lists_of, LambdaRank(model="trees")):
                say(lambda: model.fit(X, grades, lists))
            for model in lists_of:
                say(lambda: model.predict(X))
            linear = RankRLS().fit(X, grades, lists)  # needs no JAX
            assert linear.predict(X).shape == (6,)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            say(lambda: pool.map(fitted.predict, [X, X]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("forked after its parent had computed with JAX") == 19, done.stdout
    assert "went on" not in done.stdout and "'spawn'" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_servers_of_the_page_answer(tmp_path, method):
    """Processes by spawn, and forked ones that load what the parent never touched."""
    page = (ROOT / "docs" / "production.md").read_text()
    server = page.split("```python\n")[1].split("```")[0].replace('"spawn"', f'"{method}"')
    (tmp_path / "server.py").write_text(server)
    (tmp_path / "fit.py").write_text(
        "from bayesrank import Ranker\n"
        "Ranker().fit([('tea', 'milk'), ('milk', 'water')]).save('ranker.npz')\n"
    )
    for script in ("fit.py", "server.py"):
        done = subprocess.run(
            [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    chances = [float(word) for word in done.stdout.split()]
    assert len(chances) == 4 and 0.5 < chances[0] < 1.0 and len(set(chances)) == 1


@pytest.mark.slow
def test_background_learning_under_stress(tmp_path):
    """Threads ask, tell, skip, undo and look while hyperparameters are learned again and again."""
    from bayesrank.active import QueryLoop
    from bayesrank.active.store import read_journal

    path, told, failed = tmp_path / "a.jsonl", [], []
    with QueryLoop(5, X[:5], journal=path, background=True, refit_after=2, seed=1) as loop:

        def work(name):
            try:
                for k in range(12):
                    questions = loop.ask(judge=name)
                    if questions:
                        loop.tell(questions[0].first, questions[0].second, judge=name)
                        told.append(name)
                    if k % 5 == 4:
                        loop.undo(judge=name)
                        told.remove(name)
                    assert np.isfinite(loop.ranking().mean).all()
            except BaseException as error:
                failed.append(error)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            threads = [threading.Thread(target=work, args=(name,)) for name in ("A", "B", "C")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=120)
        assert not failed and not any(thread.is_alive() for thread in threads)
        assert sorted(str(answer.judge) for answer in loop.answers) == sorted(told)
        while loop.is_learning:
            time.sleep(0.01)
        loop.ask()
        before = loop.answers
    records = read_journal(path).records
    assert [record["n"] for record in records] == list(range(1, len(records) + 1))
    assert any(record["event"] == "learned" for record in records)
    with QueryLoop(5, X[:5], journal=path, seed=1) as loop:
        assert loop.answers == before


def test_an_interrupt_that_python_drops_comes_again():
    """In the callback of an object that is gone, and once more where it comes again."""
    code = """
        import signal, time
        from bayesrank import _process
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
        _process._repeat_lost_interrupts()
        class Gone:
            def __init__(self, times):
                self.times = times
            def __del__(self):
                if self.times:
                    again = Gone(self.times - 1)
                    raise KeyboardInterrupt
        try:
            Gone(2)
            time.sleep(20)
        except KeyboardInterrupt:
            print("interrupted")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert (run.stdout, run.stderr) == ("interrupted\n", "")


@pytest.mark.slow
def test_what_interrupted_compilations_read_is_kept():
    """A thread of JAX's goes on compiling after the interrupt, and may crash if that is freed."""
    code = """
        import os, signal, threading, time
        import jax, jax.numpy as jnp
        from bayesrank import _process
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _process.enter_jax()

        def compiled(k):
            def steps(x):
                for i in range(8):
                    x = jnp.sin(x * (i + k)) @ jnp.cos(x)
                return x

            return jax.jit(steps)

        x, cut = jnp.ones((5, 5)), 0
        compiled(-1)(x)
        start = time.perf_counter()
        compiled(0)(x).block_until_ready()
        usual = time.perf_counter() - start
        for k in range(1, 9):
            timer = threading.Timer(usual * k / 9.0, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                compiled(k)(x)
                timer.join()
            except KeyboardInterrupt as error:
                last = error.__traceback__
                while last.tb_next:
                    last = last.tb_next
                cut += last.tb_frame.f_code.co_name == "backend_compile_and_load"
            timer.join()
        frames = [each.tb_frame.f_globals["__name__"] for each in _process._CUT_SHORT]
        assert all(name.startswith("jax.") for name in frames)
        try:
            raise ValueError
        except ValueError:
            compiled(9)(x)  # what is caught is none of JAX's
        assert len(_process._CUT_SHORT) == len(frames)
        print(cut, len(frames))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    cut, kept = map(int, done.stdout.split())
    assert 0 < cut <= kept


def test_what_else_python_drops_is_shown_as_before(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    _process._repeat_lost_interrupts()

    class Gone:
        def __del__(self):
            raise ZeroDivisionError

    Gone()
    assert [each.exc_type for each in seen] == [ZeroDivisionError]
