"""Steps of many runs, sent together, and their records, written together.

DDL commits by itself, so the steps of several tables cannot be undone as one. Each step keeps its
rules: it is repeatable, done under its run's lock for steps, and recorded afterwards. A step that
is being done by another process, or that the server rejects, is left to be done alone, which
reports the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import NOW, Hold, Kind, Row
from penstock.backends.mysql.catalog.indexes import read_all_indexes
from penstock.backends.mysql.catalog.tables import creation_times
from penstock.backends.mysql.connection import wait_for_locks
from penstock.backends.mysql.load.loaded_table import ALTERING
from penstock.backends.mysql.records import JOINED_SECONDS, MySqlRecords
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.foreign_keys import ForeignKeyChange
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.definitions.missing_table import MAKE
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.errors import Interrupted, PenstockError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import TableRef
from penstock.spec.modes import mode_of


class JoinedLoads(Protocol):
    """The part of the hooks used here."""

    ledger: Ledger[MySqlRecords]

    def suspect(self, run_ids: Sequence[str]) -> set[str]: ...

    def is_done(self, run: RunRow, step: Step) -> bool: ...

    def do(self, run: RunRow, step: Step) -> object: ...


def prepare_batch(hooks: JoinedLoads, loads: Mapping[str, LoadPlan]) -> frozenset[str]:
    """Do the steps before the first partition of runs that are not prepared.

    Returns:
        The ids of the runs that are now prepared.
    """
    records = hooks.ledger.store
    with records.alone_all(sorted(loads)) as locked:
        rows = hooks.ledger.runs.load(locked)
        due = {run_id: run for run_id, run in rows.items() if run.prepared_at is None}
        steps = {run_id: list(loads[run_id].before) for run_id in due}
        _make_schemas(hooks, due, steps)
        for turn in range(max(map(len, steps.values()), default=0)):
            now = {
                run_id: steps_of_run[turn]
                for run_id, steps_of_run in steps.items()
                if turn < len(steps_of_run)
            }
            for run_id in _refused(hooks, due, now):
                del due[run_id], steps[run_id]
        return _note_prepared(hooks, due, loads) if due else frozenset()


def _make_schemas(hooks: JoinedLoads, due: dict[str, RunRow], steps: dict[str, list[Step]]) -> None:
    """Create each schema once for all of its tables."""
    created: dict[str, bool] = {}
    for run_id, run in list(due.items()):
        for step in [each for each in steps[run_id] if each.id == SCHEMA]:
            if step.statement not in created:
                created[step.statement] = _succeeds(partial(_do, hooks, run, step))
            steps[run_id].remove(step)
            if not created[step.statement]:
                del due[run_id], steps[run_id]
                break


def _refused(hooks: JoinedLoads, due: Mapping[str, RunRow], steps: Mapping[str, Step]) -> list[str]:
    """Do a step of each run; return the ids of those whose step is not done."""
    refused, together = [], {}
    for run_id, step in steps.items():
        table = due[run_id].plan.load.table
        if (
            step.change
            or step.id == MAKE
            or IndexChange.of(step, table)
            or ForeignKeyChange.of(step)
        ):
            # What exists determines what is done.
            run = due[run_id]
            if not _succeeds(partial(_do, hooks, run, step)):
                refused.append(run_id)
        else:
            together[run_id] = step.statement
    return refused + _refused_statements(hooks.ledger.store, together)


def _refused_statements(records: MySqlRecords, scripts: Mapping[str, str]) -> list[str]:
    """Send the statements of all runs; return the keys of those with a rejected statement."""
    listed = [(key, each) for key, text in scripts.items() for each in text.split(";\n")]
    if not listed:
        return []
    wait_for_locks(records.connection, JOINED_SECONDS)
    answers = records.session.fetch_each([statement for _, statement in listed])
    return list(
        dict.fromkeys(
            key for (key, _), answer in zip(listed, answers, strict=True) if answer is None
        )
    )


def _do(hooks: JoinedLoads, run: RunRow, step: Step) -> None:
    if not hooks.is_done(run, step):
        hooks.do(run, step)


def _succeeds(call: Callable[[], None]) -> bool:
    try:
        call()
    except Interrupted:
        raise
    except PenstockError:
        return False
    return True


def _note_prepared(
    hooks: JoinedLoads, due: Mapping[str, RunRow], loads: Mapping[str, LoadPlan]
) -> frozenset[str]:
    records = hooks.ledger.store

    def note() -> frozenset[str]:
        rows = records.read(
            Kind.RUN, {"run_id": tuple(due)}, ("run_id", "generation", "prepared_at")
        )
        unchanged = [
            row["run_id"]
            for row in rows
            if not row["prepared_at"] and row["generation"] == due[row["run_id"]].generation
        ]
        tables = {run_id: loads[run_id].table for run_id in unchanged}
        created_at = note_altered(records, list(tables.values()))
        other_runs = _other_runs(records, tables)
        changes: dict[str, Row] = {}
        for run_id, table in tables.items():
            loaded = LoadedTable(records, table)
            if mode_of(due[run_id].spec).starts_empty and other_runs.get(loaded.id):
                loaded.emptied(run_id)
            changes[run_id] = {
                "prepared_at": NOW,
                "status": "running",
                "disturbed_by": None,
                "loads": loaded.id,
                "made": created_at[table],
            }
        records.set_each(Kind.RUN, changes)
        return frozenset(unchanged)

    return records.transact_all(sorted(due), note, Hold.CHANGE)


def _other_runs(records: MySqlRecords, tables: Mapping[str, TableRef]) -> dict[str, list[str]]:
    """Return other runs that load the tables, by the tables' ids."""
    ids = tuple({LoadedTable(records, table).id for table in tables.values()})
    run_ids: dict[str, list[str]] = {}
    for row in records.read(Kind.RUN, {"loads": ids}, ("run_id", "loads", "status")):
        if row["status"] != "done":
            run_ids.setdefault(row["loads"], []).append(row["run_id"])
    return run_ids


