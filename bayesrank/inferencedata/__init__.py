"""From a fitted result to ArviZ, for EP, NUTS and SVI alike.

`to_arviz` returns what the installed ArviZ works with: an ``InferenceData`` on 0.23, an xarray
``DataTree`` on 1.x. The groups are the same on both:

``posterior``
    Latent sites, and what the program computes from them with ``deterministic``.
``posterior_predictive``
    Replicated observations, one set a draw. Also draws of sites that the engine left out because
    no data depend on them, such as outcomes of comparisons yet to be made.
``log_likelihood``
    Log density of every observation at every draw, as ``numpyro.infer.log_likelihood`` has it:
    ``scale`` is left out, and elements under a ``mask`` are 0 in all draws. Select the others
    before ``az.loo``, which from ArviZ 1.0 on refuses an element that does not vary.
``observed_data``
    What was observed.
``constant_data``
    Hyperparameters that the engine fixed, and what depends on them alone: known numbers, not
    draws, so they are no rows of a summary.
``sample_stats``
    Divergences and the like, of NUTS.

Draws of EP and SVI are independent and make one chain. Their effective sample size is about
their number whatever the fit is worth, and R-hat, which needs two chains, is NaN. Judge EP by
``converged`` and by a cross-check against NUTS.
"""

from bayesrank.inferencedata._convert import to_arviz as to_arviz
from bayesrank.inferencedata._results import PosteriorResult as PosteriorResult
from bayesrank.inferencedata._results import SVIPosterior as SVIPosterior

__all__ = ["PosteriorResult", "SVIPosterior", "to_arviz"]
