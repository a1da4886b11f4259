"""The command line: options, the TOML file, exit codes, and the contents of each stream."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from penstock.cli.help import COMMANDS
from penstock.cli.main import main, make_parser
from penstock.cli.options import read_overrides, read_spec
from penstock.errors import (
    Diagnosis,
    Interrupted,
    PenstockError,
    PermanentError,
    PlanningError,
    RunFailed,
    RunFailedTransiently,
    SnapshotLost,
    TransientError,
    UsageError,
)
from penstock.events import (
    Event,
    Finished,
    PartitionFailure,
    Planned,
    Prepared,
    Retrying,
    from_line,
)
from penstock.model.codec import to_json
from penstock.model.extents import Whole
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.tables import Column, ColumnPair, TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.toml_file import read_toml
from penstock.verification.result import Verification

RUN = "20260714-101500-ab12"
ASKED = ["--source", "env:SHOP", "--target", "env:DW", "--table", "public.orders"]
ENDS = ["--source", "env:SHOP", "--target", "env:DW"]
PLAN = PartitionPlan(
    "whole",
    ("it is small",),
    (Partition("p0", Whole(), 7),),
    (Column("id", "x"),),
    (ColumnPair("id", "id"),),
    "binary",
    LoadPlan(TableRef("public", "orders")),
    7,
)


def planned() -> Planned:
    return Planned(
        run_id=RUN,
        strategy="range",
        reasons=("statistics",),
        partitions=2,
        committed=0,
        rows=10,
        bytes=None,
        fingerprint="f",
        degree=1,
        seconds=0.1,
    )


def prepared() -> Prepared:
    return Prepared(run_id=RUN, mode="append", already=False)


def finished(status: str = "done", committed: int = 2) -> Finished:
    failure = PartitionFailure(
        partition_id="p1", label="id >= 5", attempts=1, error={"message": "bad row"}
    )
    return Finished(
        run_id=RUN,
        status=status,
        partitions=2,
        committed=committed,
        attempts=2,
        rows=10,
        bytes=1000,
        seconds=1.0,
        wait_source=0.1,
        wait_target=0.2,
        busy=1.0,
        degree=1,
        snapshots=1,
        failures=(failure,) if status == "failed" else (),
    )


class FakeEngine(ModuleType):
    """A stand-in for the engine, which plays events back and notes its arguments."""

    def __init__(self) -> None:
        super().__init__("penstock.engine.api")
        self.events: Sequence[Event | BaseException] = ()
        self.result: Any = None
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.closed = 0

    def _play(self) -> Iterator[Event]:
        try:
            for event in self.events:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self.closed += 1

    def copy(self, *positional: Any, **keywords: Any) -> Iterator[Event]:
        self.calls.append(("copy", positional, keywords))
        return self._play()

    def resume(self, *positional: Any, **keywords: Any) -> Iterator[Event]:
        self.calls.append(("resume", positional, keywords))
        return self._play()

    def _answer(self, name: str, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.calls.append((name, positional, keywords))
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def plan(self, *positional: Any, **keywords: Any) -> Any:
        return self._answer("plan", positional, keywords)

    def status(self, *positional: Any, **keywords: Any) -> Any:
        return self._answer("status", positional, keywords)

    def verify(self, *positional: Any, **keywords: Any) -> Any:
        return self._answer("verify", positional, keywords)

    def control_ddl(self, *positional: Any, **keywords: Any) -> Any:
        return self._answer("control_ddl", positional, keywords)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setitem(sys.modules, "penstock.engine.api", fake)
    return fake


def spec_of(*words: str) -> CopySpec:
    return read_spec(make_parser().parse_args(["copy", *words]))


# Options


def test_only_specified_options_reach_the_spec() -> None:
    assert spec_of(*ASKED) == CopySpec(source="env:SHOP", target="env:DW", table="public.orders")


def test_every_option_reaches_the_spec_with_its_type() -> None:
    spec = spec_of(
        *ASKED,
        *("--target-table", "dw.orders", "--where", "-x > 1", "--columns", "a, b"),
        *("--strategy", "time", "--key", "at", "--interval", "1 day"),
        *("--partitions", "64MB", "--degree", "-2", "--mode", "replace"),
        *("--snapshot", "none", "--on-snapshot-lost", "accept"),
        *("--attempts", "5", "--on-error", "continue", "--stall-timeout", "90s"),
        *("--grace", "2", "--give-way-after", "1h", "--run-id", "r-1"),
        *("--control-schema", "ops"),
    )
    assert spec == CopySpec(
        source="env:SHOP",
        target="env:DW",
        table="public.orders",
        target_table="dw.orders",
        where="-x > 1",
        columns=("a", "b"),
        strategy="time",
        key="at",
        interval="1 day",
        partitions="64MB",
        degree=-2,
        mode="replace",
        snapshot="none",
        on_snapshot_lost="accept",
        attempts=5,
        on_error="continue",
        stall_timeout=90.0,
        grace=2.0,
        give_way_after=3600.0,
        run_id="r-1",
        control_schema="ops",
    )


@pytest.mark.parametrize("command", ["plan", "copy"])
def test_help_names_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    for item in fields(CopySpec):
        assert f"--{item.name.replace('_', '-')}" in text
        assert " ".join(item.metadata["help"].split()) in " ".join(text.split())
    for title in ("what to copy:", "how to load it:", "how to partition it:", "incremental loads:"):
        assert title in text
    assert "other options:" not in text
    for choices in (
        "{auto,blocks,range,ntile,hash,values,time,children,files,whole}",
        "{append,truncate,replace,upsert,recreate,swap,attach}",
    ):
        assert choices in text
    squeezed = " ".join(text.split())
    for default in ("auto", "append", "shared", "stop", "600s", "10s", "penstock"):
        assert f"(default: {default})" in squeezed
    assert "(default: None)" not in squeezed
    assert "${NAME}" in text


@pytest.mark.parametrize("command", [[], ["copy"], ["resume"], ["status"], ["verify"]])
def test_help_has_explanations_and_examples(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) < 80 for line in text.splitlines())
    for taught in ("postgresql:///?service=", "sslcert", "env:NAME", "process list"):
        assert taught in text
    for code in ("0  done", "64  usage", "65  a permanent", "70  a bug", "75  a transient", "130 "):
        assert code in text


# When a run is planned.
DECIDED = {
    *("run_id", "claim", "full_every", "on_target_changed"),
    *("atomic_limit", "max_ahead", "on_drift", "create"),
}


def test_resume_offers_only_options_that_may_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["resume", "--help"])
    text = capsys.readouterr().out
    for item in fields(CopySpec):
        # Texts of other options may name it.
        flag = re.search(rf"^  --{item.name.replace('_', '-')}\b(?!-)", text, re.MULTILINE)
        offered = item.name == "deletes" or (
            item.metadata["execution"] and item.name not in DECIDED
        )
        assert bool(flag) == (offered or item.name == "control_schema"), item.name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jump"], "found 'jump'"),
        (["copi"], "found 'copi'; did you mean copy"),
        (["copy", *ASKED, "--mode", "upsrt"], "found 'upsrt'; did you mean upsert?"),
        (["watermark", "lst"], "found 'lst'; did you mean list?"),
        (["--jump"], "unrecognized arguments: --jump"),
        (["copy"], "penstock copy: expected --source, --target; found none"),
        (["copy", *ASKED, "--mode", "swim"], "found 'swim'"),
        (
            ["copy", *ASKED, "--degre", "2"],
            "--degre; did you mean --degree?\npenstock: see penstock copy",
        ),
        # An unquoted pattern that the shell has expanded.
        (["copy", *ASKED, "a.toml", "./b.parquet"], "Quote patterns"),
        (
            ["copy", *ASKED, "--degree", "two"],
            "--degree: expected auto or a whole number",
        ),
        (["copy", *ASKED, "--attempts", "0"], "--attempts: expected at least 1, found 0"),
        (["copy", *ASKED, "--stall-timeout", "soon"], "--stall-timeout: expected a duration"),
        (["copy", *ASKED, "--partitions", "big"], "--partitions: expected a number of partitions"),
        (["copy", *ASKED, "--table", "a.b.c"], "--table: expected NAME or SCHEMA.NAME"),
        (["copy", *ASKED, "--strategy", "hash"], "--strategy hash: expected --key, found none"),
        (["resume", *ENDS], "required: RUN_ID"),
        (["resume", RUN, "--source", "env:SHOP"], "required: --target"),
        (["resume", "no/id", *ENDS], "run id: expected 1 to 36 letters"),
        (["resume", RUN, *ENDS, "--mode", "append"], "unrecognized arguments: --mode"),
        (["resume", RUN, *ENDS, "--degree", "x"], "--degree: expected auto or a whole number"),
        (["resume", RUN, *ENDS, "--attempts", "0"], "--attempts: expected at least 1"),
        (["verify", "-", *ENDS], "run id: expected"),
        (["verify", RUN, "--source", "env:SHOP"], "required: --target"),
        (["status", RUN], "required: --target"),
        (["status", "", "--target", "env:DW"], "run id: expected"),
        (["control-ddl", "--schema", "x"], "unrecognized arguments"),
    ],
)
def test_usage_errors_exit_64_and_name_the_expected_value(
    words: list[str], message: str, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("penstock: error: ")
    assert message in shown.err
    assert engine.calls == []


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: penstock ")
    assert "copy-all" in shown.out
    assert shown.err == ""


def test_the_help_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("", *COMMANDS):
        assert main([*filter(None, [command]), "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 10
        assert [line for line in lines if len(line) > 80] == [], command


# TOML


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "orders.toml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


def test_the_command_line_overrides_the_file(
    toml: Callable[[str], str],
) -> None:
    path = toml(
        """
        source = "env:SHOP"
        target = "env:DW"
        table = "public.orders"
        target-table = "dw.orders"
        columns = ["a", "b"]
        partitions = "1000 rows"
        schema-only = true
        stall_timeout = "2m"
        degree = 8
        """
    )
    spec = spec_of(path, "--degree", "-2", "--table", "public.sales", "--no-schema-only")
    assert spec == CopySpec(
        source="env:SHOP",
        target="env:DW",
        table="public.sales",
        target_table="dw.orders",
        columns=("a", "b"),
        partitions="1000 rows",
        stall_timeout=120.0,
        degree=-2,
    )


def test_text_in_a_file_may_refer_to_environment_variables(toml: Callable[[str], str]) -> None:
    path = toml(
        """
        source = "scheme://me:${SHOP_PASSWORD}@${HOST}/shop"
        where = "a = '$${b}' and c = '$d' and e = '{f}'"
        columns = ["${COLUMN}", "b"]
        degree = 2
        """
    )
    environ = {"SHOP_PASSWORD": "pw${HOST}", "HOST": "db", "COLUMN": "a"}
    assert read_toml(path, environ) == {
        # References within a variable's value are not replaced.
        "source": "scheme://me:pw${HOST}@db/shop",
        "where": "a = '${b}' and c = '$d' and e = '{f}'",
        "columns": ["a", "b"],
        "degree": 2,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tabel = "a.b"', "{path}: unknown option 'tabel'; did you mean table"),
        ('[orders]\ntable = "a.b"', "{path}: unknown option 'orders'; did you mean order_by?"),
        ('source = "env:A"', "{path}: expected --target; found none"),
        ("table = ", "{path}: invalid TOML: "),
        ('where = "${NO_SUCH}"', "{path}: where: environment variable 'NO_SUCH' is not set"),
        ('columns = ["${NO_SUCH}"]', "{path}: columns: environment variable 'NO_SUCH' is not"),
        ('where = "${no such}"', "{path}: where: expected ${{NAME}} with the name of an"),
        ('where = "${}"', "found '${{}}'"),
        ('where = "${OPEN"', "found '${{'"),
        ('target-table = "a.b"\ntarget_table = "a.b"', "{path}: 'target_table' appears twice"),
        ("degree = true", "--degree: expected auto or a whole number, found True"),
        ("table = 3", "--table: expected a string, found 3"),
        ("columns = [1]", "--columns: expected names separated by commas, found [1]"),
        ('unlogged = "yes"', "--unlogged: expected true or false"),
    ],
)
def test_a_wrong_file_is_a_usage_error_that_names_it(
    text: str,
    message: str,
    toml: Callable[[str], str],
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    path = toml(text)
    assert main(["copy", path]) == 64
    assert message.format(path=path) in capsys.readouterr().err
    assert engine.calls == []


def test_an_unreadable_file_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "no.toml")
    assert main(["plan", missing]) == 64
    assert f"{missing}: expected a TOML file of options: No such file" in (capsys.readouterr().err)
    assert main(["plan", str(tmp_path)]) == 64
    assert "Is a directory" in capsys.readouterr().err
    for name in ("odd.toml", "2.parquet"):
        odd = tmp_path / name
        odd.write_bytes(b'table = "\xff"')
        assert main(["plan", str(odd)]) == 64
        printed = capsys.readouterr().err
        assert f"{odd}: invalid TOML" in printed
        assert ("Quote patterns" in printed) == (name == "2.parquet")


# Calls of the engine


def test_copy_passes_the_spec_on(engine: FakeEngine) -> None:
    engine.events = [planned(), prepared(), finished()]
    assert main(["copy", *ASKED, "--degree", "3"]) == 0
    [(name, (spec,), named)] = engine.calls
    assert (name, named) == ("copy", {})
    assert spec == spec_of(*ASKED, "--degree", "3")
    assert engine.closed == 1


def test_resume_names_each_request_to_copy_again(engine: FakeEngine) -> None:
    engine.events = [planned(), finished()]
    words = ["resume", RUN, *ENDS, "--only", "p1", "--recopy", "--await-snapshot", "2m"]
    assert main(words) == 0
    assert main(words) == 0
    (_, _, first), (_, _, second) = engine.calls
    assert first["await_snapshot"] == second["await_snapshot"] == 120.0
    assert first["recopy"] != second["recopy"]


def test_copying_again_needs_partitions(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", RUN, *ENDS, "--recopy"]) == 64
    assert "--recopy: expected --only with partitions" in capsys.readouterr().err
    assert engine.calls == []


def test_resume_passes_only_specified_options_on(engine: FakeEngine) -> None:
    engine.events = [planned(), finished()]
    assert main(["resume", RUN, *ENDS]) == 0
    ends = {"source": "env:SHOP", "target": "env:DW"}
    assert engine.calls == [("resume", (RUN,), {**ends, "only": [], "control_schema": "penstock"})]
    engine.calls.clear()
    words = ["--only", "p1", "p2", "--only", "p3", "--degree", "-4", "--stall-timeout", "2m"]
    words += ["--on-snapshot-lost", "restart", "--attempts", "9", "--on-error", "continue"]
    assert main(["resume", RUN, *ENDS, *words, "--control-schema", "ops"]) == 0
    assert engine.calls == [
        (
            "resume",
            (RUN,),
            {
                **ends,
                "only": ["p1", "p2", "p3"],
                "control_schema": "ops",
                "degree": -4,
                "stall_timeout": 120.0,
                "on_snapshot_lost": "restart",
                "attempts": 9,
                "on_error": "continue",
            },
        )
    ]


def test_overrides_are_the_execution_options_except_connections() -> None:
    arguments = make_parser().parse_args(
        ["resume", RUN, *ENDS, "--grace", "1", "--give-way-after", "0"]
    )
    assert read_overrides(arguments) == {"grace": 1.0, "give_way_after": 0.0}


def test_plan_prints_the_plan(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.result = PLAN
    assert main(["plan", *ASKED]) == 0
    shown = capsys.readouterr()
    assert "1 partition by whole" in shown.out
    assert "it is small" in shown.out
    assert "whole table" in shown.out
    assert shown.err == ""
    assert main(["plan", *ASKED, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == to_json(PLAN)
    assert [call[0] for call in engine.calls] == ["plan", "plan"]


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 65)])
def test_the_exit_code_of_verify_is_its_result(
    ok: bool, code: int, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.result = Verification(RUN, ok, (), ())
    assert main(["verify", RUN, *ENDS]) == code
    assert ("NOT verified" in capsys.readouterr().out) == (not ok)
    assert main(["verify", RUN, *ENDS, "--json"]) == code
    assert json.loads(capsys.readouterr().out) == to_json(engine.result)
    assert main(["verify", RUN, *ENDS, "--json", "--checksum", "--show-rows"]) == code
    named: dict[str, str | None] = {"source": "env:SHOP", "target": "env:DW"}
    named |= {"control_schema": "penstock", "show_values": None}
    counts = {**named, "checksum": False, "show_rows": False}
    values = {**named, "checksum": True, "show_rows": True}
    assert engine.calls == [("verify", (RUN,), method) for method in (counts, counts, values)]


def test_status_prints_the_run(engine: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    run = SimpleNamespace(
        run_id=RUN,
        status="running",
        plan=PLAN,
        spec={"table": "public.orders"},
        created_at="2026-07-14",
        prepared_at=None,
        finished_at=None,
        snapshots=(),
        failures=(),
    )
    engine.result = SimpleNamespace(
        unrestored=(),
        night=None,
        run=run,
        committed=(),
        running=(),
        at_work=True,
        executions=(),
        as_json=lambda: {"run_id": RUN},
    )
    assert main(["status", RUN, "--target", "env:DW", "--control-schema", "ops"]) == 0
    assert "0 of 1 committed" in capsys.readouterr().out
    assert main(["status", RUN, "--target", "env:DW", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"run_id": RUN}
    assert [call[2]["control_schema"] for call in engine.calls] == ["ops", "penstock"]


def test_control_ddl_prints_statements(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.result = "CREATE SCHEMA ops;\n"
    assert main(["control-ddl"]) == 0
    assert main(["control-ddl", "--target", "env:DW", "--control-schema", "ops"]) == 0
    assert capsys.readouterr().out == "CREATE SCHEMA ops;\n" * 2
    assert engine.calls == [
        ("control_ddl", (None, "penstock"), {}),
        ("control_ddl", ("env:DW", "ops"), {}),
    ]


# Output and exit codes of a run


def test_progress_goes_to_stderr_and_the_report_to_stdout(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.events = [planned(), prepared(), finished()]
    assert main(["copy", *ASKED]) == 0
    shown = capsys.readouterr()
    assert [line[11:] for line in shown.err.splitlines()] == [
        "planned: 2 partitions by range, about 10 rows; 1 stream",
        "    statistics",
        "target prepared (append)",
    ]
    assert shown.out.splitlines()[0] == f"run {RUN} done"
    assert "penstock resume" not in shown.out


def test_json_output_is_events_alone(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[Event] = [planned(), prepared(), finished()]
    engine.events = events
    for command in (["copy", *ASKED], ["resume", RUN, *ENDS]):
        assert main([*command, "--json"]) == 0
        shown = capsys.readouterr()
        assert [from_line(line) for line in shown.out.splitlines()] == events
        assert shown.err == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [(RunFailed("run failed: 1 of 2"), 65), (RunFailedTransiently("run failed: 1 of 2"), 75)],
)
def test_a_failed_run_is_reported_once_with_the_command_to_continue(
    error: PenstockError, code: int, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.events = [planned(), prepared(), finished("failed", 1), error]
    assert main(["copy", *ASKED, "--control-schema", "my ops"]) == code
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1] == "penstock: error: run failed: 1 of 2"
    assert shown.out.splitlines()[-1] == (
        f"  penstock resume {RUN} --source env:SHOP --target env:DW --control-schema 'my ops'"
    )
    assert shown.out.count("bad row") == 1
    # With --json the report is an event, and everything else goes to stderr.
    assert main(["copy", *ASKED, "--json"]) == code
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert shown.err.splitlines() == [
        "penstock: error: run failed: 1 of 2",
        f"penstock: continue with: penstock resume {RUN} --source env:SHOP --target env:DW",
    ]


def test_an_error_without_a_report_is_shown_in_full(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = SnapshotLost("the snapshot is gone:\n  resume with accept, or restart")
    engine.events = [planned(), prepared(), finished("failed", 1), lost]
    assert main(["copy", *ASKED]) == 65
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "penstock: error: the snapshot is gone:",
        "penstock:     resume with accept, or restart",
    ]


def test_the_command_to_continue_shows_no_secret(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.events = [planned(), prepared(), finished("failed", 1), RunFailed("failed")]
    source = "scheme://me:s3cret@src:5432/shop?sslmode=verify-full&sslpassword=s3cret"
    main(["copy", "--source", source, "--target", "scheme://u:s3cret@t/d", "--table", "a.b"])
    shown = capsys.readouterr()
    assert "s3cret" not in shown.out + shown.err
    assert shown.out.splitlines()[-1] == (
        f"  penstock resume {RUN} --source "
        "'scheme://me@src:5432/shop?sslmode=verify-full&sslpassword=***' --target scheme://u@t/d"
    )


def test_the_command_to_continue_keeps_the_options_of_a_resume(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.events = [planned(), finished("failed", 1), RunFailed("failed")]
    main(["resume", RUN, *ENDS, "--only", "p1", "--degree", "-2", "--stall-timeout", "9m"])
    again = capsys.readouterr().out.splitlines()[-1].split()
    assert again[0] == "penstock"
    first = make_parser().parse_args(again[1:])
    assert (first.run_id, first.only, first.degree, first.stall_timeout) == (
        RUN,
        ["p1"],
        "-2",
        "9m",
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("wrong"), 64),
        (PermanentError("refused"), 65),
        (PlanningError("no such table"), 65),
        (TransientError("gone"), 75),
        (PenstockError("strange"), 70),
        (Interrupted("interrupted"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
@pytest.mark.parametrize("command", ["plan", "copy"])
def test_each_error_has_its_exit_code(
    error: BaseException,
    code: int,
    command: str,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine.result = error
    engine.events = [error]
    assert main([command, *ASKED]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    lead = "penstock: " if code == 130 else "penstock: error: "
    assert shown.err == f"{lead}{error if str(error) else 'interrupted'}\n"


def test_an_error_shows_the_servers_whole_message(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.result = PlanningError(
        "cannot read",
        Diagnosis(side="source", code="42501", detail="one\ntwo", hint="GRANT", context="line"),
    )
    assert main(["plan", *ASKED]) == 65
    assert capsys.readouterr().err.splitlines() == [
        "penstock: error: [source 42501] cannot read",
        "penstock:   detail: one",
        "penstock:   two",
        "penstock:   hint: GRANT",
        "penstock:   context: line",
    ]


@pytest.mark.parametrize("command", ["plan", "copy"])
def test_a_bug_shows_its_traceback_and_asks_for_a_report(
    command: str, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.result = ZeroDivisionError("oops")
    engine.events = [ZeroDivisionError("oops")]
    assert main([command, *ASKED]) == 70
    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last):")
    assert "ZeroDivisionError: oops" in error
    assert error.splitlines()[-1] == (
        "penstock: error: this is a bug in Penstock (ZeroDivisionError): please report it with "
        "the lines above"
    )


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("error", [Interrupted("stopped"), TransientError("stopped")])
@pytest.mark.parametrize("command", [["copy", *ASKED], ["resume", RUN, *ENDS]])
def test_a_run_that_breaks_off_says_how_to_continue_once_it_exists(
    exists: bool,
    error: PenstockError,
    command: list[str],
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine.events = [planned(), error] if exists else [error]
    assert main(command) == error.exit_code
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if line.startswith("penstock: ")]
    assert "stopped" in lines[0]
    message = f"penstock: continue with: penstock resume {RUN} --source env:SHOP --target env:DW"
    assert lines[1:] == ([message] if exists else [])
    assert shown.out == ""


def test_an_interruption_that_the_engine_reports_is_reported_once(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.events = [planned(), prepared(), finished("interrupted", 1), Interrupted("stopped")]
    assert main(["copy", *ASKED]) == 130
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == f"run {RUN} interrupted"
    assert shown.err.splitlines()[-1] == "penstock: stopped"
    assert "resume" not in shown.err


def test_a_signal_after_the_end_changes_nothing(engine: FakeEngine) -> None:
    engine.events = [planned(), prepared(), finished("done"), Interrupted("late")]
    assert main(["copy", *ASKED]) == 0


def test_signal_handlers_are_restored(engine: FakeEngine) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    engine.events = [planned(), prepared(), RunFailed("failed")]
    main(["copy", *ASKED])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


# The process: signals, pipes, terminals

SCRIPT = """
import sys, time, types
from penstock.events import Opened, Planned, Prepared, Warned

