"""Every notebook runs in small form, and is kept with the outputs of a full run."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MACHINE_OR_TESTS = r"/(?:root|home|tmp|Users)/|site-packages|[A-Z]:\\|QUICK|filterwarnings"

# Small sizes: texts of a notebook, and what replaces them.
SMALL = {
    "01_pairwise_preferences": {
        "offered = ": "choices, counts = choices[:30], counts[:30]\noffered = ",
        'hyperparameters="map"': 'hyperparameters="prior"',
        "np.linspace(4.0, 16.0, 49)": "np.linspace(4.0, 16.0, 13)",
        "num_samples=1000": "num_warmup=50, num_samples=50, num_chains=2",
    },
    "02_semi_supervised": {
        "num_grid = 100": "num_grid = 15",
        "250, (20, 40, 80, 160), 12": "30, (10,), 1",
        "(3.0, 10.0)": "(3.0,)",
        "(0.5, 1.2)": "(0.5,)",
        "(0.3, 3.0, 30.0)": "(3.0,)",
    },
    "03_active_learning": {
        "scaled=False)": "scaled=False)\nX, progression = X[:40], progression[:40]",
        "QUESTIONS = 60": "QUESTIONS = 8",
        "range(12)": "range(6)",
        ', "entropy gain": "entropy"': "",
        "range(8)": "range(1)",
        "[10, 20, 30, 40, 50, 60]": "[4, 8]",
    },
    "04_collaborative_ratings": {"[:60]": "[:12]", "max_iterations=25": "max_iterations=3"},
    "05_streams": {"50_000, 5, 100": "400, 1, 20"},
    "06_bayes_point": {
        "size, truth, edges = 60": "size, truth, edges = 30",
        'engines=("ep", "nuts")': 'engines=("ep",)',
        "plots.plot_crosscheck(check)\nplt.show()": "",
        "passes = 40": "passes = 3",
        "(1, 3, 10, 30, 100, 300), range(10)": "(1, 20), range(2)",
    },
    "07_ranking_error": {
        "len(ratings), 1500": "len(ratings), 300",
        "repeats = 200": "repeats = 3",
        "learn(facts, ratings)": "learn(facts[:200], ratings[:200])",
    },
    "08_which_method": {
        'os.environ.get("LIGHTGBM_EXAMPLE")': "None",
        "num_steps=300": "num_steps=50",
    },
    "09_label_rankings": {"range(10)": "range(2)", "n_basis=60": "n_basis=20"},
}


each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def _outputs(notebook):
    return [output for cell in _code(notebook) for output in cell.outputs]


def _has_picture(notebook):
    return any("image/png" in output.get("data", {}) for output in _outputs(notebook))


@pytest.mark.slow
@each_notebook
@pytest.mark.filterwarnings("default")  # those of the notebook machinery are not ours
def test_runs_in_small_form(path, tmp_path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    for cell in _code(notebook):
        cell.outputs, cell.execution_count = [], None
    for old, new in SMALL.get(path.stem, {}).items():
        cells = [cell for cell in _code(notebook) if old in cell.source]
        assert cells, f"{path.name} no longer contains {old!r}"
        for cell in cells:
            cell.source = cell.source.replace(old, new)
    check = nbformat.v4.new_code_cell("import sys; print(sys.executable)")
    notebook.cells.append(check)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    assert check.outputs[0]["text"].strip() == sys.executable
    assert _has_picture(notebook)


@each_notebook
def test_is_kept_with_the_outputs_of_one_full_run(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in _code(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert _has_picture(notebook)
    texts = [cell.source for cell in notebook.cells]
    assert texts[0].startswith("# ") and "from bayesrank" in "".join(texts)
    for output in _outputs(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output["text"]
        texts.append(str(output.get("text", "")))
        texts += [str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")]
    assert [found for text in texts for found in re.findall(MACHINE_OR_TESTS, text)] == []
    assert path.stat().st_size < 2_000_000
