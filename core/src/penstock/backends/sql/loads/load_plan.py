"""Where partitions are loaded, and the steps around the load."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.sql.catalog.relations import (
    check_is_table,
    read_relations,
    replacement_table,
)
from penstock.backends.sql.catalog.unique_keys import DeclaredKey, UniqueKey, choose_key
from penstock.backends.sql.definitions.definition import (
    TableExtras,
    create_steps,
    key_clause,
    omitted_of_clone,
    omitted_parts,
)
from penstock.backends.sql.definitions.foreign_keys import ForeignKeyChange
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.definitions.missing_table import check_no_changes
from penstock.backends.sql.definitions.rendering import (
    Rendered,
    Rendering,
    computed_columns,
    steps_of,
)
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.plans import SWAP_STEP, LoadPlan, Step
from penstock.model.table_model import KeyModel, TableDefinition
from penstock.model.tables import Column, TableRef
from penstock.spec.modes import MODES, Emptying, Ending, Entry, Table

SWAP = SWAP_STEP
"""The id of the step that replaces a table with another."""

_GUARDING = re.compile(r"(?:enum|set)\b|.*\bunsigned\b|u(tiny|small|big|huge)?int", re.IGNORECASE)

UnLinks = tuple[Sequence[Step], Sequence[Step]]


class TargetTables:
    """The questions of a plan about existing tables.

    Without overrides, no mode creates a table or finds rows by keys.

    Args:
        definitions: the `TableDefinition.dialect` whose types and statements are the target's own.
    """

    makes_whole = True
    """Whether a table like another system's gets the source's keys and other parts in every mode;
    otherwise only in mode recreate.
    """

    def __init__(self, definitions: str) -> None:
        self.definitions = definitions

    def own_key(self, session: Session) -> str:
        """Return a column to be the key of tables with staged rows; empty if they need no key."""
        return ""

    def unique_keys(self, session: Session, table: TableRef) -> Sequence[UniqueKey]:
        """Return the unique keys, the primary key first."""
        return ()

    def check_replaceable(
        self, session: Session, table: TableRef, option: str, recreated: Collection[TableRef] = ()
    ) -> None:
        """Raise `PlanningError` if an option needs to replace a table that cannot be replaced.

        Args:
            session: the session with the database.
            table: the table.
            option: the option that needs it, for messages.
            recreated: tables whose links to it are removed.
        """
        return

    def extras(
        self, session: Session, request: LoadRequest, columns: Sequence[Column], loaded: TableRef
    ) -> TableExtras:
        """Return the parts of the new table besides its columns.

        Args:
            session: the session with the database.
            request: a request with a definition.
            columns: the columns it is created with.
            loaded: the new table: the target's, or one that will replace it.
        """
        definition = request.definition
        assert definition is not None
        dialect = session.dialect
        same_system = definition.dialect == self.definitions
        whole = request.mode.table is Table.RECREATED or self.makes_whole
        names = {column.name for column in columns}
        keys = {
            key_clause(dialect, key): key
            for key in definition.model.keys
            if names.issuperset(key.columns) and (same_system or whole or _finds_rows(request, key))
        }
        refused = self.refused_keys(session, columns, list(keys), same_system=same_system)
        created = {clause: key for clause, key in keys.items() if clause not in refused}
        warnings = [f"{clause} is not created: {why}" for clause, why in refused.items()]
        extras = TableExtras(tuple(created), keys=tuple(created.values()), warnings=tuple(warnings))
        if self.is_native(session, definition):
            omitted = omitted_of_clone(definition, request.source, request.target, created.values())
            return replace(extras, omitted=omitted)
        listed = omitted_parts(dialect, definition, request.target, created.values())
        extras = replace(extras, omitted=tuple(listed))
        model = definition.model.only(list(names))
        kinds = self.kinds(columns)
        if not kinds:
            return replace(
                extras, omitted=(*extras.omitted, *Rendered.omit_all(model, request.target))
            )
        texts = computed_columns(model, kinds, dialect)
        rendering = Rendering(
            dialect,
            request.source,
            request.target,
            kinds,
            request.siblings,
            self.unindexed(columns),
            types={column.name: column.type for column in columns},
            guarded=[column.name for column in columns if self.guards(column)],
            computed={column.name: texts[column.name] for column in columns if column.generated},
            at_once=request.mode.table is Table.TARGET,
            bare=not whole,
            loaded=loaded,
        )
        return self.rendered_extras(session, request, extras, rendering.of(model), loaded)

    def planned_columns(
        self, definition: TableDefinition, columns: Sequence[Column], specified: Collection[str]
    ) -> Sequence[Column]:
        """Return the columns of a table like another system's, some of them computed.

        Args:
            definition: the definition of the source's table.
            columns: the columns to create.
            specified: the columns that keep a type that the user specified.
        """
        return columns

    def is_native(self, session: Session, definition: TableDefinition) -> bool:
        """Whether a definition is in the form that the target itself would produce."""
        return definition.dialect == self.definitions

    def rendered_extras(
        self,
        session: Session,
        request: LoadRequest,
        extras: TableExtras,
        rendered: Rendered,
        loaded: TableRef,
    ) -> TableExtras:
        """Return the parts of another system's table that are created, with its keys.

        Args:
            session: the session with the database.
            request: the request for the load.
            extras: the keys alone.
            rendered: the source's table in the target's dialect.
            loaded: as in `extras`.
        """
        dialect, table = session.dialect, request.target
        steps = tuple(steps_of(rendered, loaded, with_table=dialect.checks_with_table))
        with_table = [each.inline for each in rendered.checks if dialect.checks_with_table]
        own_links: list[Step] = []
        links: list[Step] = []
        for each in rendered.foreign_keys:
            change = ForeignKeyChange(table, each.name, each.definition, each.target)
            # After the checks and indexes, which it would conflict with.
            link = replace(change.step(dialect), rank=len(steps) + 1)
            (own_links if each.itself else links).append(link)
        now = list(rendered.comments)
        if request.mode.table is Table.TARGET:
            now += [step.statement for step in steps]
            steps = ()
        return replace(
            extras,
            constraints=(*extras.constraints, *with_table),
            complete=tuple(now),
            after=steps,
            late=tuple(own_links),
            links=tuple(links),
            columns=rendered.columns,
            options=" ".join(rendered.options),
            omitted=(*extras.omitted, *rendered.omitted),
            warnings=(*extras.warnings, *rendered.warnings),
        )

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        """Return what columns hold, see `expressions`.

        Empty if a table of another system is created with its keys alone.
        """
        return {}

    def guards(self, column: Column) -> bool:
        """Whether the column's type itself rejects negative numbers or unknown labels."""
        return bool(_GUARDING.match(column.type))

    def unindexed(self, columns: Sequence[Column]) -> Collection[str]:
        """Return the columns that no index may contain."""
        return ()

    def refused_keys(
        self,
        session: Session,
        columns: Sequence[Column],
        clauses: Sequence[str],
        *,
        same_system: bool,
    ) -> Mapping[str, str]:
        """Return the keys that a table with such columns cannot have, each with the reason.

        Args:
            session: the session with the database.
            columns: the columns of the table.
            clauses: the keys, as clauses of CREATE TABLE.
            same_system: whether the source is of the same system, which compares texts in the same
                way.
        """
        return {}

    def unlink_steps(
        self,
        session: Session,
        table: TableRef,
        recreated: Collection[TableRef],
        *,
        include_own: bool = False,
    ) -> UnLinks:
        """Return steps that drop foreign keys to a table, and steps that restore the others.

        Args:
            session: the session with the database.
            table: the table.
            recreated: the tables whose foreign keys they are.
            include_own: include the table's foreign keys to itself.
        """
        return (), ()

    def advance_steps(self, session: Session, request: LoadRequest) -> Sequence[Step]:
        """Return steps after which an existing table's columns continue the source's numbers.

        None if the server takes care of that.
        """
        return ()

    def deferrable_indexes(
        self, session: Session, table: TableRef
    ) -> tuple[Mapping[str, str], Sequence[str]]:
        """Return the indexes that a table can do without during the load, and the others.

        The first are definitions by name, as the catalog writes them; the others come with a
        description of what needs them.
        """
        return {}, ()

    def clone_statements(
        self, session: Session, table: TableRef, new_table: TableRef
    ) -> tuple[str, list[str]]:
        """Return a statement that creates an empty table like another one.

        Also returns the statements for parts whose names cannot exist twice, to run after the
        exchange.

        Args:
            session: the session with the database.
            table: the table.
            new_table: the name of the new table.
        """
        raise NotImplementedError  # there is no mode swap


