"""The command `labels`: examples with ranked or relevant labels in; forecasts for new ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesrank.cli.job import blamed, job
from bayesrank.datasets import DataError, LabelExamples, read_label_examples

FILES = ("forecasts.csv", "ranks.csv", "model.npz")


def labels(train: Path, predict: Path, out: Path, seed: int, quiet: bool, **chosen: Any) -> None:
    """Read the files, fit, forecast, and write the results."""
    data = read_label_examples(train)
    if len(data.labels) < 2:
        problem = f"there are columns of {len(data.labels)} labels"
        raise DataError(train, problem, "name two or more, as in rank:sea or relevant:sea", row=1)
    new = read_label_examples(predict, data.features)
    with job(out, FILES, (train, predict), quiet=quiet) as run, run.steps.running():
        with run.steps.step("Learning"):
            model = _fit(data, random_state=seed, **chosen)
        with run.steps.step("Forecasting"):
            forecasts, ranks = _forecasts(model, new, seed)
        run.write({"forecasts.csv": forecasts, "ranks.csv": ranks, "model.npz": model})
    counts = f"Learned {len(data.labels)} labels from {len(data.X):,} examples"
    run.show(f"{counts} ({model.kernel_} kernel), and predicted {len(new.X):,}.", run.where)


def _fit(data: LabelExamples, **options: Any) -> Any:
    from bayesrank.estimators import LabelRanker

    ranked, flagged = (not np.isnan(table).all() for table in (data.ranks, data.relevant))
    model = LabelRanker(labels=data.labels, **options)
    with blamed(data.path):
        return model.fit(
            data.X,
            pd.DataFrame(data.ranks, columns=list(data.labels)) if ranked else None,
            pd.DataFrame(data.relevant, columns=list(data.labels)) if flagged else None,
        )


def _forecasts(model: Any, new: LabelExamples, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row for each example and label; rows of the file are counted as a spreadsheet does."""
    names = model.labels_.tolist()
    count, width = len(new.X), len(names)
    mean, sd = model.predict_utility(new.X)
    ranks = np.argsort(np.argsort(-mean, axis=1, kind="stable"), axis=1) + 1
    chances = model.rank_distribution(new.X, random_state=seed)
    key = {"example": np.repeat(np.arange(1, count + 1), width), "label": names * count}
    table = {**key, "rank": ranks.ravel(), "best": chances[:, :, 0].ravel()}
    if model.calibrated_:
        table["relevant"] = model.predict_proba(new.X).ravel()
    table |= {"utility": mean.ravel(), "sd": sd.ravel()}
    by_rank = chances.reshape(-1, width)
    each = {f"rank {number + 1}": by_rank[:, number] for number in range(width)}
    return pd.DataFrame(table), pd.DataFrame({**key, **each})
