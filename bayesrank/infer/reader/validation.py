"""Checks of the parameters that a program gives its distributions.

NumPyro makes these checks itself whenever a distribution is built.  While a program is traced that
costs arrays as large as a prior's covariance, for parameters that are not known yet and so cannot
be judged.  The program is therefore traced without them, and what is known is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from jax import core
from numpyro.distributions import constraints

__all__ = ["refuse_invalid_parameters", "validates"]


def validates(fn: dist.Distribution, default: bool) -> bool:
    """Whether a distribution built while validation was off was to be validated.

    Parameters
    ----------
    fn
        The distribution.
    default
        Whether NumPyro validates where the distribution itself does not say.
    """
    return bool(vars(fn).get("_validate_args", default))


def refuse_invalid_parameters(sites: Mapping[str, Any], default: bool) -> None:
    """Refuse distributions whose parameters are known and outside their domain.

    Parameters
    ----------
    sites
        NumPyro's trace of the program.
    default
        Whether NumPyro validates distributions that do not say so themselves.

    Raises
    ------
    ValueError
        Naming site, distribution and parameter.
    """
    for name, site in sites.items():
        if site["type"] != "sample":
            continue
        for fn in _nested(site["fn"]):
            if not validates(fn, default):
                continue
            for parameter, constraint in _known_parameters(fn):
                value = getattr(fn, parameter)
                with jax.ensure_compile_time_eval():
                    valid = np.all(constraint(value))
                if not valid:
                    shown = f"={value}" if np.ndim(value) == 0 else ", an array,"
                    raise ValueError(
                        f"site {name!r}: the {parameter}{shown} of its {type(fn).__name__} "
                        f"distribution is invalid (its domain is {constraint}). Check the "
                        "model's arguments and params"
                    )


def _nested(fn: Any) -> Iterator[dist.Distribution]:
    """A distribution and those that it is made of."""
    if isinstance(fn, dist.Distribution):
        yield fn
        for part in vars(fn).values():
            yield from _nested(part)
    elif isinstance(fn, (list, tuple)):
        for part in fn:
            yield from _nested(part)


def _known_parameters(fn: dist.Distribution) -> Iterator[tuple[str, Any]]:
    """Parameters that were given as values and whose domain does not depend on others."""
    for parameter, constraint in fn.arg_constraints.items():
        value = vars(fn).get(parameter)
        if value is None or isinstance(value, core.Tracer) or not _is_array(value):
            continue
        if not constraints.is_dependent(constraint):
            yield parameter, constraint


def _is_array(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.generic, jax.Array))
