"""The engine answers to what a program reads now, wherever it reads it; and code is shared."""

import functools
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from compilations import compilations
from numpy.testing import assert_allclose
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC, NUTS, Predictive

from bayesrank.infer import EP
from bayesrank.solvers.comparisons.dynamic import DynamicEP
from bayesrank.solvers.label_ranking import LabelRankingEP

KEY = jax.random.key(0)
FIRST, SECOND = np.array([1.0, 2.0, 4.0]), np.array([-3.0, 0.5, 1.0])


def normal(name: str, *shape: int) -> Any:
    return numpyro.sample(name, dist.Normal(0.0, 1.0).expand(shape))


def answer(result: Any) -> Any:
    return np.append(result.joint_mean, result.log_evidence)


def exact(y: np.ndarray) -> np.ndarray:
    return np.append(y / 2, dist.Normal(0.0, np.sqrt(2.0)).log_prob(y).sum())


# ---------------------------------------------------------------- data that a program reads


class Store:
    y: Any = None
    __slots__ = ("own",)


MODULE = types.ModuleType("a_module")
GLOBAL: Any = None
DEEP: dict[str, Any] = {}
FRAME = pd.DataFrame({"y": np.zeros(3)})
SERIES = pd.Series(np.zeros(3))
OBJECT: Any = Store()
CELL: list[Any] = [None]


def helper() -> Any:
    return GLOBAL


def set_global(y: Any) -> None:
    globals()["GLOBAL"] = y


def set_deep(y: Any) -> None:
    at = DEEP
    for level in "abcdefg":
        at = at.setdefault(level, {})
    at["h"] = y


def set_frame(y: Any) -> None:
    FRAME["y"] = y


def set_series(y: Any) -> None:
    SERIES.iloc[:] = y


def deep() -> Any:
    at: Any = DEEP
    for level in "abcdefgh":
        at = at[level]
    return at


PLACES = {
    "column": (set_frame, lambda: FRAME["y"].values),
    "series": (set_series, lambda: SERIES),
    "class": (functools.partial(setattr, Store, "y"), lambda: Store.y),
    "module": (functools.partial(setattr, MODULE, "y"), lambda: MODULE.y),
    "object": (functools.partial(setattr, OBJECT, "own"), lambda: OBJECT.own),
    "global": (set_global, helper),
    "dictionary": (set_deep, deep),
    "list": (functools.partial(CELL.__setitem__, 0), lambda: jnp.asarray(CELL[0])),
}


@pytest.mark.parametrize("place", PLACES)
def test_data_are_read_at_each_run(place):
    put, get = PLACES[place]

    def program():
        numpyro.sample("y", dist.Normal(normal("f", 3), 1.0), obs=get())

    engine = EP(program)
    put(FIRST)
    assert_allclose(answer(engine.run(KEY)), exact(FIRST), rtol=1e-9)
    put(SECOND)
    with compilations() as compiled:
        again = engine.run(KEY)
    assert not compiled
    assert_allclose(answer(again), exact(SECOND), rtol=1e-9)


def test_an_object_passed_as_argument_may_change():
    def program(data):
        numpyro.sample("y", dist.Normal(normal("f", 3), 1.0), obs=data.own)

    engine = EP(program)
    for y in (FIRST, SECOND):
        OBJECT.own = y
        assert_allclose(answer(engine.run(KEY, OBJECT)), exact(y), rtol=1e-9)


def test_another_engine_of_the_program_compiles_nothing():
    def program(y):
        numpyro.sample("y", dist.Normal(normal("f", 3), 1.0), obs=y)

    EP(program).run(KEY, FIRST)
    with compilations() as compiled:
        result = EP(program, tol=1e-6, max_sweeps=50).run(KEY, SECOND)
        assert not compiled
        EP(program, power=0.5).run(KEY, SECOND)
        assert compiled
    assert_allclose(answer(result), exact(SECOND), rtol=1e-9)


# ---------------------------------------------------------------- hyperparameters


def bounded(y):
    s = numpyro.sample("s", dist.Uniform(0.0, jnp.max(y)))
    numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)


