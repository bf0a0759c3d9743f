"""EP on programs of orders, whose result holds the skills alone."""

from collections.abc import Mapping
from typing import Any

from bayesrank.infer import EP
from bayesrank.infer.spi import Program, Traced


class OrdersEP(EP):
    """EP on a program of `bayesrank.models.orders`: the same fixed point, with a smaller result.

    It integrates over the noise of every performance, which is among `marginalized_sites`. So a
    result grows with the items, not with the events.

    Parameters
    ----------
    model, **settings
        Those of `bayesrank.infer.EP`.

    Examples
    --------
    >>> import jax
    >>> from bayesrank.models.orders import events, thurstone_orders
    >>> data = events([[2, 0, 1], [2, (0, 1)]], 3)
    >>> result = OrdersEP(thurstone_orders).run(jax.random.key(0), 3, *data)
    >>> result.latent_sites, result.marginalized_sites
    (('f',), ('noise',))
    """

    def read_source(self, source: Traced, params: Mapping[str, Any]) -> Program:
        """Read the program, and keep the skills."""
        program = super().read_source(source, params)
        shapes = {"f": program.layout.shapes["f"]}
        layout = program.layout._replace(shapes=shapes, eliminated=("noise",))
        return program._replace(layout=layout)
