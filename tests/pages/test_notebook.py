"""docs/notebooks: the example notebook is run by a kernel, and shows reports and plots."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.pages.blocks import ROOT
from tests.pages.reader import variables

NOTEBOOK = ROOT / "docs" / "notebooks" / "live-stream-table.ipynb"


def test_notebook_shows_a_stream_table_that_follows(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = variables(empty_database, PGTRICKLE_ENGINE="postgres", IPYTHONDIR=str(tmp_path))
    for name, value in {**settings, "MPLCONFIGDIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)  # as committed

    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()

    outputs = [output for cell in cells for output in cell.outputs]
    kinds = Counter(kind for output in outputs for kind in output.get("data", {}))
    assert kinds["image/png"] == 2  # the one that is drawn in place, and the bars
    assert kinds["text/html"] >= 4  # two reports, the history, the rows
    assert "equal\n" in [output.get("text") for output in outputs]