def capped(y, cap):
    cap = numpyro.param("cap", cap, constraint=dist.constraints.positive)
    s = numpyro.sample("s", dist.Uniform(0.0, cap))
    numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)


@pytest.mark.slow
def test_supports_are_those_of_the_data_at_hand():
    engine, wide, narrow = EP(bounded), 20.0 * FIRST, FIRST
    best = EP(bounded, hyperparameters="map")
    for y in (wide, narrow):
        found = best.run(KEY, y)
        grid = np.linspace(1e-3, y.max(), 40_001)
        log_z = np.asarray(dist.Normal(0.0, np.sqrt(1 + grid[:, None] ** 2)).log_prob(y)).sum(1)
        assert_allclose(found.params["s"], grid[log_z.argmax()], rtol=1e-2)
        assert_allclose(found.log_evidence, log_z.max(), rtol=1e-5)
        weights = np.exp(log_z - log_z.max())
        mean = (grid * weights).sum() / weights.sum()
        integrated = engine.run(KEY, y)
        assert np.max(integrated.weighted_points[0]["s"]) <= y.max()
        assert_allclose(integrated.mean["s"], mean, rtol=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the search for hyperparameters stopped at an edge")
def test_params_that_bound_a_support_and_the_evidence_of_param_sites():
    engine = EP(capped, hyperparameters="map")
    for cap in (60.0, 0.915):
        found = engine.run(KEY, FIRST, 1.0, params={"cap": cap})
        assert 0 < found.params["s"] <= cap
        there = engine.run(KEY, FIRST, 1.0, params=found.params)
        assert_allclose(found.log_evidence, there.log_evidence, rtol=1e-6)

    def scaled(y):
        s = numpyro.param("s", jnp.max(y), constraint=dist.constraints.interval(0.0, jnp.max(y)))
        numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)

    engine = EP(scaled, hyperparameters="map")
    for y in (20.0 * FIRST, FIRST):
        found = engine.run(KEY, y, init={"s": 0.5 * y.max()})
        there = engine.run(KEY, y, params=found.params)
        assert_allclose(found.log_evidence, there.log_evidence, rtol=1e-6)


@pytest.mark.slow
def test_the_program_runs_once_for_a_run_and_once_for_an_integration():
    runs = [0]

    def counted(y):
        runs[0] += 1
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)

    EP(counted).run(KEY, FIRST)
    assert runs == [1]
    EP(counted, hyperparameters="prior").run(KEY, FIRST)
    assert runs == [2]


class Offset(EP):
    """An engine that moves the prior mean by an attribute of its own."""

    def __init__(self, model: Any, offset: float, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.offset = offset

    def read_source(self, source: Any, params: Any) -> Any:
        program = super().read_source(source, params)
        return program._replace(mean=program.mean + self.offset)


@pytest.mark.slow
def test_engines_of_other_attributes_share_no_code():
    def program(y):
        numpyro.sample("y", dist.Normal(normal("f", 3), 1.0), obs=y)

    near, far = (Offset(program, offset).run(KEY, FIRST) for offset in (0.0, 100.0))
    assert_allclose(far.joint_mean - near.joint_mean, 100.0, rtol=1e-6)


# ---------------------------------------------------------------- random programs


def random_program(rng: np.random.Generator) -> Any:
    """A program whose data come from a closure, an argument and an attribute."""
    size, count = int(rng.integers(1, 5)), int(rng.integers(2, 7))
    row = rng.integers(size, size=count)
    likelihood, prior, read = (int(rng.integers(k)) for k in (4, 3, 3))
    box = types.SimpleNamespace()

    def program(x, y):
        x, y = ((x, y), (box.x, y), (jnp.asarray(box.x), jnp.asarray(box.y)))[read]
        s = numpyro.sample("s", dist.Gamma(2.0, 2.0 + abs(x[0]))) if prior else 1.0
        f: Any = numpyro.sample("f", dist.Normal(x[1], s).expand([size]))
        if prior == 2:
            f = f + numpyro.sample("g", dist.Normal(f[0], 0.5 + x[2] ** 2))
        eta = f[row] * x[: len(row)]
        if likelihood == 0:
            numpyro.sample("y", dist.Normal(eta, 0.3 + x[3] ** 2), obs=y)
        elif likelihood == 1:
            numpyro.sample("y", dist.Bernoulli(logits=eta), obs=(y > 0).astype(int))
        elif likelihood == 2:
            numpyro.sample("y", dist.StudentT(5.0, eta, 1.0 + abs(x[3])), obs=y)
        else:
            numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=jnp.floor(jnp.abs(y)))

    def data(rng: np.random.Generator) -> tuple[Any, Any]:
        box.x, box.y = rng.normal(size=8), rng.normal(size=count)
        return box.x, box.y

    return program, data, read == 1