def note_altered(records: MySqlRecords, tables: Sequence[TableRef]) -> dict[TableRef, str | None]:
    """Record that altered tables are still the ones that runs load, despite new creation times.

    Returns:
        The creation time of each table.
    """
    created_at = creation_times(records.session, tables)
    by_id = {LoadedTable(records, table).id: table for table in tables}
    if by_id:
        changes: dict[str, Row] = {
            row["run_id"]: {"made": created_at[by_id[row["loads"]]]}
            for row in records.read(Kind.RUN, {"loads": tuple(by_id)}, ("run_id", "loads", "made"))
            if row["made"] and row["made"].endswith(ALTERING)
        }
        records.set_each(Kind.RUN, changes)
    return created_at


def note_altering(records: MySqlRecords, created_at: Mapping[TableRef, str | None]) -> None:
    """Record that tables are about to be altered.

    Args:
        records: the control tables.
        created_at: the tables and their creation times.
    """
    values = [
        value
        for table, at in created_at.items()
        if at is not None
        for value in (LoadedTable(records, table).id, at)
    ]
    if values:
        pairs = ", ".join(["(%s, %s)"] * (len(values) // 2))
        records.update(
            f"UPDATE {records.table_name('run')} SET `made` = concat(`made`, %s)"
            f" WHERE (`loads`, `made`) IN ({pairs})",
            [ALTERING, *values],
        )


# After the last partition


@dataclass(frozen=True, slots=True)
class _IndexedRun:
    """A run whose steps create indexes, and its table."""

    run: RunRow
    steps: Sequence[Step]

    @property
    def table(self) -> TableRef:
        return self.run.plan.load.table


def finish_batch(hooks: JoinedLoads, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
    """Do steps that create indexes; runs with other steps are left out.

    Returns:
        The ids of the runs whose steps are done and recorded.
    """
    records = hooks.ledger.store
    with records.alone_all(sorted(steps)) as locked:
        due = records.transact_all(locked, lambda: _due(hooks, locked, steps), Hold.STEP)
        if not due:
            return frozenset()
        tables = [each.table for each in due.values()]
        scripts = dict(_scripts(records, due))
        due = {run_id: due[run_id] for run_id in scripts}
        created_at = creation_times(records.session, tables)
        note_altering(records, {each.table: created_at[each.table] for each in due.values()})
        try:
            refused = _refused_statements(
                records, {run_id: script for run_id, script in scripts.items() if script}
            )
        finally:
            note_altered(records, tables)
        done = {run_id: each for run_id, each in due.items() if run_id not in refused}

        def record() -> frozenset[str]:
            unchanged = [
                run_id
                for run_id, each in _due(hooks, sorted(done), steps).items()
                if each.run.generation == done[run_id].run.generation
            ]
            note_altered(records, [done[run_id].table for run_id in unchanged])
            rows = [
                {"run_id": run_id, "step_id": step.id}
                for run_id in unchanged
                for step in steps[run_id]
            ]
            records.add(Kind.STEP, rows)
            return frozenset(unchanged)

        return records.transact_all(sorted(done), record, Hold.STEP) if done else frozenset()


def _due(
    hooks: JoinedLoads, run_ids: Sequence[str], steps: Mapping[str, Sequence[Step]]
) -> dict[str, _IndexedRun]:
    """Return runs that have committed all partitions and done no step, with unchanged tables."""
    rows = hooks.ledger.runs.load(run_ids)
    committed, done = hooks.ledger.store.tally(run_ids), hooks.ledger.steps_done(run_ids)
    doubtful = hooks.suspect(run_ids)
    due = {}
    for run_id, run in rows.items():
        table = run.plan.load.table
        complete = committed.get(run_id, (0, 0))[0] == len(run.plan.partitions)
        has_begun = any(step.id in done[run_id] for step in steps[run_id])
        makes = all(
            change is not None and change.creates and change.table == table
            for change in (IndexChange.of(step, table) for step in steps[run_id])
        )
        if complete and makes and not has_begun and run_id not in doubtful:
            due[run_id] = _IndexedRun(run, steps[run_id])
    return due


def _scripts(records: MySqlRecords, due: Mapping[str, _IndexedRun]) -> Iterator[tuple[str, str]]:
    """Yield the remaining statements of each run; empty if there are none."""
    indexes_of = read_all_indexes(records.session, [each.table for each in due.values()])
    for run_id, each in due.items():
        if (indexes := indexes_of.get(each.table)) is None:
            continue
        texts = []
        try:
            for step in each.steps:
                change = IndexChange.of(step, each.table)
                assert change is not None
                remaining = change.remaining(indexes)
                if remaining.indexes:
                    texts.append(remaining.statement(records.session.dialect))
        except PenstockError:
            continue  # done alone, it reports the index
        yield run_id, ";\n".join(texts)


def table_of(loads: str) -> TableRef:
    """Return the table of a `LoadedTable.id`."""
    schema, name = json.loads(loads)
    return TableRef(schema, name)
