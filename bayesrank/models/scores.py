r"""Scores of systems on tasks: solved or not, solved in so many of several runs, grades, numbers.

System :math:`i` meets task :math:`t` at the predictor

.. math:: \eta_{it} = s_t (a_i - d_t) + u_{c(t) i} + e_{it},

its ability less the task's difficulty [1]_. How sharply a task discriminates is :math:`s`, one for
all tasks unless they differ in it [2]_. With clusters of tasks, :math:`u` is what a system is
better or worse by within one. With repeated runs, :math:`e` is what a system has with one task: all
runs of the cell share it, so twenty runs of one cell say less than one run of twenty tasks. A run
succeeds with probability :math:`\mathrm{logit}^{-1}(\eta)`; a grade is the interval between
thresholds that :math:`\eta` plus logistic noise falls into; a number is :math:`\eta` plus normal
noise. Cells that nobody ran are left out, whatever the reason, if abilities and difficulties
explain it.

Tasks are independent given the abilities, which is what `bayesrank.solvers.scores` uses.

References
----------
.. [1] Rasch, G. (1960). Probabilistic models for some intelligence and attainment tests.
.. [2] Birnbaum, A. (1968). Some latent trait models and their use in inferring an examinee's
   ability. In Lord, F. M. and Novick, M. R., Statistical theories of mental test scores.
"""

import math
from typing import Any, Literal

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesrank._validate import (
    check_choice,
    check_column,
    check_count,
    check_levels,
    check_numbers,
    known,
    refuse_rows,
)
from bayesrank.distributions.ordinal import OrderedLogit, centred_thresholds

LEVEL_SD = 2.0  #: prior standard deviation of the mean ability
SCALES = {"ability": 0.7, "difficulty": 1.0, "cluster": 0.3, "cell": 0.5, "noise": 0.7}
SCALES |= {"discrimination": 0.3}
"""Prior medians of the ``..._spread`` sites and of ``noise``; their logarithms have sd 1."""


def scale_prior(name: str) -> dist.LogNormal:
    """Prior of one of `SCALES`."""
    return dist.LogNormal(math.log(SCALES[name]), 1.0)