def evidence_and_mean(engine: EP, *args: Any) -> Any:
    evidence, state = engine.evidence_and_state({}, *args)
    return evidence, engine.read({}, *args).mean + state.posterior.mean


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesrank.infer.AccuracyWarning")
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_answer_to_changed_data(seed):
    rng = np.random.default_rng(seed)
    program, data, has_numbers = random_program(rng)
    engine = EP(program, hyperparameters="prior")
    engine.run(KEY, *data(rng))
    changed = data(rng)
    with compilations() as compiled:
        found = answer(engine.run(KEY, *changed))
    assert has_numbers or not compiled  # a number of NumPy's stands in the equations
    # Under a user's own transformation, nothing that was compiled before is used.
    pure, mean = jax.jit(functools.partial(evidence_and_mean, EP(program)))(*changed)
    assert_allclose(found[-1], pure, atol=1e-6)
    assert_allclose(found[:-1], mean[: found.size - 1], atol=1e-5)


# ---------------------------------------------------------------- solvers


def dynamic_data() -> tuple[tuple, dict[str, Any]]:
    wins = np.array([[0, 1], [1, 2], [1, 0]])
    return (3, wins), {"times": np.array([0.0, 1.0]), "period": np.array([0, 0, 1])}


@pytest.mark.slow
def test_a_solver_keeps_its_structure_in_all_of_its_functions():
    args, kwargs = dynamic_data()
    engine = DynamicEP(structure="auto", hyperparameters="prior")
    result = engine.run(KEY, *args, **kwargs)
    assert result.marginalized_sites == ("past",)
    evidence, state = engine.evidence_and_state({}, *args, **kwargs)
    assert_allclose(evidence, result.log_evidence, rtol=1e-6)
    step = engine.step(engine.init({}, *args, **kwargs), {}, *args, **kwargs)
    assert jax.tree.structure(step.posterior) == jax.tree.structure(state.posterior)
    again = engine.run(KEY, 3, args[1][:, ::-1], **kwargs)
    assert_allclose(again.mean["f"], -result.mean["f"], atol=1e-6)
    labels = LabelRankingEP(structure="auto")
    X, better, worse = np.array([[1.0], [-1.0]]), np.array([[0], [1]]), np.array([[1], [0]])
    found = labels.run(KEY, X, better, worse, 2)
    assert found.marginalized_sites == ("noise",)
    step = labels.step(labels.init({}, X, better, worse, 2), {}, X, better, worse, 2)
    _, state = labels.solve({}, X, better, worse, 2)
    assert jax.tree.structure(step.posterior) == jax.tree.structure(state.posterior)


@pytest.mark.slow
def test_pure_functions_refuse_what_run_alone_keeps():
    def walk(y):
        f = jnp.asarray(numpyro.sample("f", dist.GaussianRandomWalk(1.0, num_steps=4)))
        numpyro.sample("y", dist.Bernoulli(logits=f[:3] - f[1:]), obs=y)

    engine, y = EP(walk, structure="probes"), np.array([1, 0, 1])
    assert engine.run(KEY, y).converged
    step = functools.partial(engine.step, None)  # type: ignore[arg-type]
    for function in (engine.init, step, engine.solve, engine.evidence_and_state):
        with pytest.raises(ValueError, match="use EP.run, or EP"):
            function({}, y)


# ---------------------------------------------------------------- what programs do with their data


def with_numpy(X, y):
    design = np.stack([np.asarray(X)[:, 0], np.asarray(X)[:, 1] ** 2], axis=1)
    w = normal("w", 2)
    numpyro.sample("y", dist.Normal(design @ w, 1.0), obs=y)


