"""LinkLearn: term weights learned from links; see `bayesrank.models.link_learn`."""

from bayesrank.solvers.link_learn.forms import FORMS as FORMS
from bayesrank.solvers.link_learn.forms import Overlaps as Overlaps
from bayesrank.solvers.link_learn.forms import TermWeight as TermWeight
from bayesrank.solvers.link_learn.forms import basis_scores as basis_scores
from bayesrank.solvers.link_learn.forms import margin_features as margin_features
from bayesrank.solvers.link_learn.forms import overlaps as overlaps
from bayesrank.solvers.link_learn.forms import weigh_terms as weigh_terms
from bayesrank.solvers.link_learn.train import LOSSES as LOSSES
from bayesrank.solvers.link_learn.train import Texts as Texts
from bayesrank.solvers.link_learn.train import Training as Training
from bayesrank.solvers.link_learn.train import fit_link_learn as fit_link_learn

__all__ = [
    "FORMS",
    "LOSSES",
    "TermWeight",
    "Overlaps",
    "Texts",
    "Training",
    "basis_scores",
    "fit_link_learn",
    "margin_features",
    "overlaps",
    "weigh_terms",
]
