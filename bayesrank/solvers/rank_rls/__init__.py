"""RankRLS in closed form, with hold-out and transduction; see `bayesrank.models.rank_rls`."""

from bayesrank.solvers.rank_rls.contrasts import Contrasts as Contrasts
from bayesrank.solvers.rank_rls.contrasts import Folds as Folds
from bayesrank.solvers.rank_rls.contrasts import contrasts_of as contrasts_of
from bayesrank.solvers.rank_rls.fit import LARGEST_DENSE as LARGEST_DENSE
from bayesrank.solvers.rank_rls.fit import RankRLSFit as RankRLSFit
from bayesrank.solvers.rank_rls.fit import cross_gram as cross_gram
from bayesrank.solvers.rank_rls.fit import fit_rank_rls as fit_rank_rls
from bayesrank.solvers.rank_rls.fit import gram_of as gram_of
from bayesrank.solvers.rank_rls.hold_out import leave_pair_out as leave_pair_out
from bayesrank.solvers.rank_rls.hold_out import leave_query_out as leave_query_out
from bayesrank.solvers.rank_rls.hold_out import log_evidence as log_evidence
from bayesrank.solvers.rank_rls.transduction import transduce as transduce

__all__ = [
    "LARGEST_DENSE",
    "Contrasts",
    "Folds",
    "RankRLSFit",
    "contrasts_of",
    "cross_gram",
    "fit_rank_rls",
    "gram_of",
    "leave_pair_out",
    "leave_query_out",
    "log_evidence",
    "transduce",
]