def with_rows(X, y):
    design = np.stack([x[0] * np.asarray(x) for x in X])
    numpyro.sample("y", dist.Normal(jnp.asarray(design) @ normal("w", 2), 1.0), obs=y)


def with_branches(X, y):
    if X.max() > 3 and y[0] > 0:
        X = X / X.max()
    numpyro.sample("y", dist.Normal(X @ normal("w", 2), 1.0), obs=y)


def with_a_scan(X, y):
    def step(level, number):
        level = numpyro.sample("level", dist.Normal(level, 0.5))
        numpyro.sample("y", dist.Normal(level + X[number, 0], 1.0), obs=y[number])
        return level, level

    scan(step, 0.0, np.arange(len(y)))


def centred(X, y):
    with numpyro.plate("all", 2):
        w = numpyro.sample("w", dist.Normal(numpyro.sample("m", dist.Normal(0.0, 1.0)), 0.7))
    numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


class Callable_:
    def __call__(self, X, y):
        centred(X, y)


LOC = numpyro.infer.reparam.LocScaleReparam(0.0)
FORMS: dict[str, Any] = {
    "numpy": with_numpy,
    "rows": with_rows,
    "branches": with_branches,
    "scan": with_a_scan,
    "reparam": handlers.reparam(centred, config={"w": LOC}),
    "condition": handlers.condition(centred, data={"m": jnp.asarray(0.3)}),
    "substitute": handlers.substitute(centred, data={"m": jnp.asarray(0.3)}),
    "partial": functools.partial(lambda k, X, y: centred(k * X, y), 2.0),
    "object": Callable_(),
}


def _form(name: str) -> Any:
    fast = name in ("rows", "branches")
    return pytest.param(name, marks=[] if fast else [pytest.mark.slow])


@pytest.mark.parametrize("form", [_form(name) for name in FORMS])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_programs_of_every_form_answer_to_changed_data(form):
    rng = np.random.default_rng(3)
    program, engine = FORMS[form], EP(FORMS[form])
    for count in (4, 4, 5):
        X, y = rng.normal(1.0, 2.0, (count, 2)), rng.normal(1.0, size=count)
        result = engine.run(KEY, X, y)
        assert result.converged
        fresh = EP(lambda *args: program(*args), damping=0.9).run(KEY, X, y)
        assert_allclose(answer(result), answer(fresh), atol=1e-3)
    assert result.accuracy.is_good


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False])
def test_a_hyperparameter_that_the_program_substitutes_starts_there(inside):
    def program(y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)

    data = {"s": jnp.asarray(0.4)}
    outer = handlers.substitute(program, data)

    def with_handler(y):
        with handlers.substitute(data=data):
            program(y)

    for y in (FIRST, SECOND):
        held = EP(with_handler if inside else outer, hyperparameters="prior").run(KEY, y)
        given = EP(program).run(KEY, y, params=data)
        assert_allclose(answer(held), answer(given), rtol=1e-9)
        assert_allclose(held.params["s"], 0.4)


@pytest.mark.slow
def test_values_that_the_structure_needs_are_part_of_the_key():
    def kinked(y, where):
        f = normal("f", 3)
        eta = jnp.exp(f)[where]
        numpyro.sample("y", dist.Normal(eta, 1.0), obs=y)

    engine = EP(kinked)
    for where in ([0, 1, 2], [2, 1, 0], [0, 1, 2]):
        where = np.array(where)
        result = engine.run(KEY, FIRST, where)
        again = EP(functools.partial(kinked, where=where)).run(KEY, FIRST)
        assert_allclose(result.mean["f"], again.mean["f"], atol=1e-6)
    ordered = engine.run(KEY, FIRST[::-1], np.array([2, 1, 0]))
    assert_allclose(ordered.mean["f"], result.mean["f"], atol=1e-6)


@jax.custom_jvp
def doubled(x):
    return 2.0 * x


@doubled.defjvp
def _(primals, tangents):
    return doubled(*primals), 2.0 * tangents[0]


