"""LambdaRank: training along a field of lambda; see `bayesrank.models.lambda_rank`."""

from bayesrank.solvers.lambda_rank.fields import FIELDS as FIELDS
from bayesrank.solvers.lambda_rank.fields import Field as Field
from bayesrank.solvers.lambda_rank.fields import Regularized as Regularized
from bayesrank.solvers.lambda_rank.lists import LambdaField as LambdaField
from bayesrank.solvers.lambda_rank.lists import field_of_rows as field_of_rows
from bayesrank.solvers.lambda_rank.lists import frozen_pairs as frozen_pairs
from bayesrank.solvers.lambda_rank.potential import FieldVerdict as FieldVerdict
from bayesrank.solvers.lambda_rank.potential import circulation as circulation
from bayesrank.solvers.lambda_rank.potential import is_conservative as is_conservative
from bayesrank.solvers.lambda_rank.potential import is_convex as is_convex
from bayesrank.solvers.lambda_rank.train import apply_network as apply_network
from bayesrank.solvers.lambda_rank.train import fit_differentiable as fit_differentiable
from bayesrank.solvers.lambda_rank.train import fit_trees as fit_trees
from bayesrank.solvers.lambda_rank.train import init_network as init_network

__all__ = [
    "FIELDS",
    "Field",
    "LambdaField",
    "FieldVerdict",
    "Regularized",
    "apply_network",
    "circulation",
    "field_of_rows",
    "fit_differentiable",
    "fit_trees",
    "frozen_pairs",
    "init_network",
    "is_conservative",
    "is_convex",
]