def _finds_rows(request: LoadRequest, key: KeyModel) -> bool:
    """Whether a mode that finds rows by a key needs this one."""
    if request.mode.entry is not Entry.BY_KEY:
        return False
    if request.conflict_columns is not None:
        return set(key.columns) == set(request.conflict_columns)
    return key.primary or not any(each.primary for each in _keys(request))


def _keys(request: LoadRequest) -> Sequence[KeyModel]:
    return request.definition.model.keys if request.definition is not None else ()


def plan_load(
    session: Session,
    tables: TargetTables,
    request: LoadRequest,
    columns: Sequence[Column],
    schema: str,
) -> LoadPlan:
    """Plan the load of one table.

    Args:
        session: the session with the database.
        tables: the backend's part of planning a load.
        request: the request for the load.
        columns: the target's columns, existing or to be created.
        schema: as in `LoadPlan`.

    Raises:
        PlanningError: see `TargetCatalog.plan_load`.
    """
    dialect = session.dialect
    if request.mode.ending is Ending.MERGE:
        from penstock.backends.sql.loads.night_plan import SqlStageSteps, plan_night  # noqa: PLC0415 - seldom

        plain = replace(request, mode=MODES[request.mode.name], changes=())
        plan = plan_load(session, tables, plain, columns, schema)
        own_key = tables.own_key(session)
        return plan_night(SqlStageSteps(dialect, request, plan.table, own_key), plan)
    target_exists = request.target in read_relations(session)
    extras = TableExtras()
    warnings: list[str] = []
    links: Sequence[Step] = ()
    steps: list[Step] = []
    table = request.target
    # A table that does not exist is created in place: renaming many takes time.
    recreates = request.mode.table is Table.RECREATED and target_exists
    replaces = recreates and not request.schema_only
    if replaces or request.mode.table is Table.BESIDE:
        table = replacement_table(request.run_id, request.target, dialect.longest_name)
    if request.definition is not None:
        if request.mode.table is Table.TARGET:
            check_no_changes(request)
        recreated = request.siblings.recreated
        if recreates:
            tables.check_replaceable(session, request.target, "--mode recreate", recreated)
        extras = tables.extras(session, request, columns, table)
        if request.deletes.column:
            mark = f"{dialect.ident(request.deletes.column)} {dialect.types['timestamptz']}"
            extras = replace(extras, constraints=(mark, *extras.constraints))
        warnings += extras.warnings
        unlinked, links = tables.unlink_steps(session, request.target, recreated)
        created = create_steps(
            dialect,
            table,
            columns,
            extras,
            fresh=request.mode.table is not Table.TARGET,
            beside=request.target if replaces else None,
        )
        if replaces:
            steps += [*created, *_replacing(dialect, request.target, table, extras, unlinked)]
        else:
            steps += [*unlinked, *created, *extras.after, *extras.late]
    else:
        if request.changes:
            steps += changed_columns(request)
        steps += tables.advance_steps(session, request)
    if request.siblings.filled:
        unlinked, links = tables.unlink_steps(
            session, request.target, request.siblings.filled, include_own=True
        )
        steps += unlinked
    if request.mode.emptying is Emptying.TRUNCATE:
        steps.append(Step("truncate", f"truncate {table}", dialect.empty_statement(table)))
    # On an empty table; TRUNCATE may re-enable what was disabled.
    if request.indexes == "defer" and request.mode.table is Table.TARGET:
        steps += _defer(session, tables, table, warnings)
    if request.mode.table is Table.BESIDE:
        steps += _swap(session, tables, request.target, table, exists=target_exists)
    key: tuple[str, ...] = ()
    if request.mode.entry is Entry.BY_KEY:
        keys: Sequence[UniqueKey] = [DeclaredKey(key.columns, key.primary) for key in extras.keys]
        if request.definition is None:
            keys = tables.unique_keys(session, request.target)
        key = choose_key(request, keys, "primary key or unique constraint of {}").names
    return LoadPlan(
        table,
        tuple(steps),
        conflict_columns=key,
        warnings=tuple(warnings),
        not_copied=extras.omitted,
        links=(*extras.links, *links),
        schema=schema,
    )


