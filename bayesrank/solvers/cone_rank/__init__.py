"""ConeRank: learning a cone of feature differences; see `bayesrank.models.cone_rank`."""

from bayesrank.solvers.cone_rank.fit import Cone as Cone
from bayesrank.solvers.cone_rank.fit import Pairs as Pairs
from bayesrank.solvers.cone_rank.fit import direction as direction
from bayesrank.solvers.cone_rank.fit import fit_exact as fit_exact
from bayesrank.solvers.cone_rank.fit import fit_gradient as fit_gradient
from bayesrank.solvers.cone_rank.fit import from_origin as from_origin
from bayesrank.solvers.cone_rank.fit import normalised as normalised
from bayesrank.solvers.cone_rank.fit import objective as objective
from bayesrank.solvers.cone_rank.fit import ordered_pairs as ordered_pairs
from bayesrank.solvers.cone_rank.fit import random_atoms as random_atoms
from bayesrank.solvers.cone_rank.fold_in import eg_fold_in as eg_fold_in
from bayesrank.solvers.cone_rank.fold_in import linear_eg_fold_in as linear_eg_fold_in
from bayesrank.solvers.cone_rank.fold_in import printed_fold_in as printed_fold_in
from bayesrank.solvers.cone_rank.fold_in import project_cone as project_cone
from bayesrank.solvers.cone_rank.fold_in import project_simplex as project_simplex
from bayesrank.solvers.cone_rank.fold_in import projection_fold_in as projection_fold_in
from bayesrank.solvers.cone_rank.stability import risk_bound as risk_bound
from bayesrank.solvers.cone_rank.stability import stability_bound as stability_bound

__all__ = [
    "Cone",
    "Pairs",
    "direction",
    "eg_fold_in",
    "fit_exact",
    "fit_gradient",
    "from_origin",
    "linear_eg_fold_in",
    "normalised",
    "objective",
    "ordered_pairs",
    "printed_fold_in",
    "project_cone",
    "project_simplex",
    "projection_fold_in",
    "random_atoms",
    "risk_bound",
    "stability_bound",
]
