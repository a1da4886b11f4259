"""The output for batches of thousands of tables: similar events share one line."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from penstock.engine.batch_plan import BatchPlan, TablePlan
from penstock.engine.phases import Phases
from penstock.events import (
    BatchFinished,
    BatchStarted,
    BatchTable,
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    Planned,
    Prepared,
    Warned,
)
from penstock.figures.execution_end import end_of
from penstock.model.extents import Whole
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.tables import TableRef
from penstock.show.batch_plan_table import PlanSums, print_plans
from penstock.show.console import make_console
from penstock.show.folding import FEW, fold_texts, pattern_of
from penstock.show.lines import PlainDisplay
from penstock.show.live import LiveDisplay
from penstock.show.log import failure_text
from penstock.show.run_report import print_run_report
from penstock.show.tally import Tally

BATCH = "nightly"
MANY, WINDOW = 5000, 100
ERROR = {"error": "PlanningError", "transient": False}


def run_of(number: int) -> str:
    return f"{BATCH}-{number:08x}"


def name_of(number: int) -> str:
    return f"public.t{number}"


def batch_table(number: int, **changes: Any) -> BatchTable:
    values: dict[str, Any] = {"status": "found", "target_table": name_of(number), **changes}
    return BatchTable(table=name_of(number), run_id=run_of(number), **values)


def finished(number: int, status: str = "done") -> Finished:
    return Finished(
        run_id=run_of(number),
        status=status,
        partitions=1,
        committed=1,
        attempts=1,
        rows=300,
        bytes=20_000,
        seconds=1.0,
        wait_source=0.0,
        wait_target=0.0,
        busy=0.1,
        degree=2,
        snapshots=1,
    )


def committed(number: int) -> Committed:
    return Committed(
        run_id=run_of(number),
        partition_id="p0001",
        attempt=1,
        pid=1,
        rows=300,
        bytes=20_000,
        seconds=0.1,
        wait_source=0.0,
        wait_target=0.0,
    )


def planned(number: int) -> Planned:
    return Planned(
        run_id=run_of(number),
        strategy="whole",
        reasons=("small",),
        partitions=1,
        committed=0,
        rows=300,
        bytes=70_000,
        fingerprint="f",
        degree=2,
        seconds=0.01,
        warnings=(f"table {name_of(number)} is not there, and will be made",),
    )


def script(tables: int) -> Iterator[Event]:
    """Yield events in which one table of each window cannot be planned, and one partition fails."""
    yield BatchStarted(run_id=BATCH, tables=tuple(map(batch_table, range(tables))), degree=2)
    for start in range(0, tables, WINDOW):
        bad, refused, *good = range(start, start + WINDOW)
        message = f"{name_of(bad)} cannot be copied: no table {name_of(bad)}"
        yield Warned(run_id=run_of(bad), message=message, error={**ERROR, "message": message})
        yield from map(planned, (refused, *good))
        for number in (refused, *good):
            yield Prepared(run_id=run_of(number), mode="append", already=False)
        for number in (refused, *good):
            yield Opened(
                run_id=run_of(number), partition_id="p0001", attempt=1, pid=1, label="whole table"
            )
        error = {**ERROR, "message": f"{name_of(refused)}: no space"}
        yield Failed(run_id=run_of(refused), partition_id="p0001", attempt=1, pid=1, error=error)
        yield from map(committed, good)
        yield finished(refused, "failed")
        yield from map(finished, good)


def test_a_log_of_thousands_of_tables_has_few_lines_per_hundred() -> None:
    file = io.StringIO()
    display = PlainDisplay(Tally(), file)
    for event in script(MANY):
        display.show(event)
    lines = [line[11:] for line in file.getvalue().splitlines()]
    assert len(lines) < 2 * MANY / WINDOW
    plans = [line for line in lines if line.startswith("planned: ")]
    assert len(plans) == MANY / WINDOW
    assert plans[1] == (
        "planned: 99 tables, 99 partitions, about 29,700 rows and 6.9 MB in the source "
        "(198 of 5,000)"
    )
    # Of similar failures, the first ones are shown in full.
    assert lines.count("public.t0 cannot be copied: no table public.t0") == 1
    assert sum("cannot be copied" in line for line in lines) == 3
    assert sum("no space" in line for line in lines) == 3
    assert sum("will be made" in line for line in lines) == 1


def test_a_log_of_a_few_tables_reports_each() -> None:
    file = io.StringIO()
    display = PlainDisplay(Tally(), file)
    display.show(BatchStarted(run_id=BATCH, tables=tuple(map(batch_table, range(FEW))), degree=2))
    for number in range(FEW):
        for event in (planned(number), committed(number), finished(number)):
            display.show(event)
    lines = file.getvalue()
    assert lines.count("committed: ") == lines.count("will be made") == FEW


def test_sums_over_thousands_of_tables() -> None:
    tally = Tally()
    for event in script(MANY):
        tally.add(event)
    good = MANY - 2 * MANY // WINDOW
    assert tally.tables.done == good
    assert len(tally.tables.failed) == MANY - good
    assert tally.tables.ended == MANY
    assert tally.rows == tally.tables.done_rows == 300 * good
    assert (tally.committed, tally.partitions) == (good, MANY - MANY // WINDOW)
    assert not tally.streams


def test_a_table_counts_once_its_rows_are_there() -> None:
    tally = Tally()
    tally.add(BatchStarted(run_id=BATCH, tables=tuple(map(batch_table, range(3))), degree=2))
    for number in range(2):
        tally.add(planned(number))
    tally.add(committed(0))
    assert (tally.tables.loaded_or_failed, tally.tables.ended) == (1, 0)
    tally.add(planned(0))  # the run restarts
    assert tally.tables.loaded_or_failed == 0
    for event in (committed(0), finished(0), committed(1), finished(1, "failed")):
        tally.add(event)
    assert (tally.tables.loaded_or_failed, tally.tables.ended) == (2, 2)


def test_unplanned_tables_count_like_planned_ones() -> None:
    tally = Tally()
    events = script(MANY)
    while tally.tables.ended < 10 * WINDOW:
        tally.add(next(events))
    assert tally.overall() == pytest.approx(10 * WINDOW / MANY, rel=0.05)


@pytest.mark.parametrize("height", [12, 24])
def test_the_live_display_fits_any_number_of_streams(height: int) -> None:
    console = Console(
        file=io.StringIO(), width=80, height=height, force_terminal=True, color_system=None
    )
    display = LiveDisplay(Tally(), console, "")
    most = 0
    for event in script(3 * WINDOW):
        display.show(event)
        if len(display.tally.streams) in (1, 50, 99):
            found = console.render_lines(display.render(), console.options)
            most = max(most, len(found))
    # One line is left for the cursor.
    assert most == height - 1
    found = console.render_lines(display.render(), console.options)
    shown = "".join(segment.text for line in found for segment in line)
    assert "done: 294 tables, 88,200 rows, 5.9 MB" in shown
    assert "failed: 6 tables: public.t0, public.t1, public.t100" in shown
    assert "300/300 tables" in shown


def test_messages_that_differ_only_in_names_are_similar() -> None:
    assert pattern_of("public.t", "public.t: to t, at 12") == "?: to ?, at 0"
    messages = [(name_of(number), f"{name_of(number)} is full") for number in range(30)]
    first, second = fold_texts([("public.u", "public.u is locked"), *messages])
    assert str(first) == (
        "30 tables (public.t0, public.t1, public.t2, ...), the first: public.t0 is full"
    )
    assert str(second) == "public.u: public.u is locked"


def test_the_report_of_thousands_of_tables_fits_a_page() -> None:
    tables = [
        batch_table(
            number,
            status="done",
            warnings=(f"{name_of(number)} is not there, and will be made",),
            rows=300,
            bytes=20_000,
            busy=0.1 + (number == 77),
        )
        for number in range(MANY)
    ]
    error = {**ERROR, "message": "no space left"}
    tables += [batch_table(MANY + number, status="failed", error=error) for number in range(50)]
    file = io.StringIO()
    finished_batch = BatchFinished(
        run_id=BATCH,
        status="failed",
        tables=tuple(tables),
        rows=300 * MANY,
        bytes=20_000 * MANY,
        seconds=100.0,
        phases={"planning": 20.0, "preparing": 10.0, "copying": 50.0, "finishing": 20.0},
    )
    print_run_report(make_console(file, 110), end_of(finished_batch))
    text = file.getvalue()
    assert len(text.splitlines()) < 40
    assert "5,000 of 5,050 done" in text
    assert "planning 20.0 s, preparing 10.0 s, copying 50.0 s, finishing 20.0 s" in text
    assert text.index("public.t77 ") < text.index("warnings")
    assert "5,000 tables (public.t0, public.t1, public.t2, ...), the first: " in text
    assert "50 tables (public.t5000, " in text
    assert len(failure_text(finished_batch).splitlines()) == 2
    assert "failed: no space left" in text


def test_phases_of_successive_windows_are_summed() -> None:
    now = [0.0]
    phases = Phases(0.0, lambda: now[0])
    for seconds, event in (
        (1, BatchStarted(run_id=BATCH, tables=(), degree=1)),
        (2, planned(1)),
        (3, Prepared(run_id=run_of(1), mode="append", already=False)),
        (4, Opened(run_id=run_of(1), partition_id="p0001", attempt=1, pid=1, label="")),
        (5, committed(1)),
        (6, finished(1)),
        (7, Warned(run_id=run_of(2), message="", error=ERROR)),
        (8, planned(3)),
    ):
        now[0] += seconds
        phases.add(event)
    now[0] += 9
    assert phases.seconds == {
        "planning": 1 + 2 + 7 + 8 + 9,
        "preparing": 3,
        "copying": 4 + 5,
        "finishing": 6,
    }


def table_plan(number: int, size: int) -> TablePlan:
    plan = PartitionPlan(
        strategy="whole",
        reasons=(),
        warnings=(f"{name_of(number)} will be made",),
        partitions=(Partition("p0001", Whole()),),
        columns=(),
        pairs=(),
        format="",
        load=LoadPlan(TableRef("public", f"t{number}")),
        rows=10,
        bytes=size,
    )
    return TablePlan(name_of(number), name_of(number), "append", plan, None)


def test_plans_of_thousands_of_tables_fit_a_page() -> None:
    sums = PlanSums()
    for number in range(MANY):
        sums.add(table_plan(number, 1_000_000 if number == 4321 else 1000))
    error = {**ERROR, "message": "no table"}
    sums.add(TablePlan("public.no", "public.no", "append", None, error))
    file = io.StringIO()
    print_plans(make_console(file, 110), sums, BatchPlan(MANY + 1, 1, 2.0, ()))
    text = file.getvalue()
    assert len(text.splitlines()) < 45
    assert text.startswith("5,001 tables\n")
    assert "estimated rows    50,000" in text
    assert "append (5,000)" in text
    assert "public.no: no table" in text
    assert "5,000 tables (public.t0, public.t1, public.t2, ...), the first: " in text
    lines = text.splitlines()
    largest = next(line for line in lines if line.startswith("public.t4321"))
    assert "1.0 MB" in largest
    assert any(line.startswith("4,980 more tables") and "1 each" in line for line in lines)
