"""Judges whose noise is learned from the answers."""

from typing import Any

import jax
import numpy as np
import pytest

from bayesrank.active import QueryLoop
from bayesrank.active.program import answered as program
from bayesrank.infer import EP

N = 8
FIXED = {"scale": 2.0}


def answered(loop, answers=40, seed=0):
    """Ann and Di know the order of the items, Cy says anything."""
    rng = np.random.default_rng(seed)
    for number in range(answers):
        high, low = sorted(rng.choice(N, 2, replace=False))
        if rng.random() < 0.1:
            high, low = low, high
        careless = number % 3 == 1 and rng.random() < 0.5
        who = ("Ann", "Cy", "Di")[number % 3]
        loop.tell(*((low, high) if careless else (high, low)), judge=who)
    return loop


@pytest.mark.slow
def test_the_noise_is_that_under_which_the_answers_are_most_probable():
    loop = answered(QueryLoop(N, hyperparameters=FIXED, judge_noise="learn"))
    loop.learn()
    found, names = loop.judge_noise, ["Ann", "Cy", "Di"]
    assert [*found] == names
    who = np.array([names.index(str(answer.judge)) for answer in loop.answers])
    engine = EP(program, tol=1e-10)

    def objective(logs):
        result = engine.run(
            jax.random.key(0), N, loop.comparisons, params=FIXED, noise_factor=np.exp(logs)[who]
        )
        return result.log_evidence - 0.5 * np.sum((logs / 0.5) ** 2)

    best = np.log([found[name] for name in names])
    for move in 0.1 * np.eye(3):
        up, here, down = objective(best + move), objective(best), objective(best - move)
        assert here > max(up, down)
        # The parabola through the three has its top where they say, to a tenth of the step.
        assert abs(0.5 * (down - up) / (up - 2 * here + down)) < 0.1


@pytest.mark.slow
def test_a_careless_judge_counts_for_less():
    loop = answered(QueryLoop(N, judge_noise="learn", refit_after=60), 90)
    assert set(loop.judge_noise.values()) == {1.0}
    loop.ask()
    noise = loop.judge_noise
    assert noise["Cy"] > 1.5 * max(noise["Ann"], noise["Di"])
    precision = loop.result.sites["comparison"][0]
    who = np.array([answer.judge for answer in loop.answers])
    assert np.median(precision[who == "Cy"]) < 0.5 * np.median(precision[who == "Ann"])
    # What is asked of Cy promises less.
    gain = {name: loop.ask(judge=name)[0].gain for name in ("Cy", "Ann")}
    assert gain["Cy"] < gain["Ann"]


@pytest.mark.slow
def test_the_journal_keeps_what_was_learned(tmp_path):
    path = tmp_path / "answers.journal"
    options: Any = {"hyperparameters": FIXED, "judge_noise": "learn", "journal": path}
    with answered(QueryLoop(N, **options, refit_after=40)) as loop:
        loop.ask()
        noise, number = loop.judge_noise, len(loop.log)
        loop.ask()
        assert len(loop.log) == number  # it is not learned again before the answers have doubled
    with QueryLoop(N, **options, refit_after=40) as again:
        assert again.judge_noise == noise
        np.testing.assert_allclose(again.result.mean["f"], loop.result.mean["f"])
        final = again.final_ranking()
    with QueryLoop(N, journal=path, hyperparameters=FIXED) as equal:
        assert set(equal.judge_noise.values()) == {1.0}
    assert final.names[0] in ("0", "1", "2")


def test_one_judge_is_not_compared_with_anybody():
    loop = QueryLoop(3, hyperparameters=FIXED, judge_noise="learn", refit_after=1)
    loop.tell(0, 1, judge="Ann")
    assert loop.ask() and loop.judge_noise == {"Ann": 1.0}