class Hidden(dist.Distribution):
    """A distribution that hides its scale from JAX's tree."""

    arg_constraints = {"loc": dist.constraints.real}
    support = dist.constraints.real  # pyright: ignore

    def __init__(self, loc, scale):
        self.loc, self.scale = loc, scale
        super().__init__(jnp.shape(loc), ())

    def log_prob(self, value, intermediates=None):
        return dist.Normal(self.loc, self.scale).log_prob(value)


@pytest.mark.slow
def test_rules_and_distributions_of_a_users_own():
    def program(y, scale):
        f = normal("f", 3)
        numpyro.sample("y", Hidden(0.5 * doubled(f), jnp.exp(scale)), obs=y)

    engine = EP(program)
    for y, scale in ((FIRST, 0.0), (SECOND, np.array(0.0)), (FIRST, np.array(1.0))):
        result = engine.run(KEY, y, scale)
        variance = np.exp(2.0 * scale)
        assert_allclose(result.mean["f"], y / (1.0 + variance), rtol=1e-4)


def lapsed(slope):
    """A likelihood whose derivative is not that of what it computes."""

    @jax.custom_jvp
    def softplus(x):
        return jnp.logaddexp(0.0, x)

    softplus.defjvps(lambda tangent, _, x: slope * jax.nn.sigmoid(x) * tangent)

    def program(y):
        f = normal("f", 3)
        numpyro.factor("y", y * f - softplus(f))

    return program


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesrank.infer.AccuracyWarning")
def test_rules_that_jax_wraps_are_told_apart():
    means = [EP(lapsed(slope)).run(KEY, FIRST).mean["f"] for slope in (2.0, 1.0)]
    assert np.max(np.abs(means[0] - means[1])) > 0.1

    def rectified(y):
        numpyro.sample("y", dist.Normal(jax.nn.relu(normal("f", 3)), 1.0), obs=y)

    EP(rectified).run(KEY, FIRST)
    with compilations() as compiled:
        EP(rectified).run(KEY, SECOND)
    assert not compiled


@pytest.mark.slow
@pytest.mark.parametrize("way", ["integrate", "prior", None])
def test_a_result_is_judged_by_the_data_that_it_was_fitted_to(way):
    y = np.linspace(-1.0, 2.0, 64)

    def program():
        s = numpyro.sample("s", dist.HalfNormal(1.0)) if way else 1.0  # none to treat in a way
        numpyro.sample("y", dist.Normal(normal("f", 64) * s, 1.0), obs=y)

    result = EP(program, hyperparameters=way or "integrate").run(KEY, num_samples=50)
    y[:] = -50.0
    assert result.accuracy.mean_error < 1e-6 and result.accuracy.sd_error < 1e-6


@pytest.mark.slow
def test_a_guide_and_settings_of_an_average():
    def program(y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)

    result = EP(program).run(KEY, FIRST, num_samples=4000)
    draws = Predictive(result.guide, num_samples=4000)(KEY)
    assert_allclose(draws["s"].mean(), result.mean["s"], atol=0.05)
    chain = MCMC(
        NUTS(program, **result.nuts_settings()),
        num_warmup=200,
        num_samples=2000,
        progress_bar=False,
    )
    chain.run(KEY, FIRST)
    assert_allclose(chain.get_samples()["f"].mean(0), result.mean["f"], atol=0.15)
    with pytest.raises(ValueError, match="averaged over, so there is no program of the latents"):
        result.autoguide()


@pytest.mark.slow
def test_results_say_what_they_are():
    def program(y):
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(normal("f", 3) * s, 1.0), obs=y)

    shown = repr(EP(program).run(KEY, FIRST)).splitlines()
    assert shown[0].startswith("EPResult: converged, log evidence -")
    assert shown[1:] == ["  f  inferred: 3 numbers, shape (3,)", shown[2]]
    assert shown[2].startswith("  s  integrated over: mean 1.")
    large = EP(lambda y: program_of_pairs(y), structure="factorised").run(KEY, np.array([1, 0]))
    assert repr(large).startswith("EPResult: converged after ")


def program_of_pairs(y):
    f = normal("f", 3)
    numpyro.sample("y", dist.Bernoulli(logits=f[:2] - f[1:]), obs=y)
