"""Every public estimator and learner keeps scikit-learn's manners, before it is fitted, too."""

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

import bayesrank
from bayesrank import online

NEEDED = {"num_levels": 3, "num_labels": 3, "users": [0], "items": [0], "levels": [1]}
LEARNS = ("fit", "partial_fit", "prequential", "prequential_proba")
PLAIN = ("get_params", "set_params", "get_metadata_routing", "load")
PUBLIC = [getattr(room, name) for room in (bayesrank, online) for name in room.__all__]
KINDS = [kind for kind in PUBLIC if hasattr(kind, "get_params")]


def required(call):
    """Values of the arguments that a call cannot do without."""
    found = [p for p in inspect.signature(call).parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = [p.name for p in found if p.default is p.empty or p.name in NEEDED]
    return {name: NEEDED.get(name, np.ones((2, 2))) for name in names}


def questions(kind):
    """Names of what is asked of it: methods, and what fit leaves, if it is a property."""
    public = [name for name in dir(kind) if not name.startswith(("_", "set_"))]
    return [name for name in public if name not in (*LEARNS, *PLAIN)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_is_answered_before_fit(kind, tmp_path):
    learner = kind(**required(kind))
    asked = 0
    for name in questions(kind):
        if (kind, name) == (online.WidrowHoff, "thresholds_"):  # midpoints, whatever it learned
            continue
        if isinstance(inspect.getattr_static(kind, name), property):
            with pytest.raises(NotFittedError):
                getattr(learner, name)
        elif inspect.isfunction(inspect.getattr_static(kind, name)):
            call = getattr(learner, name)
            given = {"path": tmp_path / "r.npz"} if name == "save" else required(call)
            with pytest.raises(NotFittedError):
                call(**given)
        asked += 1
    assert asked >= 2


def choices(kind):
    """Options that are strings by default, of a class and its methods, with their annotations."""
    for name, call in [("", kind), *inspect.getmembers(kind, inspect.isfunction)]:
        if not name.startswith(("_", "set_")):  # scikit-learn writes set_fit_request
            for option in inspect.signature(call).parameters.values():
                if isinstance(option.default, str):
                    yield f"{name}({option.name})", str(option.annotation)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_options_name_their_choices(kind):
    named = ("ScaleChoice", "Outcome", "Unknown")  # which are literals
    assert [n for n, said in choices(kind) if "Literal" not in said and said not in named] == []


@pytest.mark.parametrize("kind", [k for k in KINDS if hasattr(bayesrank, k.__name__)])
def test_options_are_kept_as_they_are_given(kind):
    checks: list[Any] = [
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_parameters_default_constructible,
    ]
    for check in checks:
        check(kind.__name__, kind())


def test_the_package_shows_public_names_alone():
    assert dir(bayesrank) == sorted(bayesrank.__all__)
