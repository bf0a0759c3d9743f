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
MACHINE = re.compile(r"/(?:root|home|tmp|Users)/|site-packages|[A-Z]:\\")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def _outputs(notebook):
    return [output for cell in _code(notebook) for output in cell.outputs]


def _has_picture(notebook):
    return any("image/png" in output.get("data", {}) for output in _outputs(notebook))


def test_there_are_notebooks():
    assert NOTEBOOKS


# Small sizes: texts of a notebook, and what replaces them.
SMALL = {
    "01_pairwise_preferences": {
        "offered = ": "choices, counts = choices[:30], counts[:30]\noffered = ",
        'hyperparameters="map"': 'hyperparameters="prior"',
        "np.linspace(4.0, 16.0, 49)": "np.linspace(4.0, 16.0, 13)",
        "num_samples=1000": "num_warmup=50, num_samples=50, num_chains=2",
    },
    "02_semi_supervised": {
        "num_grid=100": "num_grid=15",
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


def _in_small_form(path):
    """The notebook without outputs, at small sizes."""
    notebook = nbformat.read(path, as_version=4)
    for cell in _code(notebook):
        cell.outputs, cell.execution_count = [], None
    for old, new in SMALL.get(path.stem, {}).items():
        cells = [cell for cell in _code(notebook) if old in cell.source]
        assert cells, f"{path.name} no longer contains {old!r}"
        for cell in cells:
            cell.source = cell.source.replace(old, new)
    return notebook


# Between notebooks: no names, and JAX as it comes. Imports stay: they are half of the time.
RESET = """
import jax
from matplotlib import pyplot
pyplot.rcdefaults()
jax.config.update("jax_enable_x64", False)
get_ipython().run_line_magic("reset", "-f")
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A kernel that runs one notebook after the other."""
    folder = tmp_path_factory.mktemp("notebooks")
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder))
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        patch.delenv("MPLBACKEND", raising=False)
        place = {"metadata": {"path": str(folder)}}
        first = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("0")])
        client = NotebookClient(first, timeout=600, kernel_name="python3", resources=place)
        client.execute(cleanup_kc=False)
        yield client
        client.nb = first
        client.execute(cleanup_kc=True)


@pytest.mark.slow
@each_notebook
@pytest.mark.filterwarnings("default")  # those of the notebook machinery are not ours
def test_runs_in_small_form(path, client):
    notebook = _in_small_form(path)
    check = nbformat.v4.new_code_cell("import sys; print(sys.executable)")
    reset = nbformat.v4.new_code_cell(RESET)
    client.nb = nbformat.v4.new_notebook(cells=[reset, *notebook.cells, check])
    client.execute(cleanup_kc=False)
    assert check.outputs[0]["text"].strip() == sys.executable
    counts = [cell.execution_count for cell in [*_code(notebook), check]]
    assert counts == list(range(counts[0], counts[0] + len(counts)))
    assert _has_picture(notebook)


@each_notebook
def test_is_kept_with_the_outputs_of_one_full_run(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in _code(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert _has_picture(notebook)
    for output in _outputs(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output["text"]
    assert path.stat().st_size < 2_000_000


@each_notebook
def test_shows_neither_the_machine_nor_the_tests(path):
    notebook = nbformat.read(path, as_version=4)
    texts = [cell.source for cell in notebook.cells]
    for output in _outputs(notebook):
        texts.append(str(output.get("text", "")))
        texts += [str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")]
    found = [match.group() for text in texts for match in MACHINE.finditer(text)]
    assert found == []
    assert any("from bayesrank" in cell.source for cell in _code(notebook))
    assert not any("QUICK" in text or "filterwarnings" in text for text in texts)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
