"""Logs counted where they lie: as row by row, in every layout and by every engine."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import test_layouts as layouts
from cli_run import run
from scipy.special import ndtr

from bayesrank.cli import trust
from bayesrank.datasets import ColumnNames, ComparisonData, DataError, counted, read_comparisons
from bayesrank.datasets.table import read_table
from bayesrank.diagnostics.agreement import Residuals
from bayesrank.estimators import Ranker
from bayesrank.solvers.comparisons import JudgedSkills, fit_arena

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")
pytestmark = pytest.mark.filterwarnings("ignore::bayesrank.datasets.ReadingNote")

NO_TABLES = (".soc", ".soi", ".toc", ".toi", ".order", ".npz")
# Its first rows say what the others mean, and rows of a lazy frame have no order.
BY_ORDER = ("qualtrics.csv",)


def lazy(frame, engine="duckdb"):
    table = pl.from_pandas(frame)
    return table.lazy() if engine == "polars" else duckdb.from_arrow(table.to_arrow())


def evidence(data):
    """How often each comparison, or order, comes; by names, and whichever way ties are written."""
    found: Any = Counter()
    if data.orders is not None:
        for groups, count in zip(data.orders.groups, data.orders.counts, strict=True):
            found[tuple(frozenset(data.names[i] for i in group) for group in groups)] += count
        return found
    labels = {name: getattr(data, name) for name in ("times", "judges", "categories")}
    more = np.zeros((data.num_comparisons, 0)) if data.covariates is None else data.covariates
    for k, pair in enumerate(data.comparisons):
        first, second = (data.names[i] for i in pair)
        position, gaps = 0 if data.position is None else data.position[k], more[k]
        if data.tied[k] and first > second:
            first, second, position, gaps = second, first, -position, -gaps
        own = {name: values if values is None else values[k] for name, values in labels.items()}
        said = [own["times"] and str(own["times"])]
        said += [own["judges"] is not None and data.judge_names[own["judges"]]]
        said += [own["categories"] is not None and data.category_names[own["categories"]]]
        said += (gaps + 0.0).tolist()
        weight = 1.0 if data.weights is None else data.weights[k]
        found[(first, second, data.tied[k], position, *said)] += weight
    return found


def answer(source, columns):
    """All that reading says, and what it refuses."""
    try:
        data = read_comparisons(source, columns=columns)
    except DataError as error:
        return error.column, error.problem, error.fix
    hints = [h for h in data.unused_column_hints if "have no judges yet" not in h]
    hints = [sorted(re.split("[:;.] ", hint)) for hint in hints]
    known = data.position is None, data.position_label, data.layout, data.ignored_columns
    counting = counted.COUNTED, "Counting saves little"
    notes = tuple(note for note in data.notes if not note.startswith(counting))
    return evidence(data), sorted(data.names), notes, hints, *known


def cases():
    for name, said in layouts.FILES.items():
        text = (layouts.FOLDER / name).read_bytes()
        yield name, text, ColumnNames(time=said.get("time"))
    for name, said in layouts.EXAMPLES.items():
        yield name.removesuffix(".gz"), said["text"], layouts.column_names(said["options"])
    for name, (text, options, _) in layouts.SUBTLE.items():
        yield name, text, ColumnNames(**options)


@pytest.mark.parametrize(
    ("name", "text", "columns"), [pytest.param(*c, id=f"{k}-{c[0]}") for k, c in enumerate(cases())]
)
def test_every_layout_is_read_as_row_by_row(tmp_path, name, text, columns):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if path.suffix in NO_TABLES:
        return  # a lazy frame cannot hold it
    try:
        table = read_table(path)
    except DataError:
        return  # refused before its layout is looked at
    if not all(table.header):
        return  # DuckDB names all columns
    frame = pd.DataFrame({c.name: c.cells for c in table.columns}, dtype=object)
    thrice = pd.concat([frame] * 3, ignore_index=True)
    expected = answer(thrice, columns)
    found = answer(lazy(thrice), columns)
    if name in BY_ORDER:
        assert "are not recognised as comparisons" in found[1]
    elif "twice" in str(expected[1]) or "twice" in str(found[1]) or "together" in str(found[1]):
        assert len(expected) == len(found) == 3  # both are refused, where rows may not come again
    else:
        assert found == expected


def battles(rows=4000, seed=0):
    """A log of five models, shown in random order to four judges, in two categories."""
    random = np.random.default_rng(seed)
    first, second = random.integers(0, 5, rows), random.integers(0, 4, rows)
    second += second >= first
    gap = 0.4 * (first - second) + 0.2 + random.normal(size=rows)
    words = np.where(np.abs(gap) < 0.3, "tie (bothbad)", np.where(gap > 0, "model_a", "model_b"))
    names = np.array(["Ada", "Bob", "Cy", "Dan", "Eve"])
    return pd.DataFrame(
        {
            "model_a": names[first],
            "model_b": names[second],
            "winner": words,
            "judge": np.array(["J1", "J2", "J3", "J4"])[random.integers(0, 4, rows)],
            "category": np.where(random.integers(0, 2, rows), "code", "chat"),
            "id": np.arange(rows),
        }
    )


def games(rows=300):
    """Scores of six teams, as whole numbers with gaps; some on neutral ground."""
    random = np.random.default_rng(1)
    home, away = random.integers(0, 6, rows), random.integers(0, 5, rows)
    away += away >= home
    scores = pd.DataFrame(random.poisson(60, (rows, 2)), columns=["home_score", "away_score"])
    scores = scores.astype("Int64")
    scores.loc[:8] = pd.NA
    names = {"home": [*map("T{}".format, home)], "away": [*map("T{}".format, away)]}
    neutral = random.integers(0, 2, rows)
    return pd.concat([pd.DataFrame(names), scores], axis=1).assign(neutral=neutral)


def skills(source, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = read_comparisons(source, **options)
        # Searching for those of skills in time takes minutes, and a test of its own does it.
        ranker = Ranker(hyperparameters="map" if data.times is None else "prior").fit(data)
    mean, sd = ranker.predict(sorted(ranker.names_, key=str))
    return np.concatenate([mean, sd])


def styled(rows=3000):
    """Battles with the lengths of both answers, and a number of half steps."""
    random = np.random.default_rng(5)
    lengths = dict(zip(("length_a", "length_b"), random.integers(1, 6, (2, rows)), strict=True))
    return battles(rows).assign(**lengths, style=random.integers(-2, 3, rows) / 2)


def dated(rows=200):
    """Battles on nine days."""
    days = pd.to_timedelta(np.random.default_rng(6).integers(0, 9, rows), "D")
    return battles(rows).drop(columns="judge").assign(day=pd.Timestamp("2024-01-01") + days)


STYLE = ColumnNames(covariates=("length", "style"))
LOGS = {
    "judges": (battles(), ColumnNames()),
    "plain": (battles().drop(columns=["judge", "category"]), ColumnNames()),
    "covariates": (styled(), STYLE),
    "times": (dated(), ColumnNames(time="day", ignore=("category",))),
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("name", LOGS)
def test_skills_are_those_of_all_rows(name, engine):
    frame, columns = LOGS[name]
    expected = skills(frame.sample(frac=1.0, random_state=0), columns=columns)
    assert skills(lazy(frame, engine), columns=columns) == pytest.approx(expected, abs=1e-10, rel=0)


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, float])
def test_covariates_on_a_grid_are_counted_by_what_the_first_side_has_more(engine, kind):
    frame = styled().drop(columns="judge").astype({"length_a": kind, "length_b": kind})
    assert answer(lazy(frame, engine), STYLE) == answer(frame, STYLE)
    assert read_comparisons(lazy(frame, engine), columns=STYLE).num_comparisons < 2000
    frame = frame.astype({"length_a": float})
    for column, wrong in (("length_a", np.nan), ("length_a", np.inf), ("style", np.nan)):
        odd = frame.copy()
        odd.loc[7, column] = wrong
        found = answer(lazy(odd, engine), STYLE)
        assert found == answer(odd, STYLE) and "no columns of numbers say" in found[1]


def test_a_ranker_takes_covariates_of_a_lazy_frame_by_name():
    frame = styled(300).drop(columns=["judge", "category", "style"])
    few, many = (
        Ranker(hyperparameters="prior").fit(each, covariates=["length"])
        for each in (lazy(frame), frame)
    )
    assert few.covariate_units_ == pytest.approx(many.covariate_units_, rel=1e-12)
    for mine, other in zip(few.effects(), many.effects(), strict=True):
        assert mine.name == other.name and mine.mean == pytest.approx(other.mean, abs=1e-10)


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("texts", [False, True])
def test_numbers_and_times_on_no_grid_are_said_with_the_choice(engine, texts, monkeypatch):
    random = np.random.default_rng(7)
    frame = styled(12_000).assign(when=pd.Timestamp("2024-01-01"))
    frame["when"] += pd.to_timedelta(random.integers(0, 10**8, 12_000), "s")
    frame = frame.astype({"when": str}) if texts else frame
    for column, columns in (("when", ColumnNames(time="when")), ("length_a", STYLE)):
        real = frame.assign(length_a=random.normal(size=12_000))
        said = read_comparisons(lazy(real, engine), columns=columns).notes[1]
        assert f"Counting saves little, for {column!r} is on no grid: bin it" in said
        with monkeypatch.context() as small:
            small.setattr(counted, "available", lambda: 400 * 11_000)
            found = answer(lazy(real, engine), columns)
        assert found[0] == column and "11,000 rows are distinct" in found[1]
        assert "bin it" in found[2] and "sample of clusters" in found[2] and "memory" in found[2]
    whole = styled(12_000).assign(length_a=random.permutation(12_000))  # as they are
    data = read_comparisons(lazy(whole, engine), columns=STYLE)
    assert data.num_comparisons > 11_900 and data.notes == (counted.COUNTED,)


def test_what_nobody_reads_is_said_not_to_be_looked_at(tmp_path):
    frame = battles().drop(columns=["judge", "category"]).assign(question=np.arange(4000) % 50)
    data = read_comparisons(lazy(frame))
    assert data.notes == (counted.COUNTED,) and not data.clusters
    assert trust._independent(data, []) == ("not checked", "rows were counted where they lie")
    assert trust._independent(read_comparisons(battles(9)), [])[0] == "n/a"


@pytest.mark.parametrize("times", [[3, -2, 3, -2], [0.5, 0.5, 1, 0.5], ["b", "a", "b", "a"]])
def test_distinct_rows_do_not_depend_on_the_order_of_rows_and_names(times):
    rows = [
        ("b", "a", 1, 3, "x"),
        ("a", "b", 1, 3, "y"),
        ("a", "c", 0, 4, "x"),
        ("b", "a", 1, 3, "x"),
    ]
    rows = [(*row, time) for row, time in zip(rows, times, strict=True)]
    found = []
    for names, some in (("abc", rows), ("cba", rows[::-1]), ("bca", rows[2:] + rows[:2])):
        one, two, tied, more, judge, when = zip(*some, strict=True)
        judges = tuple(dict.fromkeys(judge))
        numbers = np.array([[names.index(i) for i in pair] for pair in zip(one, two, strict=True)])
        data = ComparisonData(
            tuple(names),
            numbers,
            np.array(tied, bool),
            times=np.array(when, object if isinstance(when[0], str) else None),
            position=np.array([1.0] * 4),
            judges=np.array([judges.index(j) for j in judge]),
            judge_names=judges,
            covariates=np.array(more, float)[:, None],
        )
        few = data.distinct()
        assert evidence(few) == evidence(data)
        texts = np.array([*names])
        labels = np.array(judges)[few.judges]
        said = (texts[few.comparisons].T, few.tied, few.times, few.position, labels)
        found.append([np.asarray(each).tolist() for each in (*said, few.covariates, few.weights)])
    assert found[0] == found[1] == found[2]


def test_rows_that_count_several_times_agree_no_more_by_chance_than_those_rows():
    random = np.random.default_rng(8)
    winner, judges = random.integers(0, 3, 2000), random.integers(0, 9, 2000)
    games = np.stack([winner, (winner + random.integers(1, 3, 2000)) % 3], axis=1)
    names, labels = ("a", "b", "c"), tuple(map(str, range(9)))
    many = ComparisonData(names, games, games[:, 0] < 0, judges=judges, judge_names=labels)
    posterior = JudgedSkills(fit_arena(3, games, judges=judges, num_judges=9))

    def effect(data):
        rows = Residuals(data, posterior, lambda margin: ndtr(margin / 2**0.5), 1.0)
        return rows.design_effect("judge", data.judges)

    few, whole = effect(many.distinct()), effect(many)
    assert few.value == pytest.approx(whole.value, rel=0.02)
    assert few.by_chance == pytest.approx(whole.by_chance, rel=0.5)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
@pytest.mark.filterwarnings("ignore")
def test_spark_counts_as_duckdb_does():
    sql = pytest.importorskip("pyspark.sql", reason="no pyspark")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
    spark = builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
    try:
        floats = games().astype({"home_score": float, "away_score": float})
        for frame, columns in (*LOGS.values(), (floats, ColumnNames())):
            table = spark.createDataFrame(frame.astype(object).where(frame.notna(), None))
            assert answer(table, columns) == answer(frame, columns)
            expected = skills(frame, columns=columns)
            assert skills(table, columns=columns) == pytest.approx(expected, abs=1e-10, rel=0)
    finally:
        spark.stop()


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("frame", [battles(), games(), battles(12).assign(winner="model_a")])
def test_numbers_that_readers_use_less_than_they_say(frame, engine):
    data = read_comparisons(lazy(frame, engine))
    assert answer(lazy(frame, engine), ColumnNames()) == answer(frame, ColumnNames())
    assert data.num_comparisons <= 480
    assert (
        data.weights is not None and data.weights.sum() == read_comparisons(frame).num_comparisons
    )


def test_weights_are_summed_and_wrong_ones_refused():
    frame = battles().assign(weight=np.random.default_rng(2).uniform(0, 2, 4000))
    frame.loc[:50, "weight"] = 0.0
    few, many = read_comparisons(lazy(frame)), read_comparisons(frame)
    assert few.num_comparisons <= 480 < 3900 < many.num_comparisons
    few, many = evidence(few), evidence(many)
    assert few == pytest.approx(many, rel=1e-12)
    for wrong, problem in ((-1.0, "is negative"), (np.nan, "is missing"), (np.inf, "not a finite")):
        frame.loc[7, "weight"] = wrong
        with pytest.raises(DataError, match=problem) as caught:
            read_comparisons(lazy(frame))
        assert caught.value.column == "weight" and "row" not in str(caught.value).split(":")[0]


@pytest.mark.parametrize("score", [np.inf, 1e200])
def test_points_that_are_no_numbers_are_refused(score):
    frame = games().astype({"home_score": float, "away_score": float})
    frame.loc[9, "home_score"] = score
    with pytest.raises(DataError, match="not a finite number|larger than"):
        read_comparisons(lazy(frame))


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_columns_of_a_plain_log_are_those_of_fit(engine):
    random = np.random.default_rng(3)
    winner = random.integers(0, 4, 600)
    log = {"winner": winner, "loser": (winner + random.integers(1, 4, 600)) % 4}
    log |= {"tie": random.integers(0, 2, 600), "position": random.integers(-1, 2, 600)}
    frame = pd.DataFrame(log | {"weight": random.integers(0, 3, 600)})
    few, many = (Ranker(hyperparameters="map").fit(each) for each in (lazy(frame, engine), frame))
    assert few.names_ == many.names_ == [0, 1, 2, 3]
    for mine, other in zip(few.predict(), many.predict(), strict=True):
        assert mine == pytest.approx(other, abs=1e-10, rel=0)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_times_of_a_plain_log_are_those_of_fit(engine):
    random = np.random.default_rng(3)
    winner, days = random.integers(0, 4, 60), random.integers(0, 9, 60)
    log = pd.DataFrame({"winner": winner, "loser": (winner + random.integers(1, 4, 60)) % 4})
    log["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(days, "D")
    few, many = (Ranker(hyperparameters="map").fit(each) for each in (lazy(log, engine), log))
    for mine, other in zip(few.predict(), many.predict(), strict=True):
        assert mine == pytest.approx(other, abs=1e-10, rel=0)


def test_names_are_numbers_where_all_are():
    frame = pd.DataFrame({"winner": [7, 7, 10], "loser": [10, 10, 7], "id": [0, 7, 10]})
    assert Ranker(hyperparameters="prior").fit(lazy(frame)).names_ == [7, 10]
    with pytest.raises(ValueError, match="add columns to it"):
        Ranker().fit(lazy(frame), ties=[0, 0, 1])


def test_too_many_distinct_rows_name_the_column(monkeypatch):
    monkeypatch.setattr(counted, "available", lambda: 400 * 100)
    with pytest.raises(DataError, match="100 rows are distinct.*bin it.*--ignore id") as caught:
        read_comparisons(lazy(battles()), columns=ColumnNames(category="id"))
    assert caught.value.column == "id"


def files(folder, frame, parts=3):
    """Parquet files of a log, and the pattern of their names."""
    folder.mkdir(exist_ok=True)
    for k in range(parts):
        frame[k::parts].to_parquet(folder / f"{k}.parquet")
    return folder / "*.parquet"


def test_files_of_a_pattern_are_one_log(tmp_path, monkeypatch):
    pattern = files(tmp_path / "battles", battles())
    assert answer(pattern, ColumnNames()) == answer(battles(), ColumnNames())
    one = tmp_path / "one.parquet"
    battles().to_parquet(one)
    assert read_comparisons(one).weights is None
    monkeypatch.setattr(counted, "_LARGE", 1000)
    assert answer(one, ColumnNames()) == answer(battles(), ColumnNames())


def mixed(folder):
    battles(9).assign(judge=1).to_parquet(folder / "9.parquet")


def lacking(folder):
    battles(9).drop(columns="judge").to_parquet(folder / "9.parquet")


def broken(folder):
    (folder / "9.parquet").write_bytes(b"no Parquet")


@pytest.mark.parametrize(
    ("change", "arguments", "problem"),
    [
        (mixed, (), "column 'judge': it is BIGINT here, and VARCHAR in 0.parquet; write all"),
        (lacking, (), "9.parquet, column 'judge': it is missing here, and VARCHAR in 0.parquet"),
        (broken, (), "DuckDB cannot count these files ("),
        (None, ("--judge", "who"), "there is no column 'who'"),
        (None, ("--outcome", "id"), "which may mean several things"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, capsys, change, arguments, problem):
    pattern = files(tmp_path / "battles", battles())
    if change is not None:
        change(pattern.parent)
    assert run("rank", pattern, "--out", tmp_path / "out", *arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert problem in said[-1] and not any("Traceback" in line for line in said)
    assert not (tmp_path / "out").exists()


def test_patterns_of_nothing_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for pattern, problem in (
        ("no/*.parquet", "no/*.parquet: no file matches this pattern; check it, and quote it"),
        ("no/*.csv", "no/*.csv: a pattern names Parquet files alone; end it in .parquet"),
    ):
        assert run("rank", pattern) == 2
        assert problem in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_command_counts_files(tmp_path, capsys):
    frame = battles()
    pattern = files(tmp_path / "battles", frame)
    frame.to_csv(tmp_path / "battles.csv", index=False)
    said = []
    for source in (pattern, tmp_path / "battles.csv"):
        assert run("rank", source, "--dry-run") == 0
        lines = capsys.readouterr().out.splitlines()
        lines = [line for line in lines if line.removeprefix("notes:").strip() != counted.COUNTED]
        said.append(sorted(re.split("[(), ]+", " ".join(lines))))
    assert said[0] == said[1] and {"4", "000", "comparisons", "J4"} <= {*said[0]}


def long_to_count(folder):
    """A pattern of a file whose distinct rows are many."""
    rows = "SELECT 'a' || (i % 999983) AS winner, 'b' || (i % 999979) AS loser FROM range(4000000)"
    duckdb.sql(f"{rows} t(i)").write_parquet(str(folder / "many.parquet"))
    return folder / "*.parquet"


@pytest.mark.slow
def test_a_full_disk_is_one_line(tmp_path, monkeypatch, capsys):
    pattern, settings = long_to_count(tmp_path), counted.settings_of
    small = {"memory_limit": "60MiB", "max_temp_directory_size": "1MiB"}
    monkeypatch.setattr(counted, "settings_of", lambda folder: settings(folder) | small)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(counted.tempfile, "tempdir", str(temporary))
    assert run("rank", pattern, "--out", tmp_path / "out", "--quiet") == 2
    [said] = capsys.readouterr().err.splitlines()
    assert f"free space in {temporary}, or set TMPDIR to a larger disk" in said
    assert not (tmp_path / "out").exists() and not [*temporary.iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_counting_and_leaves_nothing(tmp_path, signal_, code):
    pattern, temporary, out = long_to_count(tmp_path), tmp_path / "temporary", tmp_path / "out"
    temporary.mkdir()
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from bayesrank.cli import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", start, "rank", str(pattern), "--out", str(out)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not [*temporary.glob("bayesrank-*")]:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal_)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in said
    assert said.endswith("Error: Interrupted; nothing was written.\n")
    assert not out.exists() and not [*temporary.glob("bayesrank-*")]


@pytest.mark.slow
def test_counting_ends_where_it_is_interrupted(tmp_path, monkeypatch):
    pattern = long_to_count(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(counted.tempfile, "tempdir", str(temporary))
    calls = []

    def interrupt(share):
        calls.append(share)
        assert [*temporary.iterdir()]
        raise KeyboardInterrupt

    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        read_comparisons(pattern, callback=interrupt)
    assert time.perf_counter() - start < 10 and len(calls) == 1
    assert not [*temporary.iterdir()] and threading.active_count() < 5
