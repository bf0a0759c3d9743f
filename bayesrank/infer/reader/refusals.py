"""Why a program cannot be run by EP, in words: the site, what is wrong, and the fix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_MESSAGES = {
    "discrete": (
        "latent site {name!r} is discrete; EP's posterior is Gaussian. Sum it out of the model, "
        "or fix it with params={{{name!r}: ...}}"
    ),
    "not_gaussian": (
        "latent site {name!r} ({detail}) is not Gaussian given the hyperparameters, nor does each "
        "of its elements see one direction of the latents. Give it a Normal or MultivariateNormal "
        "prior, or fix it with params={{{name!r}: ...}}"
    ),
    "loc_not_affine": (
        "the prior mean of latent site {name!r} is not an affine function of the other latents, "
        "so they are not jointly Gaussian. Make it affine, or fix the latents that it depends on "
        "with params"
    ),
    "scale_not_constant": (
        "the prior scale of latent site {name!r} depends on latent site(s) {detail}, so they are "
        "not jointly Gaussian. Fix these with params={{...}}; they then count as hyperparameters"
    ),
    "prior_of_hyperparameter": (
        "the prior of hyperparameter {name!r} depends on latent site(s) {detail}, and it has no "
        "value, so what it says of them is not known. Fix it with params={{{name!r}: ...}}; or "
        "integrate over it with EP(hyperparameters='nuts')"
    ),
    "free_vector": (
        "site {name!r} is a hyperparameter of {detail} elements without a value, and EP does not "
        "hold so many at the medians of their priors. Average over them (EP's default), learn them "
        "with EP(hyperparameters='map'), or fix them with params={{{name!r}: ...}}"
    ),
    "out_of_order": (
        "the elements of latent site {name!r} stand in another order than its values: NumPyro's "
        "scan(reverse=True) numbers these from its first step. Reverse the data, and leave reverse "
        "out"
    ),
    "improper": (
        "latent site {name!r} is ImproperUniform, and EP averages over priors of mass one. Give it "
        "one (Normal(0, 10); of cut points TransformedDistribution(Normal(0, 5).expand([2])"
        ".to_event(1), OrderedTransform())), fix it with params={{{name!r}: ...}}, or use NUTS"
    ),
    "masked_latent": (
        "latent site {name!r} is masked, which leaves some of its elements without a prior. Mask "
        "the observed sites only; where values are imputed, leave the mask out, and observe those "
        "that were seen alone, as the others have their prior already"
    ),
    "scaled_latent": (
        "latent site {name!r} stands under handlers.scale, so its prior is tempered. Scale the "
        "observed sites only"
    ),
    "scale_of_data": (
        "observed site {name!r} stands under handlers.scale by an amount that depends on latent "
        "site(s) {detail}. Fix these with params={{...}}, or scale by data"
    ),
    "no_weight": (
        "{detail} of observed site {name!r} counts under handlers.scale by an amount that is "
        "negative or not finite. Correct it, or leave the datum out (handlers.mask)"
    ),
    "two_directions": (
        "{detail} of observed site {name!r} depends on more than two affine functions of the "
        "latents, or its predictor is not affine. Write the likelihood as a function of one or two "
        "affine predictors per element (say, logits=f[i] - f[j], or Normal(f, exp(g))){others}, or "
        "use NUTS"
    ),
    "two_groups": (
        "observed site {name!r} stands in plate {detail!r} and sees latents of it across: an "
        "element of the plate depends on those of another. Draw them, or observe, outside the plate"
    ),
    "not_quadratic": (
        "factor {name!r} mixes latents in a way that is neither quadratic nor a function of one "
        "affine predictor per element. Write it as an array with one such element per term, or "
        "use NUTS"
    ),
    "improper_factor": (
        "factor(s) {name!r} leave the Gaussian part of the model without a finite integral: the "
        "precision they add is too negative for the prior. Check the sign (a penalty is -f @ L @ "
        "f / 2)"
    ),
    "improper_prior": (
        "the prior of latent site {name!r} is not a proper Gaussian: its scale or covariance is "
        "not positive (definite) or not finite, or its scale_tril is not lower triangular. Add "
        "jitter to the covariance's diagonal, or check the model's arguments and hyperparameters "
        "({detail})"
    ),
    "unsupported_value": (
        "{detail} of observed site {name!r} is not a number, or outside the support of its "
        "distribution, so the data have no density. Correct it, or mask it (obs_mask)"
    ),
    "domain_left_out": (
        "latent site {name!r} is bounded, but its AffineTransform says that it takes all real "
        "numbers. State what it is given: AffineTransform(loc, scale, domain=base.support)"
    ),
    "moving_support": (
        "which values observed site {name!r} can take depends on latent site(s) {detail}, as of "
        "Uniform(f - 1, f + 1): its density is cut off where they move. Fix these with "
        "params={{...}}, or use NUTS"
    ),
    "not_sparse": (
        "structure={name!r} needs {detail}independent Gaussian latents that are all observed (or, "
        "for 'probes', also normal ones each drawn given few others, and GaussianRandomWalk), and "
        "data each of which sees eight of them at most. Write a cumsum of steps as "
        "GaussianRandomWalk, or as a scan that carries the last value; or leave structure out"
    ),
    "not_low_rank": (
        "structure={name!r} needs {detail}a Gaussian prior of low rank plus diagonal, of latents "
        "that are all observed: LowRankMultivariateNormal, bayesrank.gp.inducing_point_prior, or "
        "few latents that the data share (w) and many beside them (e), in data each of which sees "
        "eight elements at most of Phi @ w, e or other latents; leave structure out"
    ),
    "no_covariances": (
        "an average over hyperparameters needs covariances, which EP does not compute for so many "
        "latents ({name}); use EP(hyperparameters='map'), or EP(structure='dense')"
    ),
    "only_run": (
        "this call needs covariances, which EP does not compute for so many latents ({name}); use "
        "EP.run, or EP(model, structure='dense') on fewer latents"
    ),
    "traced_structure": (
        "which latents the elements of site {name!r} share depends on an array that is being "
        "traced by jit or vmap. Index before the first nonlinear operation (exp(f[i]), not "
        "exp(f)[i]), or close over that array instead of passing it"
    ),
}


class TracedStructureError(ValueError):
    """The structure of a program depends on an array whose values are not known while tracing."""


class Refusal(NamedTuple):
    """One reason for refusing a program."""

    reason: str  # key of the message
    name: str  # the site
    detail: str = ""  # what more there is to say
    sites: tuple[str, ...] = ()  # the latents that are at issue

    def error(self) -> ValueError:
        """The exception to raise."""
        message = _MESSAGES[self.reason].format(
            name=self.name, detail=self.detail, others=_but_two(self.sites)
        )
        return (
            TracedStructureError(message)
            if self.reason == "traced_structure"
            else ValueError(message)
        )

    def raise_unless(self, passed: np.ndarray) -> None:
        """Raise unless all of `passed` is true; the first element that failed is named."""
        if np.all(passed):
            return
        detail = self.detail
        if self.reason == "two_directions":
            detail = f"factor {int(np.argmin(passed))}"
        if self.reason in ("unsupported_value", "no_weight"):
            detail = f"element {int(np.argmin(passed))}"
        raise self._replace(detail=detail).error()


def _but_two(sites: tuple[str, ...]) -> str:
    if len(sites) < 2:
        return ""
    how = "all but two" if len(sites) > 2 else "one"
    return f", fix {how} of {', '.join(sites)} with params={{...}}"
