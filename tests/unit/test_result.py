"""The result of `penstock.run`, from the events of a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import RunFailed
from penstock.events import Event, Finished, Merged, PartitionFailure, Planned, Warned
from penstock.interactive.result import result_of
from penstock.interactive.run_copy import _add_reasons

PLANNED = Planned(
    run_id="r", strategy="whole", reasons=(), partitions=2, committed=0, rows=5, bytes=9,
    fingerprint="f", degree=2, seconds=0.1, warnings=("column a <is> gone", "twice"),
)  # fmt: skip
FINISHED = Finished(
    run_id="r", status="done", partitions=2, committed=2, attempts=2, rows=1234, bytes=5_000_000,
    seconds=1.5, wait_source=0, wait_target=0, busy=2, degree=2, snapshots=1,
)  # fmt: skip
MERGED = Merged(
    run_id="r", rows=7, inserted=4, updated=2, deleted=1, watermark="w", epoch=3,
    moment="2026-01-02T03:04:05+00:00",
)  # fmt: skip


def test_a_plain_copy() -> None:
    result = result_of([PLANNED, Warned(run_id="r", message="twice"), FINISHED])
    assert (result.run_id, result.rows, result.bytes, result.seconds) == ("r", 1234, 5_000_000, 1.5)
    assert result.partitions == 2
    assert result.warnings == ("column a <is> gone", "twice")
    assert (result.watermark, result.moment, result.inserted) == ("", "", None)
    assert repr(result) == (
        "Result(run_id='r', rows=1234, bytes=5000000, seconds=1.5, partitions=2, "
        "warnings=('column a <is> gone', 'twice'))"
    )


def test_a_night_has_its_watermark_and_changes() -> None:
    end = replace(FINISHED, inserted=4, updated=2, deleted=1)
    result = result_of([PLANNED, MERGED, end])
    assert (result.watermark, result.moment) == ("w", "2026-01-02T03:04:05+00:00")
    assert (result.inserted, result.updated, result.deleted) == (4, 2, 1)
    assert "w, 2026-01-02 03:04:05Z" in result._repr_html_()


def test_a_merge_without_a_watermark_has_no_moment() -> None:
    result = result_of([PLANNED, replace(MERGED, watermark="", moment="x"), FINISHED])
    assert (result.watermark, result.moment) == ("", "")


def test_a_notebook_shows_a_table_with_escaped_texts() -> None:
    shown = result_of([PLANNED, FINISHED])._repr_html_()
    assert shown.startswith("<table>")
    assert ">1,234<" in shown
    assert "column a &lt;is&gt; gone" in shown
    assert "<is>" not in shown


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_the_error_says_why_partitions_failed(failures: int) -> None:
    reason = {"error": "PermanentError", "message": "target: no room; use --degree 1"}
    failed = PartitionFailure(partition_id="p", label="all", attempts=1, error=reason)
    events: list[Event] = [PLANNED, replace(FINISHED, failures=(failed,) * failures)]
    error = RunFailed("run r: it failed")
    _add_reasons(error, events)
    assert str(error) == error.message
    first, *rest = str(error).splitlines()
    assert first == "run r: it failed"
    assert len(rest) == (0, 1, 3)[failures]
    assert all("target: no room; use degree=1" in line for line in rest)
