"""Judge ranked lists in files: a run and its relevance judgements in, a table of figures out.

`read_run` and `read_qrels` take comma-separated and TREC files, `evaluate` puts them together. On
the command line it is ``python -m bayesrank evaluate run.csv qrels.csv``.
"""

from bayesrank.evaluation._evaluate import Evaluation as Evaluation
from bayesrank.evaluation._evaluate import FigureRow as FigureRow
from bayesrank.evaluation._evaluate import evaluate as evaluate
from bayesrank.evaluation._files import Qrels as Qrels
from bayesrank.evaluation._files import Run as Run
from bayesrank.evaluation._files import read_qrels as read_qrels
from bayesrank.evaluation._files import read_run as read_run

__all__ = ["Evaluation", "FigureRow", "Qrels", "Run", "evaluate", "read_qrels", "read_run"]