def score_table(
    systems: ArrayLike,
    tasks: ArrayLike,
    scores: ArrayLike,
    num_systems: int,
    num_tasks: int,
    *,
    runs: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    num_clusters: int = 0,
    kind: Literal["solved", "grade", "number"] = "solved",
    num_levels: int | None = None,
    discriminations: bool = False,
) -> None:
    """Scores of systems on tasks, one for each cell of the table that was run.

    ========================= ============================== =======================================
    site                      prior                          meaning
    ========================= ============================== =======================================
    ``ability_spread``        LogNormal(log 0.7, 1)          sd of abilities
    ``difficulty_spread``     LogNormal(0, 1)                sd of difficulties
    ``cluster_spread``        LogNormal(log 0.3, 1)          sd of ``cluster`` (with `clusters`)
    ``cell_spread``           LogNormal(log 0.5, 1)          sd of ``cell`` (with `runs`)
    ``discrimination_spread`` LogNormal(log 0.3, 1)          sd of its logarithm
    ``discrimination``        LogNormal(0, spread), (T,)     of tasks (with `discriminations`)
    ``gaps``                  LogNormal(0, 1), (r - 2,)      distances of thresholds (of grades)
    ``noise``                 LogNormal(log 0.7, 1)          sd of a score (of numbers)
    ``level``                 Normal(0, 2)                   mean ability
    ``ability``               Normal(level, spread), (n,)    abilities
    ``difficulty``            Normal(0, spread), (T,)        difficulties
    ``cluster``               Normal(0, spread), (C, n)      a system's advantage within a cluster
    ``cell``                  Normal(0, spread), (K,)        a system's advantage at a task
    ``score``                 observed, (K,)                 scores
    ========================= ============================== =======================================

    Parameters
    ----------
    systems, tasks, scores : ArrayLike
        Who was run on what, in whole numbers from 0, each cell once; and how many runs succeeded
        (solved), levels from 0 (grade), or numbers, which the priors suppose standardised. Each
        has shape (K,).
    num_systems, num_tasks : int
        Numbers n of systems and T of tasks.
    runs : ArrayLike, optional
        Number of runs of each cell, shape (K,); one by default.
    clusters : ArrayLike, optional
        Cluster of each task, whole numbers from 0, shape (T,).
    num_clusters : int, default 0
        Number C of clusters.
    kind : {"solved", "grade", "number"}
        What scores are.
    num_levels : int, optional
        Number r of levels of grades; one more than the largest if not given.
    discriminations : bool, default False
        Whether tasks discriminate more or less sharply. EP takes ``discrimination`` for
        hyperparameters, over which NUTS walks if tasks are many.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.
    """
    check_choice(kind, "kind", "solved", "grade", "number")
    who = _numbers(systems, "systems", num_systems)
    what = _numbers(tasks, "tasks", num_tasks, len(who))
    count = len(who)
    ability_spread = numpyro.sample("ability_spread", scale_prior("ability"))
    difficulty_spread = numpyro.sample("difficulty_spread", scale_prior("difficulty"))
    level = numpyro.sample("level", dist.Normal(0.0, LEVEL_SD))
    each = dist.Normal(level, ability_spread).expand([num_systems])
    ability = jnp.asarray(numpyro.sample("ability", each))
    spread = dist.Normal(0.0, difficulty_spread).expand([num_tasks])
    predictor = ability[who] - jnp.asarray(numpyro.sample("difficulty", spread))[what]
    if discriminations:
        spread = numpyro.sample("discrimination_spread", scale_prior("discrimination"))
        sharp = dist.LogNormal(0.0, spread).expand([num_tasks])
        predictor = jnp.asarray(numpyro.sample("discrimination", sharp))[what] * predictor
    if clusters is not None:
        group = _numbers(clusters, "clusters", num_clusters, num_tasks)
        within = dist.Normal(0.0, numpyro.sample("cluster_spread", scale_prior("cluster")))
        drawn = numpyro.sample("cluster", within.expand([num_clusters, num_systems]))
        predictor = predictor + jnp.asarray(drawn)[group[what], who]
    if runs is not None:
        if kind != "solved":
            raise ValueError("runs are given for scores that count no successes; leave them out")
        runs = check_numbers(runs, "runs", count)
        own = dist.Normal(0.0, numpyro.sample("cell_spread", scale_prior("cell")))
        predictor = predictor + numpyro.sample("cell", own.expand([count]))
    observed, law = _observed(scores, count, kind, num_levels, runs, predictor)
    with numpyro.plate("cells", count):
        numpyro.sample("score", law, obs=observed)


def _observed(
    scores: ArrayLike, count: int, kind: str, num_levels: int | None, runs: Any, predictor: Any
) -> tuple[Any, dist.Distribution]:
    """The scores, and their distribution given the predictor."""
    if kind == "grade":
        levels, num_levels = check_levels(scores, count, num_levels)
        gaps = jnp.zeros(0)
        if num_levels > 2:
            prior = dist.LogNormal(0.0, 1.0).expand([num_levels - 2]).to_event(1)
            gaps = jnp.asarray(numpyro.sample("gaps", prior))
        return levels, OrderedLogit(predictor, centred_thresholds(gaps))
    observed = check_numbers(scores, "scores", count)
    if kind == "number":
        return observed, dist.Normal(predictor, numpyro.sample("noise", scale_prior("noise")))
    if runs is None:
        refuse_rows(known(scores), lambda v: (v != 0) & (v != 1), "scores", "pass 0 or 1, or runs")
        return observed, dist.Bernoulli(logits=predictor)
    return observed, dist.Binomial(runs, logits=predictor)


def _numbers(values: ArrayLike, name: str, number: int, count: int | None = None) -> Any:
    """Whole numbers from 0 to ``number - 1``, shape (count,)."""
    array = known(values)
    count = len(array) if count is None else count
    array = check_column(array, name, count, "iu", "whole numbers")
    fix = f"pass numbers from 0 to {check_count(number, f'num_{name}') - 1}"
    refuse_rows(array, lambda v: (v < 0) | (v >= number), name, fix)
    return jnp.asarray(array)
