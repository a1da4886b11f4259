"""The control tables: runs, and the commit records that say what is done.

One process at a time has the database open, so none of this needs locks of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from duckdb import DuckDBPyConnection

from penstock.backends.api.control import Outlook, RunningAttempt, RunRow, reading_run
from penstock.backends.duckdb.connection import catalog_name, full_name
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.dialect import condition, ident, literal
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.folder import POLL, folder_of, staged, sweep, tidy
from penstock.backends.duckdb.load.loaded_table import STORAGE, LoadedTable
from penstock.backends.duckdb.rows import first
from penstock.backends.shared.presence import Presence
from penstock.errors import Diagnosis, PermanentError, Superseded, TransientError, UsageError
from penstock.model.codec import from_json, to_json
from penstock.model.plans import LoadPlan, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES
from penstock.spec.worker_spec import Patience

SWAP = "swap"
"""The id of the step that renames."""
_TABLES = """
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE TABLE IF NOT EXISTS {schema}.run (
        run_id VARCHAR PRIMARY KEY, generation INTEGER NOT NULL DEFAULT 1,
        spec VARCHAR NOT NULL, plan VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL,
        source_state VARCHAR NOT NULL, snapshots VARCHAR NOT NULL,
        status VARCHAR NOT NULL DEFAULT 'created',
        created_at TIMESTAMPTZ NOT NULL DEFAULT now(), prepared_at TIMESTAMPTZ,
        finished_at TIMESTAMPTZ, snapshot_released_at TIMESTAMPTZ,
        failures VARCHAR NOT NULL DEFAULT '[]', loads VARCHAR, disturbed_by VARCHAR);
    CREATE TABLE IF NOT EXISTS {schema}.loaded_table (id VARCHAR PRIMARY KEY, rows BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS {schema}.commit_record (
        run_id VARCHAR, partition_id VARCHAR, attempt INTEGER NOT NULL, rows BIGINT NOT NULL,
        bytes BIGINT NOT NULL, inserted BIGINT, updated BIGINT, series VARCHAR,
        read_at VARCHAR NOT NULL DEFAULT '',
        started_at TIMESTAMPTZ NOT NULL, committed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (run_id, partition_id), UNIQUE (series, partition_id));
    CREATE TABLE IF NOT EXISTS {schema}.step_record (
        run_id VARCHAR, step_id VARCHAR, done_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (run_id, step_id));
    CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
        run_id VARCHAR, partition_id VARCHAR, request VARCHAR,
        made_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (run_id, partition_id, request));
