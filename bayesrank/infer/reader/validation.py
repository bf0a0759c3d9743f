"""Checks of the parameters that a program gives its distributions.

NumPyro makes these checks itself whenever a distribution is built.  While a program is traced that
costs arrays as large as a prior's covariance, for parameters that are not known yet and so cannot
be judged.  The program is therefore traced without them, and what is known is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, core
from numpyro.distributions import constraints

__all__ = ["Domain", "check_known_domains", "unknown_domains", "validates"]


class Domain(NamedTuple):
    """A parameter of a site's distribution that has to lie in its domain."""

    site: str
    family: str
    parameter: str
    constraint: str

    def raise_unless(self, holds: Any, shown: str = "") -> None:
        """Refuse the parameter where it does not lie there."""
        if not np.all(holds):
            raise ValueError(
                f"site {self.site!r}: the {self.parameter}{shown} of its {self.family} "
                f"distribution is invalid (its domain is {self.constraint}). Check the "
                "model's arguments and params"
            )


def validates(fn: dist.Distribution, default: bool) -> bool:
    """Whether a distribution built while validation was off was to be validated.

    `default` says whether NumPyro validates where the distribution itself does not say.
    """
    own = vars(fn).get("_validate_args")
    return default if own is None else bool(own)


def check_known_domains(sites: Mapping[str, Any], default: bool) -> None:
    """Refuse distributions whose parameters are known and outside their domain."""
    for domain, constraint, value in _parameters(sites, default):
        if not isinstance(value, core.Tracer):
            shown = f"={value}" if np.ndim(value) == 0 else ", an array,"
            with jax.ensure_compile_time_eval():
                domain.raise_unless(_holds(constraint, value), shown)


def unknown_domains(sites: Mapping[str, Any], default: bool) -> Iterator[tuple[Domain, Array]]:
    """Domains of parameters that are computed, and whether they lie there.

    Matrices are left out, for to look at one takes as long as to factor it.
    """
    for domain, constraint, value in _parameters(sites, default):
        if isinstance(value, core.Tracer) and not constraint.event_dim:
            yield domain, jnp.all(constraint(value))


def _holds(constraint: Any, value: Any) -> Any:
    """Whether a constraint holds of numbers that are known."""
    value = np.asarray(value)
    if constraint is constraints.positive_definite:
        symmetric = np.allclose(value, np.swapaxes(value, -1, -2), atol=1e-6)
        return symmetric and _has_root(value)
    return np.all(constraint(value))


def _has_root(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _parameters(sites: Mapping[str, Any], default: bool) -> Iterator[tuple[Domain, Any, Any]]:
    """Parameters that were given as values and whose domain does not depend on others."""
    for name, site in sites.items():
        if site["type"] != "sample":
            continue
        for fn in filter(lambda fn: validates(fn, default), _nested(site["fn"])):
            for parameter, constraint in fn.arg_constraints.items():
                value = vars(fn).get(parameter)
                if _is_array(value) and not constraints.is_dependent(constraint):
                    shown = Domain(name, type(fn).__name__, parameter, str(constraint))
                    yield shown, constraint, value


def _nested(fn: Any) -> Iterator[dist.Distribution]:
    """A distribution and those that it is made of."""
    if isinstance(fn, dist.Distribution):
        yield fn
        for part in vars(fn).values():
            yield from _nested(part)
    elif isinstance(fn, (list, tuple)):
        for part in fn:
            yield from _nested(part)


def _is_array(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.generic, jax.Array))
