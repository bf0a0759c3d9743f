"""Saved states whose values were changed and whose checksum was made good again."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import jax
import numpy as np

from bayesrank._states import _checksum, read_arrays, write_arrays
from bayesrank.estimators import ArenaRanker, LabelRanker, LinkLearn, OrderRanker, PairwiseRanker
from bayesrank.online import OAPBPM, OnlineBayesPoint, WidrowHoff
from bayesrank.solvers.collaborative import EMState

_STATES = Path(__file__).parents[1] / "tests" / "data" / "states"
_PAIRS = [("tea", "milk"), ("cocoa", "water")]
_GRADED = np.random.default_rng(0).normal(size=(3, 2))
_WRONG = (None, True, 0, -1, 10**6, 10**40, 1e308, "x", "", 0.5, [[]])
_WRONG += ({"list": []}, {"dict": {}}, {"array": "0"}, {"array": "none"})


def _ranked(ranker: Any) -> Any:
    return ranker.predict(), ranker.predict_proba([ranker.names_[:2]])


def _logged(ranker: Any) -> Any:
    effects = [each[2:] for each in ranker.effects()]
    return *_ranked(ranker), ranker.judges().to_numpy(float), effects, ranker.notes()


def _ordinal(learner: Any) -> Any:
    return learner.predict(_GRADED)


_KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any]]] = {
    "graph": (PairwiseRanker.load, _ranked),
    "low_rank": (PairwiseRanker.load, _ranked),
    "orders": (OrderRanker.load, _ranked),
    "arena_averaged": (ArenaRanker.load, _logged),
    "arena_learned": (ArenaRanker.load, _logged),
    "labels_rbf": (LabelRanker.load, lambda it: it.posterior_.utilities(_GRADED)),
    "links": (LinkLearn.load, lambda it: it.search(np.ones((1, 6), int), k=2)),
    "OAPBPM": (lambda path: OAPBPM(3, 5, 0.5, 3).load(path), _ordinal),
    "OnlineBayesPoint": (
        lambda path: OnlineBayesPoint(3, noise=(0.1, 0.5)).load(path), _ordinal,
    ),
    "WidrowHoff": (lambda path: WidrowHoff(3, 0.05).load(path), _ordinal),
    "em": (EMState.load, lambda it: it[:-2]),
}  # fmt: skip


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all parts of a tree of JSON."""
    if isinstance(tree, list):
        tree = dict(enumerate(tree))
    for name, each in tree.items() if isinstance(tree, dict) else ():
        yield (*path, name)
        yield from _places(each, (*path, name))


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = value if len(path) == 1 else _with(tree[path[0]], path[1:], value)
    return copy


def _changed(array: Any, rng: np.random.Generator) -> Any:
    """The array with other numbers, or of another shape or kind."""
    one = np.array(array)
    if one.size and one.dtype.kind in "fiu":
        one.flat[rng.integers(one.size)] = rng.choice([0, 7, 100])
    number = array.astype(float) if array.dtype.kind in "fiu" else np.zeros(array.shape)
    choices = (
        one, -number, 1e200 * number, 1e-300 * number, 0 * number, number + 0.5,
        np.full(array.shape, "x"), array[None], array[..., :0] if array.ndim else array[None],
        array.astype(bool), number.astype(complex), np.concatenate([np.ravel(array)] * 2),
    )  # fmt: skip
    return choices[rng.integers(len(choices))]


def _numbers(answer: Any) -> Iterator[Any]:
    if isinstance(answer, tuple | list):
        for each in answer:
            yield from _numbers(each)
    elif hasattr(answer, "dtype") and np.asarray(answer).dtype.kind == "f":
        yield np.asarray(answer)
    elif isinstance(answer, float):
        yield answer


def tamper_with(kind: str, times: int, seed: int = 0) -> Counter[str]:
    """Alter a state again and again; count how many were refused, and how many answered.

    Raises
    ------
    AssertionError
        If one answers by what is no number, or is refused without the name of its file.
    """
    load, answer = _KINDS[kind]
    rng, ends = np.random.default_rng(seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "state.npz"
        load(_STATES / f"{kind}.npz").save(path)
        kept = read_arrays(path, "tamper")
        header = json.loads(kept.pop("header").tobytes())
        del header["checksum"]
        places = list(_places(header["state"]))
        for _ in range(times):
            state, arrays = header["state"], dict(kept)
            if rng.random() < 0.5:
                what: Any = rng.choice(list(arrays))
                arrays[what] = _changed(arrays[what], rng)
            else:
                what = places[rng.integers(len(places))], _WRONG[rng.integers(len(_WRONG))]
                state = _with(state, *what)
            changed = header | {"state": state}
            changed["checksum"] = _checksum(changed, arrays)
            text = np.frombuffer(json.dumps(changed).encode(), np.uint8)
            write_arrays(path, {"header": text, **arrays})
            try:
                loaded = load(path)
            except ValueError as error:
                if str(path) not in str(error):
                    raise AssertionError(f"{kind}, {what}: {error}") from error
                ends["refused"] += 1
                continue
            if not _answers(loaded, answer, f"{kind}, {what}"):
                raise AssertionError(f"{kind}, {what}: answers by what is no number")
            ends["answered"] += 1
    return ends


def _answers(loaded: Any, answer: Callable[[Any], Any], what: str) -> bool:
    try:
        return all(np.isfinite(each).all() for each in _numbers(answer(loaded)))
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


@click.command()
@click.option("--times", type=click.IntRange(1), default=1000, help="Changes of each kind.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of chance.")
def tamper(times: int, seed: int) -> None:
    """Change states and their checksums: each is refused by name, or answers by numbers."""
    with jax.enable_x64(True):
        for kind in _KINDS:
            ends = tamper_with(kind, times, seed)
            click.echo(
                f"{kind:17} {times} changes: " + f"{ends['refused']} refused, the others answer"
            )


COMMANDS = (tamper,)
