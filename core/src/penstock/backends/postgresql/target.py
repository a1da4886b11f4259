"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import Checksum, Fit, LoadRequest
from penstock.backends.api.optional.children import ChildRequest, PlannedChildren
from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.api.optional.nights import Bucket, KeyDigest, KeyRanges, KeySelection
from penstock.backends.api.worker import ARROW
from penstock.backends.postgresql.attempt.older_sessions import Guard
from penstock.backends.postgresql.attempt.stage import BY_INDEX, PostgresStage
from penstock.backends.postgresql.capabilities import TARGET
from penstock.backends.postgresql.catalog.privileges import missing_grant
from penstock.backends.postgresql.catalog.relations import find_by_name, find_oid, search_path
from penstock.backends.postgresql.catalog.unique_keys import read_unique_keys
from penstock.backends.postgresql.compare.checksums import (
    Values,
    integers_of,
    key_values,
    read_checksum,
    read_loaded,
    read_rows,
    target_values,
    writer_conditions,
)
from penstock.backends.postgresql.compare.conditions import condition
from penstock.backends.postgresql.connection import (
    CONTROL,
    LOOK_LOCK,
    Connection,
    abandon,
    connect,
)
from penstock.backends.postgresql.control import ControlTables
from penstock.backends.postgresql.ddl.text import check_lengths
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.keys.keys import check_same_rows
from penstock.backends.postgresql.load.fitting import fit_columns
from penstock.backends.postgresql.load.load_plan import plan_load
from penstock.backends.postgresql.load.sequences import with_used_up
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.new_tables.claimed_names import ClaimedNames
from penstock.backends.postgresql.session.statements import DIALECT, ident, name, rows_of
from penstock.backends.sql.rows.checksums import as_loaded
from penstock.errors import TableReplaced
from penstock.model.drift import ColumnChange
from penstock.model.extents import Extent, Key
from penstock.model.plans import LoadPlan
from penstock.model.records import CommitRecord
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, Relation, TableRef
from penstock.spec.copy_spec import CopySpec, stored_target
from penstock.spec.modes import Emptying, Entry, Mode, Table
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    import pyarrow as pa

_PRIVILEGES: Mapping[Enum, Sequence[str]] = {
    Emptying.TRUNCATE: ("TRUNCATE",),
    Entry.REPLACE: ("DELETE", "SELECT"),
}


def _privileges(mode: Mode) -> list[str]:
    """Return the table privileges that a mode needs in addition to INSERT."""
    return [name for answer in mode.answers for name in _PRIVILEGES.get(answer, ())]


def _among(run: RunRow, within: KeyRanges | None) -> list[str]:
    """Return conditions on the key that select some ranges without overlap."""
    from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

    key = run.plan.load.conflict_columns
    return deleted_keys.span_conditions(None, key[0], within.spans()) if within else []


