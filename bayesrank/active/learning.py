"""What is believed of the skills after the answers of a history, and when to learn its scales."""

import datetime
import math
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank._sizes import next_size
from bayesrank.active.history import History, JudgeNoise
from bayesrank.active.program import AnswerArrays, SkillProgram
from bayesrank.active.settle import Answers, Settled, SkillPrior, settle
from bayesrank.infer import ConvergenceWarning, EPResult
from bayesrank.infer.spi import DensePosterior

_DRAWS = 1000

Array = NDArray[np.float64]


class SkillPosterior:
    """The skills under a program, brought up to date as a history grows."""

    # Hyperparameters are first learned from `refit_after` answers, or never, and again whenever the
    # answers have doubled, in a thread if `background`; `integrate` lets `integrated` average.

    def __init__(
        self,
        program: SkillProgram,
        judges: JudgeNoise,
        *,
        refit_after: int | None,
        integrate: bool,
        background: bool,
        seed: int,
    ) -> None:
        self._program, self.judges, self._seed = program, judges, seed
        self._refit_after, self._integrate, self._background = refit_after, integrate, background
        self._pending: Future[dict[str, Any]] | None = None
        self._prior: tuple[Any, SkillPrior] | None = None
        self._last: tuple[SkillPrior, list[int], Settled] | None = None

    # ------------------------------------------------------------ the posterior

    def change(self, program: SkillProgram) -> None:
        """Go on under another program, of these items and more."""
        self._program, self._prior = program, None

    def params(self, history: History) -> dict[str, Array]:
        """Hyperparameters: those learned last, if any, else given or default ones."""
        known = {**self._program.defaults, **self._learned(history)}
        return self._program.used(known, _has_ties(history))

    def tie_width(self, history: History) -> float | None:
        """Largest difference of performances that counts as equal; None if nothing does so far."""
        return float(self.params(history)["tie_width"]) if _has_ties(history) else None

    def noise(self, history: History, judge: str | None) -> float:
        """Standard deviation of a performance, as a judge sees it."""
        own = self.judges.of(history, judge)
        return self._program.noise(self.params(history)) * own

    def fit(self, history: History) -> Settled:
        """The posterior, starting from the sites of the last one."""
        prior, records = self._prior_at(history), [event.record for event in history.answers]
        arrays = self._arrays(history)
        noise = self._program.noise(self.params(history)) * arrays.factors
        answers = Answers(arrays.comparisons, noise, arrays.tied, self.tie_width(history))
        fit = settle(prior, answers, self._start(prior, records))
        self._last = prior, records, fit
        return fit

    def _start(self, prior: SkillPrior, records: list[int]) -> tuple[Array, Array] | Settled | None:
        """Sites or posterior to start from: the last posterior, or what is left of its sites."""
        if self._last is None:
            return None
        before, known, fit = self._last
        if before is prior and records[:-1] == known and records != known:
            return fit
        sites = dict(zip(known, zip(fit.tau, fit.nu, strict=True), strict=True))
        found = np.array([sites.get(record, (0.0, 0.0)) for record in records]).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def result(self, history: History, fit: Settled) -> EPResult:
        """The posterior in the engine's form."""
        program, args, kwargs = self._program.call(self._arrays(history))
        if not fit.converged:
            warnings.warn(
                f"EP has not converged after {fit.num_sweeps} sweeps; the prior scale of the "
                "skills may be too far from the noise: learn the hyperparameters, or pass others",
                ConvergenceWarning,
                stacklevel=2,
            )
        params, learned = self.params(history), self._learned(history)
        return EPResult(
            model=program,
            model_args=args,
            model_kwargs=kwargs,
            params=params,
            shapes={"f": fit.mean.shape},
            joint_mean=fit.mean,
            posterior=DensePosterior(fit.covariance),
            sites={"comparison": (fit.tau, fit.nu)} if history.answers else {},
            log_evidence=fit.log_evidence,
            converged=fit.converged,
            num_sweeps=fit.num_sweeps,
            max_change=fit.max_change,
            sources={k: "by evidence" if k in learned else "given, or the default" for k in params},
            num_samples=_DRAWS,
            rng_key=jax.random.key(self._seed),
        )

    def integrated(self, history: History) -> EPResult | None:
        """The posterior whatever the free hyperparameters may be; None if they are not to be."""
        if not (self._integrate and history.answers and self._free(history)):
            return None
        return self._program.integrate(jax.random.key(self._seed), self._arrays(history), _DRAWS)

    def _arrays(self, history: History) -> AnswerArrays:
        """The answers, with the factor of the noise of each."""
        whose = [self.judges.of(history, event.judge) for event in history.answers]
        return AnswerArrays(history.compared, history.tied, np.array(whose, float))

    def _prior_at(self, history: History) -> SkillPrior:
        if self._prior is None or self._prior[0] is not history.learned:
            self._prior = history.learned, self._program.prior(self.params(history))
        return self._prior[1]

    # ------------------------------------------------------------ learning

    @property
    def is_learning(self) -> bool:
        """Whether a thread is at work."""
        return self._pending is not None and not self._pending.done()

    def learn(self, history: History) -> dict[str, Any]:
        """Learn now; return a record for the journal."""
        if not history.answers or not self._to_learn(history):
            missing = "no free hyperparameter" if history.answers else "no answer to learn from"
            raise ValueError(f"there is {missing}; use the hyperparameters as they are")
        return self._find(history)

    def newly_learned(self, history: History) -> dict[str, Any] | None:
        """Learn if it is time, or start in a thread and fetch what it found; a record, if any."""
        if self._pending is not None:
            if self.is_learning:
                return None
            done, self._pending = self._pending, None
            found = done.result()
            return found if found["answers"] > self._learned_at(history) else None
        if not self._due(history):
            return None
        if not self._background:
            return self._find(history)
        executor = ThreadPoolExecutor(1, thread_name_prefix="bayesrank-learn")
        self._pending = executor.submit(self._find_quietly, history)
        executor.shutdown(wait=False)
        return None

    def _free(self, history: History) -> tuple[str, ...]:
        """Names of the hyperparameters that can be learned."""
        return () if self._refit_after is None else self._program.free(_has_ties(history))

    def _to_learn(self, history: History) -> tuple[str, ...]:
        """Names of hyperparameters and judges of which anything is learned."""
        if self._refit_after is None:
            return ()
        return (*self._free(history), *self.judges.names(history))

    def _learned(self, history: History) -> dict[str, Array]:
        """What was learned of this very program; nothing, if the last was learned of another."""
        if history.learned is None:
            return {}
        found = {
            name: np.array(history.learned.get(name, math.nan), float)
            for name in self._free(history)
            # Before the first tie there was no width to learn.
            if name != "tie_width" or name in history.learned
        }
        fits = all(
            value.shape == self._program.defaults[name].shape and np.isfinite(value).all()
            for name, value in found.items()
        )
        return found if fits else {}

    def _due(self, history: History) -> bool:
        if self._refit_after is None or not self._to_learn(history):
            return False
        return len(history.answers) >= max(self._refit_after, 2 * self._learned_at(history), 1)

    def _learned_at(self, history: History) -> int:
        fixed = history.learned is not None and not self._free(history)
        return history.learned_at if fixed or self._learned(history) else 0

    def _find(self, history: History) -> dict[str, Any]:
        """Search, and return a record for the journal."""
        record: dict[str, Any] = {"event": "learned", "answers": len(history.answers)}
        names, arrays = self.judges.names(history), self._arrays(history)
        start, whose = self.params(history), None
        if names:
            number = {name: number for number, name in enumerate(names, 1)}
            whose = np.array([number.get(e.judge or "", 0) for e in history.answers], np.intp)
            # Room for twice as many, so that few numbers of judges are compiled.
            noise = np.ones(next_size(len(names)))
            noise[: len(names)] = [self.judges.of(history, name) for name in names]
            start = {**start, "judge_noise": noise}
            arrays = arrays._replace(factors=np.ones(len(arrays.factors)))
        found = self._program.learn(arrays, start, whose)
        if names:
            noise = found["judge_noise"][: len(names)].tolist()
            record["judge_noise"] = dict(zip(names, noise, strict=True))
        learned = {name: found[name].tolist() for name in self._free(history)}
        return {**record, "params": learned, "time": now()}

    def _find_quietly(self, history: History) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self._find(history)


def _has_ties(history: History) -> bool:
    return bool(history.tied.any())


def now() -> str:
    """The time, for a record."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
