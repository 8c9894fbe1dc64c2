"""The notebooks run from the first cell to the last, and their last expressions have the values in their comments."""

from __future__ import annotations

import shutil
import warnings

import nbformat
import pytest
from nbclient import NotebookClient

from tests.documentation.code_blocks import TOP
from tests.documentation.python_blocks import literal_comments

NOTEBOOKS = TOP / "docs" / "notebooks"
ON_SPARK = "spark-pipeline"
WITHOUT_SPARK = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb") if path.stem != ON_SPARK)


def execute(name, folder):
    """Run a notebook, and compare its results with its comments."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code), "it is stored without outputs"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Jupyter's own modules
        NotebookClient(notebook, timeout=250, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    compared = 0
    for cell in code:
        expected = list(literal_comments(cell.source).values())[-1:]
        if expected:
            (result,) = [one for one in cell.outputs if one.output_type == "execute_result"]
            assert result.data["text/plain"] == repr(expected[0]), cell.source
            compared += 1
    assert compared >= 4


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    execute(name, str(tmp_path))


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or newer")
def test_notebook_runs_on_spark(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    execute(ON_SPARK, str(tmp_path))