def _replacing(
    dialect: CatalogDialect,
    ref: TableRef,
    new: TableRef,
    extras: TableExtras,
    unlinked: Sequence[Step],
) -> list[Step]:
    """Return the steps that complete a table and put it in the place of an existing one.

    The old table keeps everything until it is replaced, also foreign keys that lead to it.
    """
    steps = list(extras.after)
    for step in unlinked:
        steps.append(replace(step, after=True, rank=_next_rank(steps), urgent=True))
    exchange = dialect.exchange_statements(ref, new)
    steps.append(_swap_step(ref, new, exchange, _next_rank(steps)))
    first = min((step.rank for step in extras.late), default=0)
    shift = _next_rank(steps) - first
    return [*steps, *(replace(step, rank=step.rank + shift) for step in extras.late)]


def _next_rank(steps: Sequence[Step]) -> int:
    return max((step.rank + 1 for step in steps), default=0)


def _swap_step(ref: TableRef, new: TableRef, statements: Sequence[str], rank: int) -> Step:
    script = ";\n".join(statements)
    return Step(SWAP, f"swap {new} for {ref}", script, after=True, rank=rank, urgent=True)


def changed_columns(request: LoadRequest) -> list[Step]:
    """Return the steps that alter columns before the load.

    Raises:
        PlanningError: the rows are loaded into a separate table.
    """
    from penstock.backends.sql.definitions.column_changes import change_step  # noqa: PLC0415 - seldom

    if request.mode.table is Table.BESIDE:
        raise PlanningError(
            f"--on-drift: --mode {request.mode} creates a table like {request.target} as it is; "
            "use --mode recreate, or alter the table first: "
            + "; ".join(each.statement for each in request.changes)
        )
    return [change_step(request.target, each) for each in request.changes]


