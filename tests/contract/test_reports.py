"""Reports of finished, resumed and killed runs, from the records in their targets."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing

import pytest

from penstock import RunReport, create, report, run_report_html, run_report_text, status
from penstock.backends.api.registry import find_backend
from penstock.model.tables import TableRef

from ..cli import run_script
from .copying import ROWS, Pair
from .database import Database, SqlDatabase
from .rows import numbered

CUT = {"strategy": "ntile", "key": "id", "partitions": 3}
COUNT = 4
"""The number of partitions, including one for NULL."""
# Otherwise Penstock would wait a long time to find out whether the source was written to.
LATER = {"on_snapshot_lost": "accept"}

# Dies between two partitions, after writing a journal that reports the first one.
DYING = """
import os, signal, sys, time
from penstock import Committed, CopySpec, copy
from penstock.engine import journals
journals.FIRST = journals.MOST = 0.0
events = copy(CopySpec(**eval(sys.argv[1])))
for event in events:
    if isinstance(event, Committed):
        break
time.sleep(1)
next(events)
time.sleep(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def reported(pair: Pair, run_id: str = "r") -> RunReport:
    found = report(run_id, target=pair.ends["target"])
    json.dumps(found.as_json())
    assert run_report_text(found)
    assert run_report_html(found)
    return found


def rows_moved(report: RunReport) -> int:
    """Return the number of rows according to the journals."""
    return sum(point.rows for point in report.timeline.points) if report.timeline else 0


def test_a_report_of_a_finished_run(pair: Pair) -> None:
    pair.make()
    pair.copy(run_id="r", mode="truncate", **CUT)
    found = reported(pair)
    assert (found.status, found.partitions, found.committed) == ("done", COUNT, COUNT)
    assert found.rows == rows_moved(found) == len(ROWS.rows)
    assert found.spent is not None
    assert found.spent.total > 0
    assert len(found.slowest) == COUNT
    assert all(each.spent is not None and each.label for each in found.slowest)
    (execution,) = found.executions
    assert (execution.status, execution.attempts, execution.failed) == ("done", COUNT, 0)
    assert found.copying is not None
    assert found.seconds is not None
    assert 0 < found.copying <= found.seconds


def test_a_report_of_a_run_with_several_executions(pair: Pair) -> None:
    pair.make()
    create(pair.spec(run_id="r", mode="truncate", **CUT))
    first, second, *_ = status("r", target=pair.ends["target"]).run.plan.partitions
    pair.resume("r", only=[first.id, second.id], **LATER)
    assert [each.status for each in reported(pair).executions] == ["partial"]
    pair.resume("r", **LATER)
    found = reported(pair)
    assert [(each.status, each.attempts) for each in found.executions] == [
        ("partial", 2),
        ("done", COUNT - 2),
    ]
    assert found.rows == rows_moved(found) == len(ROWS.rows)
    assert len(found.slowest) == COUNT
    # An execution without work writes no journal.
    pair.resume("r", **LATER)
    assert len(reported(pair).executions) == 2


def test_a_report_of_a_killed_run(pair: Pair) -> None:
    pair.make()
    stored = {**pair.spec(run_id="r", mode="truncate", **CUT).stored(), **pair.ends}
    options = {name: value for name, value in stored.items() if value is not None}
    assert run_script(DYING, repr(options)) == -signal.SIGKILL
    found = reported(pair)
    expected = "killed" if pair.theirs.sees_executions else "running"
    assert found.status == expected
    assert found.committed >= 1
    assert found.spent is not None
    assert rows_moved(found) > 0
    (execution,) = found.executions
    assert execution.status == expected
    assert any("killed" in line for line in found.unknown)
    pair.resume("r", **LATER)
    found = reported(pair)
    assert [each.status for each in found.executions] == [expected, "done"]
    assert (found.committed, found.rows) == (COUNT, len(ROWS.rows))
    assert all(each.spent is not None for each in found.slowest)
    pair.check()


def test_a_report_of_a_run_with_a_recopied_partition(inward: Pair) -> None:
    """The report has the figures of the last attempt; rows that were moved twice count twice."""
    if not inward.theirs.recopies:
        pytest.skip("refused, as test_a_partition_is_copied_again_after_a_correction has it")
    inward.make()
    inward.copy(run_id="r", mode="truncate", **CUT)
    (first, *_) = status("r", target=inward.ends["target"]).committed
    inward.resume("r", only=[first.partition_id], recopy="again", as_of_now=True)
    found = reported(inward)
    assert (found.committed, len(found.executions)) == (COUNT, 2)
    assert found.rows == len(ROWS.rows)
    assert rows_moved(found) == len(ROWS.rows) + first.rows


def test_a_report_of_a_batch(open_database: Callable[[str], Database]) -> None:
    from penstock import BatchSpec, copy_all  # noqa: PLC0415

    pair = Pair(open_database("duckdb"), open_database("postgresql"))
    pair.mine.fill(numbered(300))
    batch = BatchSpec(
        source=pair.ends["source"],
        target=pair.ends["target"],
        tables=("main.*",),
        run_id="b",
        defaults={"mode": "recreate"},
    )
    for _ in copy_all(batch):
        pass
    found = reported(pair, "b")
    (table,) = found.runs
    assert (found.status, found.rows, table.rows) == ("done", 300, 300)
    assert table.run_id.startswith("b-")
    assert found.spent == table.spent
    assert rows_moved(found) == rows_moved(table) == 300


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mssql"])
def test_indexes_that_can_be_deferred_are_found(
    kind: str, open_database: Callable[[str], Database]
) -> None:
    pair = Pair(open_database("duckdb"), open_database(kind))
    theirs = pair.theirs
    assert isinstance(theirs, SqlDatabase)
    for statement in (
        "CREATE TABLE plain (id int)",
        "CREATE TABLE indexed (id int)",
        "CREATE INDEX ids ON indexed (id)",
    ):
        theirs.execute(statement)
    backend, *_ = find_backend(theirs.url, "--target")
    with closing(backend.target(theirs.url, "penstock")) as target:
        found = [
            target.has_indexes(target.find(name) or TableRef("nowhere", name))  # type: ignore[attr-defined]
            for name in ("plain", "indexed", "missing")
        ]
    assert found == [False, True, False]
