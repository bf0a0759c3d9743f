"""What other rooms take of the inside of `bayesrank.infer`; users take names of the room itself."""

from bayesrank.infer.compiled import compiled_call as compiled_call
from bayesrank.infer.compiled import jit as jit
from bayesrank.infer.gaussian.dense import DenseGaussian as DenseGaussian
from bayesrank.infer.gaussian.dense import exceeds_rounding as exceeds_rounding
from bayesrank.infer.gaussian.protocol import SiteTerm as SiteTerm
from bayesrank.infer.gaussian.rows import Rows as Rows
from bayesrank.infer.hyper.hyperparameters import inventory_of as inventory_of
from bayesrank.infer.hyper.mixture import MixtureResult as MixtureResult
from bayesrank.infer.posterior import DensePosterior as DensePosterior
from bayesrank.infer.quadrature import tilted_moments as tilted_moments
from bayesrank.infer.reader.inventory import take_inventory as take_inventory
from bayesrank.infer.reader.precision import as_working_dtype as as_working_dtype
from bayesrank.infer.reader.precision import without_stale_traces as without_stale_traces
from bayesrank.infer.reader.program import MOST_DENSE as MOST_DENSE
from bayesrank.infer.reader.program import Program as Program
from bayesrank.infer.reader.program import read_program as read_program
from bayesrank.infer.reader.traced import Called as Called
from bayesrank.infer.reader.traced import ProgramSource as ProgramSource
from bayesrank.infer.reader.traced import readable_arguments as readable_arguments
from bayesrank.infer.sites import Block as Block
from bayesrank.infer.sites import Problem as Problem
from bayesrank.infer.sites import cavity as cavity
from bayesrank.infer.sites import largest_change as largest_change
from bayesrank.infer.sites import log_sites as log_sites
from bayesrank.infer.sites import match as match
from bayesrank.infer.sites import next_damping as next_damping
from bayesrank.infer.sites import propose as propose
from bayesrank.infer.state import posterior_from as posterior_from
from bayesrank.infer.state import posterior_state as posterior_state
from bayesrank.infer.white.engines import run_nuts as run_nuts
from bayesrank.infer.white.engines import run_svi as run_svi
from bayesrank.infer.white.full import FullProgram as FullProgram
from bayesrank.infer.white.full import full_program as full_program
from bayesrank.infer.white.importance import Importance as Importance
from bayesrank.infer.white.importance import importance_sampler as importance_sampler
from bayesrank.infer.white.program import WhiteProgram as WhiteProgram
from bayesrank.infer.white.program import split as split
from bayesrank.infer.white.program import white_posterior as white_posterior
from bayesrank.infer.white.trust import Trust as Trust

__all__ = [
    "Block",
    "Called",
    "DenseGaussian",
    "DensePosterior",
    "FullProgram",
    "Importance",
    "MOST_DENSE",
    "MixtureResult",
    "Problem",
    "Program",
    "ProgramSource",
    "Rows",
    "SiteTerm",
    "Trust",
    "WhiteProgram",
    "as_working_dtype",
    "cavity",
    "compiled_call",
    "exceeds_rounding",
    "full_program",
    "importance_sampler",
    "inventory_of",
    "jit",
    "largest_change",
    "log_sites",
    "match",
    "next_damping",
    "posterior_from",
    "posterior_state",
    "propose",
    "read_program",
    "readable_arguments",
    "run_nuts",
    "run_svi",
    "split",
    "take_inventory",
    "tilted_moments",
    "white_posterior",
    "without_stale_traces",
]