def _defer(
    session: Session, tables: TargetTables, table: TableRef, warnings: list[str]
) -> list[Step]:
    check_is_table(session, table, "--indexes defer")
    deferred, needed = tables.deferrable_indexes(session, table)
    if needed:
        warnings.append(f"indexes that are needed are kept: {'; '.join(needed)}")
    if not deferred:
        return []
    changes = (IndexChange(table, deferred, makes) for makes in (False, True))
    return [change.step(session.dialect) for change in changes]


def _swap(
    session: Session, tables: TargetTables, ref: TableRef, new: TableRef, *, exists: bool
) -> list[Step]:
    """Return the steps that build a table next to an existing target, and exchange the two."""
    dialect = session.dialect
    statements = [dialect.rename_statement(new, ref.name)]
    steps = []
    if exists:
        tables.check_replaceable(session, ref, "--mode swap")
        create, after = tables.clone_statements(session, ref, new)
        create = f"DROP TABLE IF EXISTS {dialect.table(new)};\n{create}"
        deferred, _ = tables.deferrable_indexes(session, ref)
        change = IndexChange(new, deferred, creates=True)
        if deferred:
            create += f";\n{replace(change, creates=False).statement(dialect)}"
        steps.append(Step("create", f"create {new} beside {ref}", create))
        if deferred:
            steps.append(change.step(dialect))
        statements = [*dialect.exchange_statements(ref, new), *after]
    return [*steps, _swap_step(ref, new, statements, 1)]