class PostgresTarget:
    """The catalog of a PostgreSQL target.

    Args:
        url: the URL of the target, for the session that watches this one.
        control_schema: the control schema.
        connection: a session opened for it.
    """

    def __init__(self, url: str, control_schema: str, connection: Connection | None = None) -> None:
        self._connection = connection or connect(url, "target", CONTROL)
        self._connection.side = "target"
        watch = partial(connect, url, "target", "penstock:watch", lock_seconds=LOOK_LOCK)
        self._connection.guard = Guard("", Patience(), watch, what="the target's catalog")
        self._control_schema = control_schema
        self._creators: dict[TableRef, Callable[[], AbstractContextManager[TableRef]]] = {}
        self.control = ControlTables(self._connection, control_schema, watch)
        self._current_facts: TargetFacts | None = None
        self._outdated: set[TableRef] = set()
        self._claimed_names = ClaimedNames()
        self._stages: dict[str, tuple[PostgresStage, CopySpec]] = {}

    @contextmanager
    def describing(self, relations: Sequence[Relation]) -> Iterator[None]:
        refs = [each for each in relations if isinstance(each, TableRef)]
        before, facts = self._current_facts, self._facts_about(refs)
        self._current_facts = facts
        self._outdated.clear()
        self._creators.clear()
        try:
            yield
        finally:
            self._current_facts = before
            self._creators.clear()
            self.control.forget_answers()
        facts.forget()  # not after an interruption: a thread may still be asking for some

    def prefetch(self, definitions: Collection[bool] = ()) -> None:
        if self._current_facts is not None:
            creates_tables = bool(definitions)
            control = self.control.questions(
                self._current_facts.refs, creates_tables=creates_tables
            )
            questions = self._current_facts.questions(creates_tables=creates_tables)
            self._connection.share_round_trips([*control, *questions])

    def expect(self, definitions: Mapping[TableRef, TableDefinition]) -> None:
        contents = {
            ref: definition.native
            for ref, definition in definitions.items()
            if definition.dialect == DIALECT
        }
        if self._current_facts is not None and contents:
            from penstock.backends.postgresql.new_tables.rehearsal import Rehearsals  # noqa: PLC0415 - seldom

            self._current_facts.derive(Rehearsals).expect(contents)

    def _facts(self, table: TableRef) -> TargetFacts:
        """Return the current set of facts."""
        facts = self._current_facts
        if facts is not None and table in facts.refs and table not in self._outdated:
            return facts
        return self._facts_about([table])

    def _facts_about(self, tables: Sequence[TableRef]) -> TargetFacts:
        return TargetFacts(self._connection, tables, self._claimed_names)

    @contextmanager
    def _described(self, table: TableRef) -> Iterator[TargetFacts]:
        """Return the current set of facts, and drop it for a table that turns out to be replaced.

        Raises:
            TableReplaced: the table is not the one that was read at first.
        """
        facts = self._facts(table)
        try:
            with facts.noticing_replacement(table):
                yield facts
        except TableReplaced:
            self._outdated.add(table)
            raise

    def close(self) -> None:
        abandon(self._connection)

    def has_indexes(self, table: TableRef) -> bool:
        """Whether a table has indexes to defer; see `WithIndexes`.

        An estimate, since some may be needed by other objects.
        """
        with translated("target"):
            exists = self._connection.value(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_index AS x WHERE x.indisvalid"
                " AND x.indrelid = pg_catalog.to_regclass(%s))",
                [name(table)],
            )
        return bool(exists)

    def schemas(self) -> tuple[str, ...]:
        return search_path(self._connection, "target")

    def schemas_beside(self, table: TableRef) -> tuple[str, ...] | None:
        """See `WithSchemas`."""
        with translated("target"):
            if self._facts(table).rights(table.schema).exists:
                return None
            # It may have been created in the meantime.
            if self._facts_about([table]).rights(table.schema).exists:
                self._outdated.add(table)
                return None
            rows = self._connection.execute(
                "SELECT n.nspname FROM pg_catalog.pg_namespace AS n"
                " WHERE n.nspname !~ '^pg_|^information_schema$' ORDER BY n.nspname"
            ).fetchall()
        return tuple(name for (name,) in rows)

    def find(self, name: str) -> TableRef | None:
        return find_by_name(self._connection, name, "target")

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        with self._described(table) as facts:
            return facts.columns(table)

    def identity(self, table: TableRef) -> str:
        with translated("target"):
            tree = self._facts(table).tree(table)
        return tree[0].identity if tree else ""

    def creates_table(self, table: TableRef, mode: Mode) -> bool:
        if mode.table is Table.RECREATED or mode not in TARGET.creating_modes:
            return mode.table is Table.RECREATED
        with translated("target"):
            if self._facts(table).tree(table):
                return False
            if find_oid(self._connection, table) is None:
                return True
        # The table has been created in the meantime, so earlier facts no longer apply.
        self._outdated.add(table)
        return False

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        check_lengths(table, columns)
        if definition.dialect != DIALECT:
            from penstock.backends.postgresql.new_tables.other_systems import (  # noqa: PLC0415 - Arrow
                created_columns,
                enum_types,
                types_for,
                types_of_columns,
                with_generated,
            )

            facts, enums = self._facts(table), enum_types(table, columns, definition, types)
            all_types = {**types_for(columns, definition.model, enums), **types}
            self._creators[table] = partial(
                types_of_columns, facts, table, columns, all_types, enums
            )
            defined = created_columns(facts, table, columns, all_types, types, enums)
            return with_generated(definition.model, defined, types)
        from penstock.backends.postgresql.new_tables.rehearsal import defined_columns, rehearse  # noqa: PLC0415 - seldom

        self._creators[table] = partial(rehearse, self._facts(table), table, definition.native)
        return defined_columns(self._facts(table), table, definition.native)

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        if any(ARROW in column.traits for column in source):
            from penstock.backends.postgresql.arrow.fitting import fit_arrow  # noqa: PLC0415

            return fit_arrow(source, target)
        return fit_columns(source, target)

    def text_types(self, columns: Sequence[Column]) -> list[pa.DataType | None]:
        from penstock.backends.postgresql.arrow.fitting import text_type  # noqa: PLC0415

        return [text_type(column) for column in columns]

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        with self._described(table) as facts:
            with planning("target", f"table {table}"):
                facts.check_server()
                rights = facts.table_rights(table)
            facts.check_loadable(table, mode)
        needed_by = f"--mode {mode}"
        if not rights.schema_usage:
            refused, grant = f"may not use schema {table.schema!r}", ident(table.schema)
            raise missing_grant(self._connection, refused, needed_by, f"USAGE ON SCHEMA {grant}")
        grants = [privileges for privileges in _privileges(mode) if privileges in rights.lacking]
        grants += [] if set(columns).isdisjoint(rights.closed) else ["INSERT"]
        if grants:
            privileges = ", ".join(sorted(grants))
            refused = f"may not {privileges} on {table} (owner {rights.owner!r})"
            raise missing_grant(
                self._connection, refused, needed_by, f"{privileges} ON {name(table)}"
            )

    def expected_columns(
        self,
        table: TableRef,
        columns: Sequence[Column],
        define: Callable[[], TableDefinition],
    ) -> tuple[Column, ...]:
        if any(ARROW in column.traits for column in columns):
            return self.defined_columns(table, define(), columns, {})
        from penstock.backends.postgresql.load.drift import describe_columns  # noqa: PLC0415 - seldom

        return describe_columns(self._connection, columns)

    def column_changes(
        self, table: TableRef, differences: PermittedDifferences
    ) -> tuple[ColumnChange, ...]:
        from penstock.backends.postgresql.load.drift import column_changes  # noqa: PLC0415 - seldom

        with self._described(table) as facts:
            return column_changes(facts, table, differences)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        with self._described(request.target) as facts:
            return with_used_up(plan_load(facts, request), request)

    def holds_rows(self, table: TableRef) -> bool:
        with planning("target", f"rows of {table}"):
            if find_oid(self._connection, table) is None:
                return False
            query = sql.SQL("SELECT FROM {} LIMIT 1").format(rows_of(table))
            with self._connection.users_path():
                return self._connection.execute(query).rowcount > 0

    def plan_night_rebuild(
        self, request: LoadRequest, merge_plan: LoadPlan, *, replaces: bool
    ) -> LoadPlan:
        from penstock.backends.postgresql.new_tables.night_rebuild import plan_night_rebuild  # noqa: PLC0415 - seldom

        with self._described(request.target) as facts:
            return plan_night_rebuild(facts, request, merge_plan, replaces=replaces)

    def plan_children(self, request: ChildRequest) -> PlannedChildren:
        from penstock.backends.postgresql.new_tables.children import plan_children  # noqa: PLC0415 - seldom

        with self._described(request.table) as facts:
            return plan_children(facts, self._control_schema, request)

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        return False  # keys of other systems are compared by bytes

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        with self._existing_or_temporary(table) as rows:
            query = sql.SQL("EXPLAIN SELECT 1 FROM {} WHERE {}").format(
                rows_of(rows), condition(where, extent)
            )
            subject = f"--mode replace: the partitions' condition on {table}"
            with planning("target", subject), self._connection.users_path():
                self._connection.execute(query)
            check_same_rows(self._connection, rows, extent)

    @contextmanager
    def _existing_or_temporary(self, table: TableRef) -> Iterator[TableRef]:
        """Return the table, or a temporary one with the planned columns if it is to be created."""
        create = self._creators.get(table)
        if create is None:
            yield table
            return
        with translated("target"):
            exists = bool(self._facts(table).tree(table))
        with nullcontext(table) if exists else create() as rows:
            yield rows

    def counts(self, tables: Sequence[TableRef]) -> dict[TableRef, int]:
        if not tables:
            return {}
        counts = [
            sql.SQL("(SELECT pg_catalog.count(*) FROM {})").format(rows_of(table))
            for table in tables
        ]
        with translated("target"), self._connection.users_path():
            row = self._connection.first(sql.SQL("SELECT {}").format(sql.SQL(", ").join(counts)))
        return dict(zip(tables, row, strict=True))

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        return read_checksum(
            self._connection,
            "target",
            rows_of(table),
            condition(where, extent),
            target_values(pairs, lambda: self.columns(table)),
        )

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        digest_others: bool,
    ) -> Mapping[str, Checksum] | None:
        return read_loaded(
            self._connection,
            table,
            where,
            records,
            target_values(pairs, lambda: self.columns(table)),
            digest_others=digest_others,
        )

    # Rows deleted from the source; see `FindsDeletedRows`

    def _stage(self, run: RunRow) -> tuple[PostgresStage, CopySpec]:
        """Return a run's stage.

        Asked once per run; the merge asks again.
        """
        if run.run_id not in self._stages:
            from penstock.backends.postgresql.new_tables.night import open_stage  # noqa: PLC0415 - seldom

            spec = CopySpec.from_stored(run.spec, "", "")
            self._stages[run.run_id] = open_stage(self._connection, spec, run.plan), spec
        return self._stages[run.run_id]

    def count_after_merge(self, run: RunRow) -> int:
        with translated("target"):
            stage, spec = self._stage(run)
            night, mark = run.plan.night, spec.deletion.column
            if night is None or night.rows is None or spec.where is not None or mark:
                rows = stage.rows_after(spec.where, run.plan.load.conflict_columns)
                return self._count(rows)
            # Counted when the night was planned, and not written by others since.
            with self._by_index(stage):
                return night.rows + self._count(stage.new_rows())

    def _count(self, rows: sql.Composable) -> int:
        query = sql.SQL("SELECT pg_catalog.count(*) FROM {}").format(rows)
        with self._connection.users_path():
            return int(self._connection.value(query))

    def ranges_after_merge(self, run: RunRow, bits: int) -> dict[int, int] | None:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        stage, spec = self._stage(run)
        first = run.plan.load.conflict_columns[0]
        if not integers_of([ColumnPair(first, first)], self.columns(spec.target_ref)):
            return None
        rows = stage.rows_after(spec.where, [first])
        with self._by_index(stage):
            return deleted_keys.read_ranges(self._connection, "target", rows, first, bits)

    @contextmanager
    def _by_index(self, stage: PostgresStage) -> Iterator[None]:
        """Look up the staged rows through the key's index, if that is cheaper."""
        if not stage.is_small(self._count(stage.rows)):
            yield
            return
        with self._connection.transaction():
            self._connection.execute(BY_INDEX)
            yield

    def buckets_after_merge(
        self, run: RunRow, bits: int, within: KeyRanges | None = None
    ) -> dict[int, Bucket]:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        stage, spec = self._stage(run)
        among = _among(run, within)
        rows = stage.rows_after(spec.where, run.plan.load.conflict_columns, among)
        # Keys that may be respelled are looked up in the stage, which has no index.
        with nullcontext() if stage.respells else self._by_index(stage):
            values = self._key_values(run)
            return deleted_keys.read_buckets(self._connection, "target", rows, values, bits)

    def target_keys(self, run: RunRow, selection: KeySelection | None) -> Iterator[KeyDigest]:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        stage, spec = self._stage(run)
        values = self._key_values(run)
        return read_rows(
            self._connection,
            "target",
            stage.target_rows(spec.where, _among(run, selection.within if selection else None)),
            deleted_keys.bucket_condition(values, selection) if selection else sql.SQL("true"),
            values,
            run.plan.load.conflict_columns,
            (),
        )

    def respelled_keys(self, run: RunRow) -> Sequence[int]:
        stage, _ = self._stage(run)
        if not stage.respells:
            return ()
        query = sql.SQL("SELECT {} FROM {}").format(
            self._key_values(run).digest(), stage.respelled_rows
        )
        with translated("target"), self._by_index(stage):
            return [int(digest) for (digest,) in self._connection.execute(query)]

    def _key_values(self, run: RunRow) -> Values:
        # In the order of the key: values that change places have different digests.
        by_target = {pair.target: pair for pair in run.plan.pairs}
        key = [by_target[name] for name in run.plan.load.conflict_columns]
        target = stored_target(run.spec)
        integers = integers_of(key, run.plan.columns)
        return key_values(as_loaded(key), integers, lambda: self.columns(target))

    def record_deleted_keys(
        self,
        run_id: str,
        digests: Sequence[int],
        check: Callable[[int], None],
        within: KeyRanges | None = None,
    ) -> bool:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom
        from penstock.backends.postgresql.new_tables.night import deleted_keys_table  # noqa: PLC0415 - seldom

        def keep(run: RunRow) -> None:
            stage, spec = self._stage(run)
            check(
                deleted_keys.keep_keys(
                    self._connection,
                    deleted_keys_table(run.plan.load.table),
                    run.plan.load.conflict_columns,
                    stage.target_rows(spec.where, _among(run, within)),
                    self._key_values(run),
                    digests,
                )
                if digests
                else 0
            )

        with translated("target"):
            return self.control.nights.record_deleted_keys(run_id, keep)

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        with planning("target", f"table {table}"):
            keys = read_unique_keys(self._connection, table)
        return next(
            (key.names for key in keys if not key.obstacle and not key.distinct_null_columns), ()
        )

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        not_loaded_by: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        return read_rows(
            self._connection,
            "target",
            rows_of(table),
            sql.SQL(" AND ").join(
                (condition(where, extent), *writer_conditions(loaded_by, not_loaded_by))
            ),
            target_values(pairs, lambda: self.columns(table)),
            key,
            only_keys,
        )
