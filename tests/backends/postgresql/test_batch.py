"""copy-all: one snapshot, one pool of streams, each table a run of its own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    BatchSpec,
    Bound,
    CopySpec,
    Crossing,
    Key,
    KeyRange,
    KeyValues,
    Partition,
    PartitionPlan,
    PlanningError,
    RunFailed,
    TableRequest,
    UsageError,
    batch_runs,
    copy,
    copy_all,
    copy_tables,
    create,
    status,
    statuses,
)
from penstock.events import BatchFinished, BatchStarted, Committed, Event, Finished, Opened

from ..conftest import Pair


def batch(pair: Pair, *entries: dict[str, Any], **options: Any) -> BatchSpec:
    arguments = {"source": pair.source.url, "target": pair.target.url, "degree": 2, **options}
    if entries:
        arguments["table"] = list(entries)
    return BatchSpec.from_mapping(arguments, "test")


def events_of(spec: BatchSpec) -> list[Event]:
    return list(copy_all(spec))


def failing(spec: BatchSpec, message: str) -> list[Event]:
    """Return the events up to the error."""
    seen: list[Event] = []
    with pytest.raises(RunFailed, match=message):
        seen.extend(copy_all(spec))
    return seen


def finished(events: list[Event]) -> BatchFinished:
    end = events[-1]
    assert isinstance(end, BatchFinished)
    return end


@pytest.fixture
def three(pair: Pair) -> Pair:
    """A large, a small and an empty table."""
    for name, rows in (("large", 20_000), ("small", 10), ("empty", 0)):
        pair.both(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)")
        pair.source.run(
            f"INSERT INTO {name} SELECT i, repeat('x', 99) FROM generate_series(1, {rows}) g (i)",
            f"ANALYZE {name}",
        )
    return pair


ENTRIES = tuple({"table": f"public.{name}"} for name in ("empty", "small", "large"))


def test_every_table_is_copied(three: Pair) -> None:
    end = finished(events_of(batch(three, *ENTRIES)))
    assert (end.status, end.rows) == ("done", 20_010)
    assert {table.status for table in end.tables} == {"done"}
    for name in ("large", "small", "empty"):
        three.assert_same(f"public.{name}")


def test_the_largest_table_goes_first(three: Pair) -> None:
    events = events_of(batch(three, *ENTRIES, degree=1, partitions=2, strategy="ctid"))
    planned = next(event for event in events if isinstance(event, BatchStarted))
    names = {table.run_id: table.table for table in planned.tables}
    opened = [names[event.run_id] for event in events if isinstance(event, Opened)]
    assert opened[:2] == ["public.large"] * 2
    assert set(opened) == {"public.large", "public.small", "public.empty"}


def test_workers_are_shared_by_all_tables(three: Pair) -> None:
    events = events_of(batch(three, *ENTRIES, degree=1))
    pids = {event.pid for event in events if isinstance(event, Committed)}
    assert len(pids) == 1


def test_all_tables_are_read_in_one_snapshot(three: Pair) -> None:
    changed = False
    for event in copy_all(batch(three, *ENTRIES, degree=1)):
        if isinstance(event, Committed) and not changed:
            changed = True
            three.source.run(
                "INSERT INTO small SELECT 100 + i, 'later' FROM generate_series(1, 5) i",
                "INSERT INTO empty VALUES (1, 'later')",
            )
    assert changed
    assert (three.target.count("small"), three.target.count("empty")) == (10, 0)


def test_a_table_without_the_snapshot_is_read_in_its_current_state(three: Pair) -> None:
    changed = False
    entries = ({"table": "public.large"}, {"table": "public.small", "snapshot": "none"})
    for event in copy_all(batch(three, *entries, degree=1)):
        if isinstance(event, Committed) and not changed:
            changed = True
            three.source.run("INSERT INTO small VALUES (100, 'later')")
    assert three.target.count("small") == 11


def test_tables_with_different_modes_share_a_batch(three: Pair) -> None:
    three.target.run("INSERT INTO small VALUES (1, 'old')", "DROP TABLE empty")
    entries = (
        {"table": "public.large", "mode": "swap", "unlogged": True},
        {"table": "public.small", "mode": "upsert"},
        {"table": "public.empty", "mode": "recreate"},
    )
    end = finished(events_of(batch(three, *entries, verify="checksums")))
    assert end.status == "done"
    for name in ("large", "small", "empty"):
        three.assert_same(f"public.{name}")


class TestOneFailingTable:
    def test_an_unplannable_table_does_not_stop_the_others(self, three: Pair) -> None:
        three.target.run("ALTER TABLE small RENAME id TO number")
        with pytest.raises(RunFailed, match="1 of 3 tables are not done"):
            events_of(batch(three, *ENTRIES))
        three.assert_same("public.large")

    def test_a_missing_table_does_not_stop_the_others(self, three: Pair) -> None:
        spec_of = batch(three, *ENTRIES, {"table": "public.nowhere"})
        seen = failing(spec_of, "1 of 4 tables")
        (failed,) = [table for table in finished(seen).tables if table.status != "done"]
        assert failed.table == "public.nowhere"
        assert failed.error is not None
        assert "does not exist" in failed.error["message"]
        three.assert_same("public.large")

    def test_refused_rows_do_not_stop_the_others(self, three: Pair) -> None:
        three.target.run("ALTER TABLE small ADD CHECK (id < 5)")
        seen = failing(batch(three, *ENTRIES), "1 of 3 tables")
        ends = {event.run_id: event for event in seen if isinstance(event, Finished)}
        assert sorted(end.status for end in ends.values()) == ["done", "done", "failed"]
        three.assert_same("public.large")
        assert three.target.count("small") == 0

    def test_a_failure_stops_the_others_on_request(self, three: Pair) -> None:
        three.target.run("ALTER TABLE large ADD CHECK (id < 5)")
        with pytest.raises(RunFailed):
            events_of(batch(three, *ENTRIES, degree=1, on_table_error="stop"))
        assert three.target.count("small") == 0


class TestUnsupportedTables:
    def test_a_batch_that_no_table_supports_changes_nothing(self, three: Pair) -> None:
        with pytest.raises(UsageError, match="does not support --compression"):
            events_of(batch(three, *ENTRIES, compression="zstd"))
        assert not three.has_control_schema()

    def test_the_reason_is_given_for_each_table(self, three: Pair) -> None:
        entries: list[dict[str, Any]] = [*ENTRIES[:2], {**ENTRIES[2], "compression": "zstd"}]
        seen = failing(batch(three, *entries), "1 of 3 tables are not done")
        tables = {each.table: each for each in finished(seen).tables}
        assert [tables[f"public.{name}"].status for name in ("empty", "small")] == ["done"] * 2
        error = tables["public.large"].error
        assert error is not None
        assert error["error"] == "UsageError"
        assert "PostgreSQL as a target does not support --compression" in error["message"]
        assert three.target.count("large") == 0


class TestByItsId:
    """Commands that accept a run's id accept a batch's."""

    @pytest.fixture
    def night(self, three: Pair) -> Pair:
        """A batch with one failed table, and another that has its own options."""
        three.target.run("ALTER TABLE small ADD CONSTRAINT few CHECK (id < 5)")
        entries: list[dict[str, Any]] = [
            *ENTRIES[:2],
            {"table": "public.large", "columns": ["id"], "where": "id > 5"},
        ]
        with pytest.raises(RunFailed):
            events_of(batch(three, *entries, run_id="night"))
        three.target.run("ALTER TABLE small DROP CONSTRAINT few")
        return three

    def test_status_lists_its_tables(self, night: Pair) -> None:
        found = {entry.source: entry for entry in batch_runs("night", target=night.target.url)}
        assert found.keys() == {"public.empty", "public.small", "public.large"}
        assert {entry.batch for entry in found.values()} == {"night"}
        assert found["public.small"].status == "failed"
        assert found["public.large"].rows == 19_995
        done = night.cli("status", "night", *night.ends[2:])
        assert done.returncode == 0, done.stderr
        assert "batch night failed" in done.stdout
        assert "2 done" in done.stdout
        output = json.loads(night.cli("status", "night", "--json", *night.ends[2:]).stdout)
        assert (output["batch"], output["status"], len(output["runs"])) == ("night", "failed", 3)

    def test_resume_completes_its_tables(self, night: Pair) -> None:
        refused = night.cli("resume", "night", "--only", "p0001", *night.ends)
        assert refused.returncode == 64
        assert "--only: night is a batch" in refused.stderr
        done = night.cli("resume", "night", *night.ends)
        assert done.returncode == 0, done.stderr
        assert "batch night done" in done.stdout
        assert night.target.count("small") == 10
        assert night.target.count("large") == 19_995, "what was done is not done again"

    def test_verify_checks_its_tables(self, night: Pair) -> None:
        assert night.cli("verify", "night", *night.ends).returncode == 65
        assert night.cli("resume", "night", *night.ends).returncode == 0
        done = night.cli("verify", "night", *night.ends)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(" verified") == 3
        output = json.loads(night.cli("verify", "night", "--json", *night.ends).stdout)
        assert (output["ok"], len(output["runs"])) == (True, 3)

    def test_a_run_whose_name_has_the_same_prefix_is_not_part_of_it(self, night: Pair) -> None:
        night.copy(table="public.small", run_id="night-0123abcd", mode="truncate")
        assert len(batch_runs("night", target=night.target.url)) == 3

    @pytest.mark.parametrize("command", ["status", "resume", "verify"])
    def test_an_unknown_id_is_refused(self, night: Pair, command: str) -> None:
        done = night.cli(command, "day", *(night.ends[2:] if command == "status" else night.ends))
        assert done.returncode == 64
        assert "run 'day' is not in the target's control schema" in done.stderr


def test_the_same_run_id_continues_the_batch(three: Pair) -> None:
    three.target.run("ALTER TABLE small ADD CONSTRAINT few CHECK (id < 5)")
    with pytest.raises(RunFailed):
        events_of(batch(three, *ENTRIES, run_id="nightly"))
    three.target.run("ALTER TABLE small DROP CONSTRAINT few")
    events = events_of(batch(three, *ENTRIES, run_id="nightly"))
    assert finished(events).status == "done"
    # The other tables were done, and are not copied again.
    assert sum(event.rows for event in events if isinstance(event, Committed)) == 10
    for name in ("large", "small", "empty"):
        three.assert_same(f"public.{name}")


def test_each_table_is_a_run_of_its_own(three: Pair) -> None:
    end = finished(events_of(batch(three, *ENTRIES, run_id="nightly")))
    assert all(table.run_id.startswith("nightly-") for table in end.tables)
    for table in end.tables:
        found = status(table.run_id, target=three.target.url)
        assert (found.run.status, found.run.spec["table"]) == ("done", table.table)


def test_tables_have_options_of_their_own(three: Pair) -> None:
    three.target.run("INSERT INTO small VALUES (-1, 'old')", "INSERT INTO empty VALUES (-1, 'old')")
    end = finished(
        events_of(
            batch(
                three,
                {"table": "public.small", "mode": "truncate"},
                {"table": "public.empty"},
                {
                    "query": "SELECT id FROM large WHERE id <= 7",
                    "target-table": "public.large",
                    "columns": "id",
                },
            )
        )
    )
    assert end.status == "done"
    assert three.target.count("small") == 10
    assert three.target.count("empty") == 1
    assert three.target.count("large") == 7


class TestCommandLine:
    def test_tables_are_read_from_a_file(self, three: Pair, tmp_path: Path) -> None:
        file = tmp_path / "plan.toml"
        file.write_text(
            'source = "env:SRC"\ntarget = "env:DST"\n'
            + "".join(f'[[table]]\ntable = "{entry["table"]}"\n' for entry in ENTRIES),
            encoding="utf-8",
        )
        environ = {"SRC": three.source.url, "DST": three.target.url}
        done = three.cli("copy-all", str(file), environ=environ)
        assert done.returncode == 0, done.stderr
        assert "3 of 3 done" in done.stdout
        assert "public.large p0001" in done.stderr
        three.assert_same("public.large")

    def test_events_are_written_as_json(self, three: Pair, tmp_path: Path) -> None:
        file = tmp_path / "plan.toml"
        file.write_text('[[table]]\ntable = "public.small"\n', encoding="utf-8")
        done = three.cli("copy-all", str(file), *three.ends, "--json")
        names = [json.loads(line)["event"] for line in done.stdout.splitlines()]
        assert (names[0], names[-1]) == ("batch_started", "batch_finished")

    def test_a_failed_table_is_reported_with_the_command_that_resumes_it(
        self, three: Pair, tmp_path: Path
    ) -> None:
        three.target.run("ALTER TABLE small ADD CHECK (id < 5)")
        file = tmp_path / "plan.toml"
        file.write_text(
            "".join(f'[[table]]\ntable = "{entry["table"]}"\n' for entry in ENTRIES),
            encoding="utf-8",
        )
        done = three.cli("copy-all", str(file), *three.ends, "--run-id", "nightly")
        assert done.returncode == 65
        assert "public.small failed, run nightly-" in done.stdout
        assert f"copy-all {file} --source " in done.stderr
        assert " --run-id nightly" in done.stderr.splitlines()[-1]

    def test_copy_refuses_several_tables(self, three: Pair, tmp_path: Path) -> None:
        file = tmp_path / "plan.toml"
        file.write_text('[[table]]\ntable = "public.small"\n', encoding="utf-8")
        done = three.cli("copy", str(file), *three.ends)
        assert done.returncode == 64
        assert "penstock copy-all" in done.stderr


class TestFinalSummary:
    def test_lists_what_is_not_copied_by_kind_with_its_statement(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE customers (id int PRIMARY KEY)",
            "CREATE TABLE orders (id int PRIMARY KEY, customer int"
            " CONSTRAINT bought_by REFERENCES customers)",
            "GRANT SELECT ON orders TO PUBLIC",
            "CREATE VIEW recent AS SELECT id FROM orders -- the newest",
            "CREATE FUNCTION half(int) RETURNS int LANGUAGE sql AS 'SELECT $1 / 2'",
            "CREATE SEQUENCE tickets START 7",
            "CREATE VIEW kept_out AS SELECT 1",
        )
        pair.target.run("CREATE TABLE customers (id int PRIMARY KEY)")
        exclude = ["public.kept_out", "public.customers"]
        options = {"tables": ["public.*"], "exclude": exclude, "mode": "recreate"}
        end = finished(events_of(batch(pair, **options)))
        assert [(item.kind, item.name) for item in end.not_copied] == [
            ("functions", "public.half"),
            ("sequences", "public.tickets"),
            ("views", "public.recent"),
        ]
        (orders,) = [table for table in end.tables if table.table == "public.orders"]
        assert [(item.kind, item.name) for item in orders.not_copied] == [
            ("foreign keys", "bought_by"),
            ("grants", "SELECT to PUBLIC"),
        ]
        pair.target.run(*(i.remedy for i in (*orders.not_copied, *end.not_copied) if i.remedy))
        assert pair.target.value("SELECT half(4) + nextval('tickets')") == 9
        assert pair.target.rows("SELECT FROM recent") == []

    def test_omits_a_view_that_is_copied_by_name(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id int)", "CREATE VIEW v AS SELECT id FROM t")
        spec_of = batch(pair, tables=["public.*", "public.v"], mode="recreate")
        end = finished(events_of(spec_of))
        assert [table.table for table in end.tables] == ["public.t", "public.v"]
        assert end.not_copied == ()

    def test_lists_nothing_if_the_tables_existed(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int)", "CREATE VIEW v AS SELECT id FROM t")
        end = finished(events_of(batch(pair, tables=["public.*"])))
        assert end.not_copied == ()

    def test_says_why_partitions_failed_and_what_plans_warn_of(self, three: Pair) -> None:
        three.target.run(
            "ALTER TABLE small ADD CONSTRAINT few CHECK (id < 5)",
            "ALTER TABLE empty ALTER id TYPE real",
        )
        end = finished(failing(batch(three, *ENTRIES), "1 of 3 tables"))
        tables = {table.table: table for table in end.tables}
        (failure,) = tables["public.small"].failures
        assert "few" in failure.error["message"]
        assert "digits beyond the precision" in tables["public.empty"].warnings[0]

    def test_is_written_as_text_to_standard_output(self, three: Pair) -> None:
        three.source.run(
            "ALTER TABLE empty ADD CONSTRAINT small_first FOREIGN KEY (id) REFERENCES small"
        )
        three.target.run("DROP TABLE empty", "ALTER TABLE small ADD CONSTRAINT few CHECK (id < 5)")
        three.target.run("ALTER TABLE large ALTER id TYPE real")
        done = three.cli("copy-all", "--tables", "public.large", "public.small", *three.ends)
        assert "digits beyond the precision" in done.stderr
        assert "warnings\n  public.large: " in done.stdout
        assert "public.small failed, run" in done.stdout
        (go_on,) = [line for line in done.stderr.splitlines() if "continue with: " in line]
        three.target.run("ALTER TABLE small DROP CONSTRAINT few")
        again = three.cli(*shlex.split(go_on.partition("continue with: penstock ")[2]))
        assert again.returncode == 0, again.stderr
        assert three.target.count("small") == 10
        assert 'violates check constraint "few"' in done.stdout.split("tables that are not done")[1]
        done = three.cli("copy-all", "--tables", "public.empty", "--mode", "recreate", *three.ends)
        assert "not copied: foreign keys (1); the report at the end lists them" in done.stderr
        assert (
            "not copied\n  foreign keys (1)\n"
            '    ALTER TABLE "public"."empty" ADD CONSTRAINT "small_first" FOREIGN KEY (id)'
            " REFERENCES public.small(id);\n"
        ) in done.stdout


def spec_of(pair: Pair, name: str, **options: Any) -> CopySpec:
    arguments = {"mode": "append", "degree": 2, "run_id": f"own-{name}", **options}
    return CopySpec(
        source=pair.source.url, target=pair.target.url, table=f"public.{name}", **arguments
    )


def test_requested_tables_are_runs_with_the_callers_names(three: Pair) -> None:
    """One run is new, with its own partitions; one is continued; one must not be executed."""

    def refuse(plan: PartitionPlan) -> None:
        raise UsageError("not this one")

    part = Partition("low", KeyRange(Key("id"), None, Bound("", "5")))
    large = spec_of(three, "large", strategy="range", key="id", partitions=4)
    create(large)
    requests = [
        TableRequest(spec=spec_of(three, "small", key="id"), partitions=(part,), series="ours"),
        TableRequest(spec=large),
        TableRequest(spec=spec_of(three, "empty"), check=refuse),
    ]
    seen: list[Event] = []
    with pytest.raises(RunFailed, match="1 of 3 tables"):
        seen.extend(copy_tables(requests, run_id="by-request", degree=2))
    end = finished(seen)
    assert end.run_id == "by-request"
    found = {table.run_id: table for table in end.tables}
    assert {name: table.status for name, table in found.items()} == {
        "own-small": "done",
        "own-large": "done",
        "own-empty": "failed",
    }
    error = found["own-empty"].error
    assert error is not None
    assert error["message"] == "not this one"
    assert three.target.value("SELECT count(*) FROM small") == 4
    three.assert_same("public.large")
    known = {
        each.run.run_id: each
        for each in statuses(["own-small", "own-large"], target=three.target.url)
    }
    assert [len(each.committed) for each in known.values()] == [1, 4]
    assert len({r.read_at for each in known.values() for r in each.committed}) == 1
    # The second time, finished tables are left alone.
    again = finished([*copy_tables(requests[:2], run_id="by-request", degree=2)])
    assert (again.status, again.rows) == ("done", 0)
    # The same name with other options.
    other = TableRequest(spec=spec_of(three, "small", key="id", where="id > 1"), partitions=(part,))
    with pytest.raises(RunFailed):
        [*copy_tables([other], run_id="by-request", degree=2)]
    assert three.target.value("SELECT count(*) FROM small") == 4


def test_a_request_may_read_the_remaining_partitions_in_their_current_state(three: Pair) -> None:
    three.target.run("ALTER TABLE small ADD CHECK (id <> 10)")
    spec = spec_of(three, "small", strategy="range", key="id", partitions=2, on_error="continue")
    with pytest.raises(RunFailed):
        [*copy(spec)]
    three.source.run("UPDATE small SET id = 11 WHERE id = 10")
    with pytest.raises(RunFailed, match="not done"):
        [*copy_tables([TableRequest(spec=spec)], run_id="later", degree=2)]
    [*copy_tables([TableRequest(spec=spec, as_of_now=True)], run_id="later", degree=2)]
    three.assert_same("public.small")


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_partitions_by_two_keys_cover_each_row_once(three: Pair, mode: str) -> None:
    """Each row is in one of them, and `replace` deletes what the partition selects."""
    three.source.run("UPDATE large SET v = 'v' || id % 3")
    extents = [
        Crossing(
            KeyRange(Key("id"), Bound("", str(low)), Bound("", str(low + 10_000))),
            KeyValues(Key("v"), (Bound("", value),)),
        )
        for low in (1, 10_001)
        for value in ("v0", "v1", "v2")
    ]
    chosen_partitions = [Partition(f"p{n}", extent) for n, extent in enumerate(extents)]
    request = TableRequest(
        spec=spec_of(three, "large", mode=mode, key="id", verify="checksums"),
        partitions=chosen_partitions,
    )
    end = finished([*copy_tables([request], run_id="two", degree=2)])
    assert end.rows == 20_000
    three.assert_same("public.large")
    spec = spec_of(three, "large", run_id="o", key="id")
    overlapping = [chosen_partitions[0], Partition("q", extents[0])]
    with pytest.raises(UsageError, match="found p0 and q, which are both id"):
        create(spec, partitions=overlapping)
    wider = KeyRange(Key("id"), Bound("", "5"), Bound("", "7"))
    overlapping[1] = Partition("q", Crossing(wider, extents[0].second))
    with pytest.raises(PlanningError, match="expected ranges that do not overlap"):
        create(spec, partitions=overlapping)
