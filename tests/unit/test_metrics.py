"""Metrics in a file, read by Prometheus' own parser."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import UsageError
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
    Retrying,
    Warned,
)
from penstock.watching.metrics_file import write_metrics
from penstock_testkit.waiting import until

MOVED: dict[str, Any] = {
    "rows": 10,
    "bytes": 1_000,
    "seconds": 2.0,
    "wait_source": 0.5,
    "wait_target": 1.0,
}
AT = "2026-11-29T10:00:00.500+00:00"
AT_SECONDS = 1795946400.5


def planned(run_id: str = "r", table: str = "public.orders", committed: int = 0) -> Planned:
    return Planned(
        run_id=run_id,
        strategy="blocks",
        reasons=(),
        partitions=4,
        committed=committed,
        rows=20,
        bytes=2_000,
        fingerprint="f",
        degree=1,
        seconds=0.1,
        table=table,
        target_table=table,
    )


def attempt(partition: int, number: int = 1, run_id: str = "r") -> dict[str, Any]:
    return {"run_id": run_id, "partition_id": f"p{partition}", "attempt": number, "pid": 1}


def opened(*arguments: Any) -> Opened:
    return Opened(**attempt(*arguments), label="")


def committed(*arguments: Any) -> Committed:
    return Committed(**attempt(*arguments), **MOVED)


def failed(*arguments: Any) -> Failed:
    error = {"error": "PermanentError", "message": "a bad row", "transient": False}
    return Failed(**attempt(*arguments), error=error)


def finished(run_id: str = "r", status: str = "done") -> Finished:
    return Finished(
        run_id=run_id,
        status=status,
        at=AT,
        partitions=4,
        committed=4,
        attempts=4,
        busy=1.0,
        degree=1,
        snapshots=1,
        **MOVED,
    )


Samples = dict[tuple[str, tuple[str, ...]], float]
"""Values by the sample's name and its labels' values."""


def parsed(text: str) -> Samples:
    """Return what Prometheus' parser reads, which must have a help and a type for each name."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge")
        for sample in family.samples:
            found[sample.name, tuple(sample.labels.values())] = sample.value
    return found


def until_other(path: Path, text: str) -> None:
    until(lambda: path.read_text() != text or None, 30, lambda: "no other file was written")


def metrics(path: Path, *events: Event, target: str = "env:DW") -> Samples:
    """Return the samples while the last event is handled."""
    writing = write_metrics(events, str(path), target, every=0.001)
    for event in writing:
        if event is events[-1]:
            # A file that was being written as the event came may lack it; the next does not.
            for _ in range(2):
                until_other(path, path.read_text())
            shown = parsed(path.read_text())
    return shown


def ended(path: Path, *events: Event, target: str = "env:DW") -> Samples:
    assert tuple(write_metrics(events, str(path), target)) == events
    return parsed(path.read_text())


ORDERS = ("r", "public.orders", "env:DW")


def test_a_run_in_progress(tmp_path: Path) -> None:
    found = metrics(
        tmp_path / "r.prom",
        *(planned(committed=1), opened(1), opened(2), committed(1), failed(2), opened(3)),
    )
    assert found["penstock_rows_total", ORDERS] == 10
    assert found["penstock_bytes_total", ORDERS] == 1_000
    assert found["penstock_failures_total", ORDERS] == 1
    assert {key[1][-1]: n for key, n in found.items() if key[0] == "penstock_partitions"} == {
        "pending": 0,
        "running": 1,
        "committed": 2,
        "failed": 1,
    }
    assert found["penstock_run_seconds", ("r", "env:DW")] > 0
    assert not {name for name, _ in found} & {
        "penstock_run_success",
        "penstock_last_success_timestamp_seconds",
    }


def test_a_partition_that_is_tried_again_has_not_failed(tmp_path: Path) -> None:
    retrying = Retrying(run_id="r", partition_id="p1", attempt=2, delay=0.0)
    found = metrics(tmp_path / "r.prom", planned(), opened(1), failed(1), retrying)
    assert found["penstock_partitions", (*ORDERS, "failed")] == 0
    assert found["penstock_partitions", (*ORDERS, "pending")] == 4
    assert found["penstock_failures_total", ORDERS] == 1


def test_a_run_that_has_ended(tmp_path: Path) -> None:
    found = ended(tmp_path / "r.prom", planned(), opened(1), committed(1), finished())
    assert found["penstock_run_success", ("r", "env:DW")] == 1
    at = found["penstock_last_success_timestamp_seconds", ("public.orders", "env:DW")]
    assert at == AT_SECONDS
    assert found["penstock_tables", ("r", "env:DW", "done")] == 1