def copy(spec):
    yield Planned(run_id="r", strategy="whole", reasons=(), partitions=2, committed=0, rows=None,
                  bytes=None, fingerprint="f", degree=1, seconds=0.1)
    yield Prepared(run_id="r", mode="append", already=False)
    yield Opened(run_id="r", partition_id="p0", attempt=1, pid=1, label="whole table")
    try:
        for number in range(300):
            yield Warned(run_id="r", message=f"beat {number}")
            time.sleep(0.1)
    finally:
        print("ending", file=sys.stderr, flush=True)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            time.sleep(0.02)
        print("ended", file=sys.stderr, flush=True)

def control_ddl(target, schema):
    return "CREATE TABLE x;\\n" * 100_000

engine = types.ModuleType("penstock.engine.api")
engine.copy, engine.control_ddl = copy, control_ddl
sys.modules["penstock.engine.api"] = engine
from penstock.cli.main import main
sys.exit(main())
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return [sys.executable, str(path)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("json_lines", [False, True])
def test_a_signal_ends_the_run_cleanly_and_a_second_one_is_harmless(
    number: signal.Signals, json_lines: bool, program: list[str]
) -> None:
    words = [*program, "copy", *ASKED, *(["--json"] if json_lines else [])]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        watched = process.stdout if json_lines else process.stderr
        while "beat 1" not in watched.readline():
            assert process.poll() is None
        process.send_signal(number)
        while "ending" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.splitlines() == [
        "ended",
        f"penstock: interrupted by {number.name}",
        "penstock: continue with: penstock resume r --source env:SHOP --target env:DW",
    ]
    assert json_lines or out == ""


def test_a_background_process_that_ignores_sigint_still_ignores_it(program: list[str]) -> None:
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *program, "copy", *ASKED],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    with process:
        while "beat 1" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        while "beat 5" not in (line := process.stderr.readline()):
            assert "ending" not in line
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_closed_pipe_of_results_is_no_error(program: list[str]) -> None:
    process = subprocess.Popen(
        [*program, "control-ddl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "CREATE TABLE x;\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


def test_a_closed_pipe_of_events_interrupts_the_run(program: list[str]) -> None:
    process = subprocess.Popen(
        [*program, "copy", *ASKED, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        while "beat" not in process.stdout.readline():
            assert process.poll() is None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read().splitlines() == [
            "ending",
            "ended",
            "penstock: interrupted: the reader of the output closed the pipe",
            "penstock: continue with: penstock resume r --source env:SHOP --target env:DW",
        ]
        assert process.wait(timeout=60) == 130


@pytest.mark.parametrize(("term", "is_live"), [("xterm", True), ("dumb", False)])
def test_the_display_is_live_on_a_capable_terminal(
    term: str, is_live: bool, program: list[str]
) -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": term, "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        [*program, "copy", *ASKED], stdout=subprocess.PIPE, stderr=theirs, env=environ
    )
    os.close(theirs)
    shown = b""
    with process:
        deadline = time.monotonic() + 60
        while b"beat 8" not in shown:
            assert time.monotonic() < deadline
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:
                # Linux: the other end of the terminal is closed.
                break
            if not more:
                break
            shown += more
        assert process.wait(timeout=60) == 130
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(ours)
    assert (b"0/2 partitions" in shown) == is_live
    # The cursor is hidden while the display is live, and shown again.
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") == is_live
    assert (b"interrupted: ending the streams" in shown) == is_live
    assert b"continue with: penstock resume r" in shown


def test_help_imports_neither_rich_nor_a_driver() -> None:
    code = (
        "import sys\n"
        "from penstock.cli.main import main\n"
        "main(['copy', '--help'])\n"
        "print(sorted({'rich', 'psycopg'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_of_the_program_imports_no_command() -> None:
    code = (
        "import sys\n"
        "from penstock.cli.main import main\n"
        "main(['--help'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('penstock.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert {name for name in imported if ".cli." in name} == {
        f"penstock.cli.{name}" for name in ("entry", "help", "main", "output", "parser")
    }
    assert not {"penstock.events", "penstock.model", "penstock.engine", "penstock.show"} & imported
    # The names that it shows without the commands' modules are those of the whole parser.
    shown, whole = (
        [line for line in make_parser(word).format_help().splitlines() if line[:4] == "    "]
        for word in ("--help", "")
    )
    assert shown == whole


def test_an_encoding_without_a_letter_is_no_reason_to_fail(program: list[str]) -> None:
    path = Path(program[1])
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "from penstock.cli.main import main",
            "from penstock.model.extents import *\n"
            "from penstock.model.plans import *\n"
            "from penstock.model.tables import *\n"
            "engine.plan = lambda spec: PartitionPlan('whole', ('größe',), (Partition('p', "
            "Whole()),), (), (), '', LoadPlan(TableRef('a', 'b')))\n"
            "from penstock.cli.main import main",
        ),
        encoding="utf-8",
    )
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*program, "plan", *ASKED], env=environ, capture_output=True, text=True, check=True
    )
    assert "gr??e" in done.stdout


def test_retries_are_reported_on_stderr(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    retry = Retrying(run_id=RUN, partition_id="p1", attempt=2, delay=1.0)
    engine.events = [planned(), prepared(), retry, finished()]
    assert main(["copy", *ASKED]) == 0
    assert "retrying: p1, in 1.0 s" in capsys.readouterr().err
