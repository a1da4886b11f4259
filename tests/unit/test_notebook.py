"""A copy in a notebook: a real kernel shows one line that changes, and the result as a table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SPEC = """
from penstock import CopySpec, run
spec = CopySpec(source="{folder}/source/*.parquet", target="duckdb:///{folder}/target.duckdb",
                target_table="main.item", degree=2, strategy="files", partitions=4{more})
"""


class Kernel:
    """A notebook that is executed cell by cell; keeps each message about a display."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._notebook = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
        self._client = _Client(self._notebook, timeout=120, kernel_name="python3")

    def cell(self, code: str, more: str = "") -> list[Any]:
        """Execute a cell; return its outputs."""
        source = SPEC.format(folder=self.folder, more=more) + code
        cell = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
        self._notebook.cells.append(cell)
        self._client.execute_cell(cell, len(self._notebook.cells) - 1)
        return list(cell.outputs)

    @property
    def outputs(self) -> list[Any]:
        return list(self._notebook.cells[-1].outputs)

    @property
    def updates(self) -> list[str]:
        return self._client.updates


class _Client(NotebookClient):
    updates: list[str]

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.updates.append(msg["content"]["data"]["text/plain"])
        return super().process_message(msg, cell, cell_index)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    with closing(duckdb.connect()) as connection:
        for number in range(4):
            connection.execute(
                f"COPY (SELECT range AS id, 'item ' || range AS name FROM range({number}000,"
                f" {number + 1}000)) TO '{tmp_path}/source/{number}.parquet'"
            )
    return tmp_path / "source"


@pytest.fixture
def kernel(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    kernel = Kernel(tmp_path)
    kernel._client.updates = []
    with kernel._client.setup_kernel():
        yield kernel


def test_one_line_is_replaced_and_the_result_is_a_table(kernel: Kernel) -> None:
    line, result = kernel.cell("run(spec)")
    assert line["output_type"] == "display_data"
    text = line["data"]["text/plain"]
    assert text.startswith(f"{kernel.folder}/source/*.parquet: done: 4,000 rows in ")
    assert text.endswith(", 4 of 4 partitions")
    assert line["data"]["text/html"] == f"<code>{text}</code>"
    assert kernel.updates[-1] == text
    assert result["output_type"] == "execute_result"
    assert '<td style="text-align:left">4,000</td>' in result["data"]["text/html"]
    assert result["data"]["text/plain"].startswith("Result(run_id=")


def test_a_failure_ends_the_line_and_raises(kernel: Kernel) -> None:
    with pytest.raises(CellExecutionError, match="RunFailed"):
        kernel.cell("run(spec)", ', types="name=INTEGER", attempts=1')
    line, error = kernel.outputs
    assert ": failed: 0 rows in " in line["data"]["text/plain"]
    assert error["output_type"] == "error"


def test_no_line_is_shown_where_none_can_be_replaced(tmp_path: Path, source: Path) -> None:
    script = SPEC.format(folder=tmp_path, more="") + "print(run(spec).rows)"
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert (found.stdout, found.stderr) == ("4000\n", "")


def test_the_kernel_leaves_no_process_behind(kernel: Kernel) -> None:
    (output,) = kernel.cell("""
import psutil
from penstock import copy
events = copy(spec)
next(events), next(events)
events.close()
print([child.name() for child in psutil.Process().children(recursive=True)])
""")
    assert output["text"] == "[]\n"