@pytest.mark.parametrize("events", [(), (planned(), finished(status="failed")), (planned(),)])
def test_a_run_that_fails_keeps_the_last_success_of_its_table(
    tmp_path: Path, events: tuple[Event, ...]
) -> None:
    path = tmp_path / "r.prom"
    ended(path, planned("other", 'a "table"\\\nof two lines'), finished("other"))
    ended(path, planned(), finished())
    found = ended(path, *events)
    assert [value for (name, _), value in found.items() if name == "penstock_run_success"] == [0]
    assert {key[1]: n for key, n in found.items() if "last_success" in key[0]} == {
        ('a "table"\\\nof two lines', "env:DW"): AT_SECONDS,
        ("public.orders", "env:DW"): AT_SECONDS,
    }
    assert all("other" not in labels for _, labels in found)


def test_a_batch_has_all_tables_in_one_file(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d")
    tables = tuple(
        BatchTable(table=name, target_table=name, run_id=f"r-{name}", status="found")
        for name in names
    )
    found = metrics(
        tmp_path / "b.prom",
        BatchStarted(run_id="batch", tables=tables, degree=1),
        *(planned("r-a", "a"), opened(1, 1, "r-a"), committed(1, 1, "r-a"), finished("r-a")),
        Warned(run_id="r-b", message="b: none", error={"message": "none"}),
        planned("r-c", "c"),
    )
    assert found["penstock_rows_total", ("batch", "a", "env:DW")] == 10
    assert {key[1][-1]: n for key, n in found.items() if key[0] == "penstock_tables"} == {
        "pending": 1,
        "running": 1,
        "done": 1,
        "failed": 1,
    }
    end = BatchFinished(run_id="batch", status="failed", tables=(), rows=1, bytes=1, seconds=1.0)
    found = ended(tmp_path / "b.prom", BatchStarted(run_id="batch", tables=tables, degree=1), end)
    assert found["penstock_run_success", ("batch", "env:DW")] == 0


def test_a_reader_sees_whole_files_only(tmp_path: Path) -> None:
    path = tmp_path / "r.prom"
    seen, over = [], threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.append(path.read_text())

    def events() -> Iterator[Event]:
        for n in range(300):  # so many tables that a file is not written at once
            yield planned(f"r{n}", f"public.table_{n}")
        reader.start()
        time.sleep(0.5)

    reader = threading.Thread(target=read)
    try:
        list(write_metrics(events(), str(path), every=0.001))
    finally:
        over.set()
        reader.join()
    assert len(set(seen)) > 5
    for text in set(seen):
        names = [name for name, _ in parsed(text)]
        assert "penstock_run_seconds" in names
        assert names.count("penstock_partitions") == 4 * names.count("penstock_rows_total")


KILLED = """
import sys
from penstock.events import from_line
from penstock.watching.metrics_file import write_metrics

def events():
    yield from_line(sys.argv[2])
    while True:
        yield from_line(sys.argv[3])

for _ in write_metrics(events(), sys.argv[1], every=0.0005):
    pass
"""


def test_a_killed_run_leaves_the_last_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "r.prom"
    for seconds in (0.0, 0.003, 0.0071, 0.011):
        path.unlink(missing_ok=True)
        lines = (planned().to_line(), opened(1).to_line())
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path), *lines])
        try:
            until(
                lambda: (path.exists() and 'state="running"} 1' in path.read_text()) or None,
                30,
                lambda: "nothing was written",
            )
            time.sleep(seconds)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        assert parsed(path.read_text())[
            "penstock_partitions", ("r", "public.orders", "", "running")
        ]


def test_other_users_may_read_the_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "r.prom"
    before = os.umask(0o022)
    try:
        ended(path, planned(), finished())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_cannot_be_written_is_a_usage_error_at_first(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "r.prom"):
        with pytest.raises(UsageError, match=r"--metrics-file: cannot write .* existing folder"):
            list(write_metrics((planned(),), str(path)))


def test_a_file_that_cannot_be_written_later_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    events = write_metrics((planned(), finished()), str(folder / "r.prom"), every=0.001)
    assert next(events) is not None
    folder.rename(tmp_path / "moved")
    until(lambda: caplog.records or None, 30, lambda: "nothing was logged")
    list(events)
    (record,) = caplog.records
    assert "the run goes on" in record.getMessage()


def test_an_execution_that_is_closed_closes_its_events(tmp_path: Path) -> None:
    closed = []

    def events() -> Iterator[Event]:
        try:
            yield planned()
        finally:
            closed.append(True)

    writing = write_metrics(events(), str(tmp_path / "r.prom"))
    next(writing)
    writing.close()  # type: ignore[attr-defined]
    assert closed
    assert parsed((tmp_path / "r.prom").read_text())["penstock_run_success", ("r", "")] == 0