"""
_RECORD = (
    "partition_id, attempt, rows, bytes, CAST(started_at AS VARCHAR),"
    " CAST(committed_at AS VARCHAR), inserted, updated, read_at"
)


class ControlTables:
    patience = Patience()

    def __init__(self, database: Database, schema: str) -> None:
        self._database = database
        self._name = schema
        self._presence = Presence(os.path.join(folder_of(database.path), "entered"))

    def leave(self) -> None:
        """End what was entered."""
        self._presence.leave()
        tidy(self._database.path)

    @contextmanager
    def _reading(self) -> Iterator[tuple[DuckDBPyConnection, str] | None]:
        """A session and the control schema's name in it; None where there are no such tables."""
        with self._database.reading() as connection, translated("target"):
            catalog = catalog_name(connection, "target")
            found = first(
                connection.execute(
                    "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1"
                    " AND schema_name = $2 AND table_name IN"
                    " ('run', 'loaded_table', 'commit_record', 'step_record', 'recopy_record')",
                    [catalog, self._name],
                )
            )
            yield (connection, _schema(catalog, self._name)) if found == (5,) else None

    @contextmanager
    def _transaction(self) -> Iterator[tuple[DuckDBPyConnection, str]]:
        with translated("target"), self._database.transaction() as connection:
            yield connection, _schema(catalog_name(connection, "target"), self._name)

    def create(self) -> None:
        with self._reading() as found:
            if found is not None:
                return
        with self._transaction() as (connection, schema):
            connection.execute(_TABLES.format(schema=schema))

    def create_run(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        with self._transaction() as (connection, schema):
            created = connection.execute(
                f"INSERT INTO {schema}.run (run_id, spec, plan, fingerprint, source_state,"
                " snapshots) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
                " RETURNING run_id",
                [
                    run_id,
                    json.dumps(dict(spec)),
                    json.dumps(to_json(plan)),
                    plan.fingerprint,
                    json.dumps(to_json(state)),
                    _snapshots([snapshot] if snapshot else []),
                ],
            ).fetchall()
        return bool(created)

    def load_run(self, run_id: str) -> RunRow | None:
        with self._reading() as found:
            if found is None:
                return None
            connection, schema = found
            row = first(
                connection.execute(
                    "SELECT run_id, generation, spec, plan, source_state, snapshots, status,"
                    " CAST(created_at AS VARCHAR), CAST(prepared_at AS VARCHAR),"
                    " CAST(finished_at AS VARCHAR), failures, CAST(snapshot_released_at AS VARCHAR)"
                    f" FROM {schema}.run WHERE run_id = $1",
                    [run_id],
                )
            )
        if row is None:
            return None
        with reading_run(run_id):
            return RunRow(
                run_id=row[0],
                generation=row[1],
                spec=json.loads(row[2]),
                plan=from_json(PartitionPlan, json.loads(row[3])),
                source_state=from_json(SourceState, json.loads(row[4])),
                snapshots=from_json(tuple[Snapshot, ...], json.loads(row[5])),
                status=row[6],
                created_at=row[7],
                prepared_at=row[8],
                finished_at=row[9],
                failures=tuple(json.loads(row[10])),
                released_at=row[11],
            )

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        self._presence.enter(run_id, str(table), check)

    def check_target(self, run_id: str) -> None:
        with self._reading() as found:
            if found is None:
                return
            connection, schema = found
            run = first(
                connection.execute(
                    f"SELECT plan, spec, status FROM {schema}.run"
                    " WHERE run_id = $1 AND prepared_at IS NOT NULL"
                    f" AND NOT EXISTS (SELECT 1 FROM {schema}.step_record AS s"
                    " WHERE s.run_id = $1 AND step_id = $2)",
                    [run_id, SWAP],
                )
            )
            # What becomes of the rows of a run that is done is not its matter.
            if run is not None and run[2] != "done":
                load = from_json(PartitionPlan, json.loads(run[0])).load
                table = _loaded(connection, schema, load.table)
                table.check(run_id, MODES[json.loads(run[1])["mode"]], thoroughly=True)

    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        with self._transaction() as (connection, schema):
            found = first(
                connection.execute(
                    f"SELECT prepared_at FROM {schema}.run WHERE run_id = $1", [run_id]
                )
            )
            if found is None or found[0] is not None:
                return False
            _prepare(connection, schema, run_id, load)
        return True

    def finish(self, run_id: str, step: Step) -> bool:
        with self._transaction() as (connection, schema):
            run = first(
                connection.execute(
                    f"SELECT plan, (SELECT count(*) FROM {schema}.commit_record AS c"
                    f" WHERE c.run_id = r.run_id), spec FROM {schema}.run AS r WHERE run_id = $1",
                    [run_id],
                )
            )
            plan = None if run is None else from_json(PartitionPlan, json.loads(run[0]))
            if run is None or plan is None or len(plan.partitions) != run[1]:
                raise TransientError(
                    f"target: another process has started run {run_id} over: some partitions are "
                    "not committed any more",
                    Diagnosis(side="target"),
                )
            recorded = connection.execute(
                f"INSERT INTO {schema}.step_record (run_id, step_id) VALUES ($1, $2)"
                " ON CONFLICT DO NOTHING RETURNING step_id",
                [run_id, step.id],
            ).fetchall()
            if not recorded:
                return False
            spec = CopySpec.from_stored(json.loads(run[2]), "", "")
            loaded = _loaded(connection, schema, plan.load.table)
            loaded.check(run_id, spec.load_mode)
            swapped = _loaded(connection, schema, spec.target_ref)
            swapped.check_loaded_since(run_id)
            connection.execute(step.statement)
            swapped.emptied(run_id)
            swapped.end()
            loaded.end()
        return True

    def steps_done(self, run_id: str) -> frozenset[str]:
        rows = self._rows("SELECT step_id FROM {schema}.step_record WHERE run_id = $1", run_id)
        return frozenset(step_id for (step_id,) in rows)

    def intact(self, run_id: str) -> bool:
        # A crash takes nothing that is committed.
        return True

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        with self._transaction() as (connection, schema):
            self._check_generation(connection, schema, run_id, generation)
            found = first(
                connection.execute(
                    f"SELECT spec, prepared_at IS NOT NULL FROM {schema}.run WHERE run_id = $1",
                    [run_id],
                )
            )
            assert found is not None
            if found[1] and MODES[json.loads(found[0])["mode"]].starts_empty:
                _loaded(connection, schema, load.table).check_loaded_since(run_id)
            # Attempts of the old generation are refused when they come to commit.
            _prepare(connection, schema, run_id, load)
            for records in ("commit_record", "step_record"):
                connection.execute(f"DELETE FROM {schema}.{records} WHERE run_id = $1", [run_id])
            connection.execute(
                f"UPDATE {schema}.run SET source_state = $1, snapshots = $2, generation = $3"
                " WHERE run_id = $4",
                [
                    json.dumps(to_json(state)),
                    _snapshots([snapshot] if snapshot else []),
                    generation + 1,
                    run_id,
                ],
            )
        return generation + 1

    def set_view(
        self,
        run_id: str,
        generation: int,
        before: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        following = generation + nothing_committed
        with self._transaction() as (connection, schema):
            self._check_generation(connection, schema, run_id, generation)
            found = first(
                connection.execute(
                    f"SELECT snapshots, (SELECT count(*) FROM {schema}.commit_record AS c"
                    f" WHERE c.run_id = r.run_id) FROM {schema}.run AS r WHERE run_id = $1",
                    [run_id],
                )
            )
            assert found is not None
            if found[0] != _snapshots(before) or (nothing_committed and found[1]):
                raise _superseded(run_id)
            connection.execute(
                f"UPDATE {schema}.run SET source_state = $1, snapshots = $2, generation = $3"
                " WHERE run_id = $4",
                [json.dumps(to_json(state)), _snapshots(snapshots), following, run_id],
            )
        return following

    def _check_generation(
        self, connection: DuckDBPyConnection, schema: str, run_id: str, generation: int
    ) -> None:
        found = first(
            connection.execute(f"SELECT generation FROM {schema}.run WHERE run_id = $1", [run_id])
        )
        if found != (generation,):
            raise _superseded(run_id)

    def release(self, run_id: str) -> bool:
        return self._update(run_id, "snapshot_released_at = coalesce(snapshot_released_at, now())")

    def take_up(self, run_id: str) -> bool:
        return self._update(run_id, "snapshot_released_at = NULL")

    def _update(self, run_id: str, assignment: str, *values: Any) -> bool:
        """Whether there is such a run."""
        with self._reading() as found:
            if found is None:
                return False
        with self._transaction() as (connection, schema):
            changed = connection.execute(
                f"UPDATE {schema}.run SET {assignment} WHERE run_id = $1 RETURNING run_id",
                [run_id, *values],
            ).fetchall()
        return bool(changed)

    def outlook(self, run_id: str) -> Outlook | None:
        rows = self._rows(
            "SELECT status, generation, snapshots, plan, snapshot_released_at IS NOT NULL,"
            " (SELECT count(*) FROM {schema}.commit_record AS c WHERE c.run_id = r.run_id)"
            " FROM {schema}.run AS r WHERE run_id = $1",
            run_id,
        )
        if not rows:
            return None
        status, generation, snapshots, plan, released, committed = rows[0]
        taken = json.loads(snapshots)
        newest = from_json(Snapshot, taken[-1]) if taken else None
        pending = len(json.loads(plan)["partitions"]) - committed
        return Outlook(status, generation, newest, pending, released)

    def recopied(self, run_id: str, request: str) -> frozenset[str]:
        rows = self._rows(
            "SELECT partition_id FROM {schema}.recopy_record WHERE run_id = $1 AND request = $2",
            run_id,
            request,
        )
        return frozenset(partition_id for (partition_id,) in rows)

    def check_recopy(self, run_id: str) -> None:
        if SWAP in self.steps_done(run_id):
            raise UsageError(
                f"run {run_id}: its table has taken the old one's place since, so single "
                "partitions cannot be copied into it again; expected a run whose last steps are "
                "not done; start a new run"
            )

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        self._wait_for_attempts(run_id, frozenset(partition_ids), patience)
        self.check_recopy(run_id)
        with self._transaction() as (connection, schema):
            new = []
            for partition_id in sorted(set(partition_ids)):
                new += connection.execute(
                    f"INSERT INTO {schema}.recopy_record (run_id, partition_id, request)"
                    " VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING partition_id",
                    [run_id, partition_id, request],
                ).fetchall()
            listed = ", ".join(literal(partition_id) for (partition_id,) in new) or "NULL"
            records = connection.execute(
                f"SELECT partition_id, rows FROM {schema}.commit_record"
                f" WHERE run_id = $1 AND partition_id IN ({listed}) ORDER BY 1",
                [run_id],
            ).fetchall()
            if not records:
                return frozenset()
            run = first(
                connection.execute(
                    f"SELECT plan, status FROM {schema}.run WHERE run_id = $1", [run_id]
                )
            )
            assert run is not None
            load = from_json(PartitionPlan, json.loads(run[0])).load
            table = _loaded(connection, schema, load.table)
            if run[1] == "done":
                table.begin(run_id)  # whatever has become of it since
            if rows_of is not None:
                _delete_rows(connection, schema, run_id, rows_of, dict(records))
            connection.execute(
                f"DELETE FROM {schema}.commit_record WHERE run_id = $1"
                f" AND partition_id IN ({listed})",
                [run_id],
            )
            connection.execute(
                f"UPDATE {schema}.run SET status = 'running', finished_at = NULL WHERE run_id = $1",
                [run_id],
            )
            table.end()
        return frozenset(partition_id for partition_id, _ in records)

    def _wait_for_attempts(
        self, run_id: str, partition_ids: frozenset[str], patience: float
    ) -> None:
        deadline = time.monotonic() + patience if patience else None
        while any(
            each.run_id == run_id and each.partition_id in partition_ids and each.is_alive()
            for each in staged(self._database.path)
        ):
            if deadline is not None and time.monotonic() > deadline:
                raise TransientError(
                    f"target: run {run_id}: partitions that are to be copied again are being "
                    "copied; expected no attempt under way",
                    Diagnosis(side="target"),
                )
            time.sleep(POLL)

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        ended = status not in ("running", "created")
        released = (
            ", snapshot_released_at = coalesce(snapshot_released_at, now())"
            if status == "done"
            else ""
        )
        self._update(
            run_id,
            f"status = $2, failures = $3, finished_at = {'now()' if ended else 'NULL'}{released}",
            status,
            json.dumps([dict(failure) for failure in failures]),
        )
        if ended:
            sweep(self._database.path)
            # Whoever has the lock last removes the folder.
            with self._database.reading():
                pass

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        rows = self._rows(
            f"SELECT {_RECORD} FROM {{schema}}.commit_record WHERE run_id = $1"
            " ORDER BY partition_id",
            run_id,
        )
        return tuple(_record(row) for row in rows)

    def loaded(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        rows = self._rows(
            f"SELECT run_id, {_RECORD} FROM {{schema}}.commit_record WHERE series = $1", series
        )
        return {row[1]: (row[0], _record(row[1:])) for row in rows}

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._reading() as found:
            if found is None:
                return []
            connection, schema = found
            return connection.execute(query.format(schema=schema), list(values)).fetchall()

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(each.partition_id, each.attempt, "active", _since(each.file), each.bytes)
            for each in staged(self._database.path)
            if each.run_id == run_id and each.is_alive()
        )


def _record(row: tuple[Any, ...]) -> CommitRecord:
    return replace(CommitRecord(*row[:-1]), read_at=row[-1])


def _schema(catalog: str, name: str) -> str:
    return f"{ident(catalog)}.{ident(name)}"


def _snapshots(snapshots: Sequence[Snapshot]) -> str:
    return json.dumps(to_json(snapshots), sort_keys=True)


def _since(file: str) -> str:
    try:
        begun = os.stat(file).st_ctime
    except FileNotFoundError:
        begun = time.time()
    return datetime.fromtimestamp(begun, UTC).isoformat(sep=" ")


def _loaded(connection: DuckDBPyConnection, schema: str, table: TableRef) -> LoadedTable:
    return LoadedTable(connection, schema, catalog_name(connection, "target"), table)


def _prepare(connection: DuckDBPyConnection, schema: str, run_id: str, load: LoadPlan) -> None:
    table = _loaded(connection, schema, load.table)
    table.begin(run_id)
    for step in load.before:
        connection.execute(step.statement)
    found = first(
        connection.execute(
            f"UPDATE {schema}.run SET prepared_at = now(), status = 'running', loads = $2,"
            " disturbed_by = NULL WHERE run_id = $1 RETURNING spec",
            [run_id, table.id],
        )
    )
    assert found is not None
    if MODES[json.loads(found[0])["mode"]].starts_empty:
        table.emptied(run_id)
    table.end()


def _delete_rows(
    connection: DuckDBPyConnection,
    schema: str,
    run_id: str,
    table: TableRef,
    records: Mapping[str, int],
) -> None:
    """Delete what the partitions' conditions select, where all rows of the table are the run's.

    Raises:
        PermanentError: the table does not tell which rows those are, or holds others.
    """
    found = first(
        connection.execute(f"SELECT plan, spec FROM {schema}.run WHERE run_id = $1", [run_id])
    )
    assert found is not None
    plan, spec = from_json(PartitionPlan, json.loads(found[0])), json.loads(found[1])
    by_name = all(pair.source == pair.target for pair in plan.pairs)
    by_key = not any(isinstance(plan.partition(p).extent, STORAGE) for p in records)
    if not MODES[spec["mode"]].starts_empty or not by_key or not by_name:
        raise PermanentError(
            f"target: {table} does not tell which rows a partition has loaded, so they cannot be "
            "taken back; expected --mode replace, or truncate, recreate or swap with a key "
            "strategy and the same column names on both sides; start a new run",
            Diagnosis(side="target"),
        )
    name = full_name(catalog_name(connection, "target"), table)
    for partition_id, rows in records.items():
        # Of a run with a condition all rows meet it.
        extent = plan.partition(partition_id).extent
        deleted = connection.execute(
            f"DELETE FROM {name} WHERE {condition(None, extent)}"
        ).fetchall()[0][0]
        if deleted != rows:
            raise PermanentError(
                f"target: rows of {table} were changed since they were loaded, so the partitions "
                "cannot be copied again (nothing was changed); put them right by hand, or start a "
                f"new run: {partition_id}: expected {rows:,} rows, found {deleted:,}",
                Diagnosis(side="target"),
            )


def _superseded(run_id: str) -> Superseded:
    return Superseded(
        f"target: another process has replaced the snapshot of run {run_id}, or started the "
        "run over, "
        "at this moment",
        Diagnosis(side="target"),
    )
