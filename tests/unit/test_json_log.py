"""The log as JSON: an object for each line of the plain log, with its figures."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from penstock.cli.output import choose_log_format, report_end, say
from penstock.errors import PermanentError
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
    Progress,
    Retrying,
    Warned,
)
from penstock.show.json_log import JsonLog
from penstock.show.lines import PlainDisplay
from penstock.show.tally import Tally

MOVED: dict[str, Any] = {
    "rows": 10,
    "bytes": 1_000,
    "seconds": 2.0,
    "wait_source": 0.5,
    "wait_target": 1.0,
}
LOST = {
    "error": "TransientError",
    "message": "the connection was lost",
    "transient": True,
    "code": "57P01",
    "side": "source",
}


def planned(run_id: str = "r", table: str = "public.orders", **changes: Any) -> Planned:
    values: dict[str, Any] = {
        "run_id": run_id,
        "strategy": "blocks",
        "reasons": ("because of this",),
        "partitions": 2,
        "committed": 0,
        "rows": 20,
        "bytes": 2_000,
        "fingerprint": "f",
        "degree": 1,
        "seconds": 0.1,
        "table": table,
        "target_table": table,
    }
    return Planned(**{**values, **changes})


def of_attempt(run_id: str = "r", attempt: int = 1) -> dict[str, Any]:
    return {"run_id": run_id, "partition_id": "p0001", "attempt": attempt, "pid": 1}


def finished(run_id: str = "r", status: str = "done") -> Finished:
    return Finished(
        run_id=run_id,
        status=status,
        partitions=2,
        committed=2,
        attempts=3,
        busy=4.0,
        degree=1,
        snapshots=1,
        **MOVED,
    )


def log(*events: Event, clock: Any = None, **options: Any) -> list[dict[str, Any]]:
    file = io.StringIO()
    with JsonLog(Tally(), file, **({"clock": clock} if clock else {}), **options) as display:
        for event in events:
            display.show(event)
    return [json.loads(line) for line in file.getvalue().splitlines()]


RUN: tuple[Event, ...] = (
    planned(warnings=("the key is skewed",)),
    Opened(**of_attempt(), label="id from 'Ada' to 'Eve'"),
    Failed(**of_attempt(), error={**LOST, "detail": "a detail"}),
    Retrying(run_id="r", partition_id="p0001", attempt=2, delay=1.0),
    Opened(**of_attempt(attempt=2), label="id from 'Ada' to 'Eve'"),
    Committed(**of_attempt(attempt=2), **MOVED),
)


def test_an_object_has_the_event_its_figures_and_what_it_is_about() -> None:
    *_, committed, end = log(*RUN, finished())
    assert committed == {
        "time": RUN[-1].at,
        "level": "info",
        "message": "committed: p0001, 10 rows, 1,000 B in 2.0 s (1 of 2)",
        "event": "committed",
        "run_id": "r",
        "table": "public.orders",
        "partition": "p0001",
        "attempt": 2,
        "pid": 1,
        "already": False,
        "paced": 0.0,
        **MOVED,
    }
    assert (end["event"], end["status"], end["level"], end["committed"]) == (
        "finished",
        "done",
        "info",
        2,
    )
    assert end["message"] == "run r is done: 2 of 2 partitions, 10 rows, 1,000 B in 2.0 s"


def test_the_text_is_that_of_the_plain_log() -> None:
    file = io.StringIO()
    with PlainDisplay(Tally(), file) as display:
        for event in RUN:
            display.show(event)
    plain = [line[9:].strip() for line in file.getvalue().splitlines()]
    assert [line for each in log(*RUN) for line in each["message"].split("\n")] == plain


def test_a_warning_of_a_plan_and_an_error_have_objects_of_their_own() -> None:
    head, warning, failed, retrying = log(*RUN)[:4]
    assert (head["level"], head["event"], head["strategy"]) == ("info", "planned", "blocks")
    assert "because of this" in head["message"]
    assert (warning["level"], warning["message"]) == ("warning", "warning: the key is skewed")
    assert failed["level"] == "warning"  # another attempt may follow
    assert {name: failed[name] for name in ("error", "code", "side", "transient")} == {
        name: LOST[name] for name in ("error", "code", "side", "transient")
    }
    assert (retrying["event"], retrying["partition"], retrying["delay"]) == (
        "retrying",
        "p0001",
        1.0,
    )


def test_labels_and_reports_have_no_fields() -> None:
    names = {name for each in log(*RUN, finished()) for name in each}
    assert not names & {"label", "reasons", "warnings", "failures", "timings", "detail", "hint"}


def test_progress_has_the_sums_of_the_execution() -> None:
    moment = iter(range(0, 1_000, 10))
    *_, progress = log(
        planned(),
        Opened(**of_attempt(), label=""),
        Progress(**of_attempt(), **MOVED),
        clock=lambda: next(moment),
    )
    assert (progress["event"], progress["rows"], progress["partitions"]) == ("progress", 10, 2)
    assert progress["table"] == "public.orders"
    assert "partition" not in progress


def tables(count: int) -> tuple[BatchTable, ...]:
    return tuple(
        BatchTable(table=f"t{n}", target_table=f"t{n}", run_id=f"r{n}", status="found")
        for n in range(count)
    )


def test_a_table_of_a_batch_names_its_run_and_its_batch() -> None:
    found = tables(2)
    lost = BatchTable(
        table="bad", target_table="bad", run_id="r9", status="failed", error={"message": "none"}
    )
    batch = BatchStarted(run_id="b", tables=(*found, lost), degree=1)
    end = BatchFinished(run_id="b", status="failed", tables=found, rows=1, bytes=1, seconds=1.0)
    head, bad, plan, done, last = log(batch, planned("r0", "t0"), finished("r0"), end)
    assert (head["level"], bad["level"]) == ("info", "error")
    assert (bad["run_id"], bad["message"]) == ("b", "bad: none")
    assert (plan["run_id"], plan["batch_id"], plan["table"]) == ("r0", "b", "t0")
    assert (done["event"], done["table"], done["status"]) == ("finished", "t0", "done")
    assert (last["event"], last["run_id"], last["level"]) == ("batch_finished", "b", "error")


def test_plans_of_many_tables_are_told_together() -> None:
    found = tables(40)
    batch = BatchStarted(run_id="b", tables=found, degree=1)
    plans = [planned(each.run_id, each.table) for each in found]
    told = log(batch, *plans, Warned(run_id="b", message="low tide"))
    assert [each["event"] for each in told] == ["batch_started", "planned", "warning"]
    assert (told[1]["run_id"], told[1]["message"].split(" (")[0]) == (
        "b",
        "planned: 40 tables, 80 partitions, about 800 rows and 80,000 B in the source",
    )
    assert "partitions" not in told[1]


def test_quiet_leaves_out_what_went_well() -> None:
    told = log(*RUN, finished(), only_warnings=True)
    assert [each["event"] for each in told] == ["planned", "failed", "retrying"]
    assert {each["level"] for each in told} == {"warning"}


@pytest.fixture
def as_json() -> Any:
    choose_log_format("json")
    yield
    choose_log_format("text")


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.usefixtures("as_json")
class TestErrors:
    def test_are_one_object(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert report_end(PermanentError("no such table\nor no right"), "r") == 65
        (line,) = said(capsys)
        assert (line["level"], line["error"], line["run_id"], line["transient"]) == (
            "error",
            "PermanentError",
            "r",
            False,
        )
        assert line["message"] == "error: no such table\nor no right"

    def test_that_are_bugs_have_their_traceback(self, capsys: pytest.CaptureFixture[str]) -> None:
        try:
            raise ValueError("'Ada' is a value")
        except ValueError as error:
            report_end(error)
        (line,) = said(capsys)
        assert line["error"] == "ValueError"
        assert "test_json_log.py" in line["traceback"]

    def test_of_loggers_are_objects_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        logging.getLogger("penstock.waits").warning("source: no answer")
        logging.getLogger("of.a.driver").error("no pool")
        logging.getLogger("of.a.driver").info("connected")
        say("next")
        assert [(line["level"], line["message"]) for line in said(capsys)] == [
            ("warning", "source: no answer"),
            ("error", "no pool"),
            ("info", "next"),
        ]


def test_text_is_chosen_again(capsys: pytest.CaptureFixture[str]) -> None:
    choose_log_format("json")
    choose_log_format("text")
    say("next", "below")
    assert capsys.readouterr().err == "penstock: next\npenstock:   below\n"
