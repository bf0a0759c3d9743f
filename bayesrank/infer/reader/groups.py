"""Latents that a program draws in a plate, for the observations of that plate alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayesrank.infer.gaussian.arrow import Groups
from bayesrank.infer.reader.conditionals import Local
from bayesrank.infer.reader.joint import Joint

__all__ = ["Grouped", "grouped_latents"]

# With fewer of them, all latents together are as quick.
_MANY = 300
_MOST_EACH = 64


class Grouped(NamedTuple):
    """Latents of the groups that one plate makes.

    Attributes
    ----------
    names
        Their sites.
    groups
        Their groups, in the order of these sites.
    """

    names: tuple[str, ...]
    groups: Groups


def grouped_latents(
    joint: Joint, core: Sequence[str], stated: Mapping[str, Local]
) -> Grouped | None:
    """Find latents that can be eliminated group by group; None where they are few.

    They are independent of each other and of all other latents, no other latent depends on them,
    and they and all observed sites that they reach stand in one plate. An element of the plate is
    then a group: that is what a plate says. `stated` holds the Gaussian latents given all others.
    """
    plates = joint.inventory.plates
    best, most = None, _MANY - 1
    for plate in dict.fromkeys(frame[0] for name in core for frame in plates[name]):
        names = tuple(n for n in core if _belongs(joint, n, plate, core, stated.get(n)))
        axes = [_axis(joint, name, plate) for name in names]
        sizes = [int(np.prod(joint.inventory.latents[name])) for name in names]
        count = max((size for _, size in axes), default=0)
        total = sum(sizes)
        if total > most and len(names) < len(core) and total <= _MOST_EACH * count:
            numbers = [
                _group(joint.inventory.latents[n], *axis)
                for n, axis in zip(names, axes, strict=True)
            ]
            best, most = Grouped(names, Groups.of(np.concatenate(numbers))), total
    return best


def _belongs(joint: Joint, name: str, plate: str, core: Sequence[str], local: Local | None) -> bool:
    """Whether a latent stands in a plate, alone, for observed sites of that plate alone."""
    if plate not in _names(joint, name):
        return False
    if local is None or local.rows is not None or local.covariance.ndim != 1:
        return False
    if any(name in joint.reach(joint.latent_numbers[n]) for n in core if n != name):
        return False
    seers = [n for n, x in joint.observed_numbers.items() if name in joint.reach(x.log_prob)]
    return all(plate in _names(joint, n) for n in seers)


def _names(joint: Joint, name: str) -> list[str]:
    return [frame[0] for frame in joint.inventory.plates[name]]


def _axis(joint: Joint, name: str, plate: str) -> tuple[int, int]:
    """Axis of a plate in a latent, from the end, and its size."""
    return next((dim, size) for p, dim, size in joint.inventory.plates[name] if p == plate)


def _group(shape: tuple[int, ...], axis: int, size: int) -> np.ndarray:
    """Number of each element's group, for the elements of a latent in order."""
    along = np.arange(size).reshape((size,) + (1,) * (-1 - axis))
    return np.broadcast_to(along, shape).reshape(-1)
