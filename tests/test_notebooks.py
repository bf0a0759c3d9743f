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


@each_notebook
@pytest.mark.filterwarnings("default")  # those of the notebook machinery are not ours
def test_runs_in_small_form(path, tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESRANK_QUICK", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(path, as_version=4)
    for cell in _code(notebook):
        cell.outputs, cell.execution_count = [], None
    check = nbformat.v4.new_code_cell("import sys; print(sys.executable)")
    notebook.cells.append(check)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    assert check.outputs[0]["text"].strip() == sys.executable
    assert [cell.execution_count for cell in _code(notebook)] == [
        i + 1 for i in range(len(_code(notebook)))
    ]
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
def test_tells_nothing_of_the_machine_and_uses_the_library(path):
    notebook = nbformat.read(path, as_version=4)
    texts = [cell.source for cell in notebook.cells]
    for output in _outputs(notebook):
        texts.append(str(output.get("text", "")))
        texts += [str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")]
    found = [match.group() for text in texts for match in MACHINE.finditer(text)]
    assert found == []
    assert any("from bayesrank" in cell.source for cell in _code(notebook))
    assert any("BAYESRANK_QUICK" in cell.source for cell in _code(notebook))
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
