"""A table like another SQL Server table: identity, defaults, checks, keys, indexes and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.mssql.catalog.native_parts import NativeIndex, NativeParts
from penstock.backends.mssql.catalog.tables import last_numbers
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import planning
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.sql.definitions.definition import KINDS, TableExtras, listed_columns
from penstock.errors import PlanningError
from penstock.model.plans import Step
from penstock.model.table_model import CheckModel, ColumnModel, TableModel
from penstock.model.tables import Column, NotCopied, SequencePosition, TableRef
from penstock.spec.modes import Table

LONGEST_NAME = 128
IDENTITY = "identity"
"""The id of the step that continues the source's numbers."""
NameClause = Callable[[str], str]
"""CONSTRAINT and a name, or nothing."""


def no_clause(name: str) -> str:
    """Return nothing: the constraint gets a name from the server."""
    return ""


def column_text(
    column: ColumnModel, native: NativeParts, name_clause: NameClause = no_clause
) -> str:
    """Return what follows a column's name, without NOT NULL.

    Args:
        column: the column.
        native: the parts of its table that the model cannot hold.
        name_clause: returns the clause that names a default.
    """
    words = [column.native]
    if column.identity is not None:
        words.append(MSSQL.numbering_clause(column.identity.first, column.identity.step))
    if column.default is not None:
        name = native.defaults.get(column.name, "")
        words.append(f"{name_clause(name)}DEFAULT {column.default.text}")
    return " ".join(words)


def check_text(check: CheckModel, name_clause: NameClause = no_clause) -> str:
    """Return the clause for a check."""
    return f"{name_clause(check.name)}CHECK {check.test.text}"


def key_text(index: NativeIndex, name_clause: NameClause = no_clause) -> str:
    """Return the clause for a key."""
    name = name_clause(index.name if index.called else "")
    return f"{name}{index.constraint} {index.kind} {index.columns}"


def index_statement(index: NativeIndex, table: TableRef) -> str:
    """Return the statement that creates an index on a table."""
    definition = f"{'UNIQUE ' * index.unique}{index.kind} INDEX {MSSQL.ident(index.name)}"
    return f"CREATE {definition} ON {MSSQL.table(table)} {index.columns}"


def check_statement(check: CheckModel, table: TableRef, name_clause: NameClause) -> str:
    """Return the statement for a check that is not enforced, or not met by all rows.

    Args:
        check: the check.
        table: the table to add it to.
        name_clause: returns the clause that names the check.
    """
    alter = f"ALTER TABLE {MSSQL.table(table)}"
    statement = f"{alter} WITH NOCHECK ADD {check_text(check, name_clause)}"
    return (
        statement
        if check.enforced
        else f"{statement};\n{alter} NOCHECK {name_clause(check.name).strip()}"
    )


def with_name(check: CheckModel, table: TableRef) -> CheckModel:
    """Return a check with a name derived from its table, so that it can be referred to."""
    return replace(check, name=f"{table.name}_{check.name or 'check'}"[:LONGEST_NAME])


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the new table besides the loaded columns."""

    omitted: NotCopied
    """The entry that replaces it if it is not created."""
    text: str
    """A clause or a statement."""
    trial_text: str
    """The text tried on a temporary table, without names that other tables may have."""
    is_late: bool = False
    """Whether it is a statement to execute after the load."""
    is_check: bool = False
    unique: tuple[str, ...] = ()
    """The columns of a key or unique index."""
    index: NativeIndex | None = None
    """The index that the statement creates."""

    def statement(self, table: TableRef) -> str:
        """Return the statement, for a table of another name."""
        return self.text if self.index is None else index_statement(self.index, table)


def clone_parts(
    session: MssqlSession,
    request: LoadRequest,
    native: NativeParts,
    columns: Sequence[Column],
    loaded: TableRef,
) -> TableExtras:
    """Return the parts of a table like another one.

    Args:
        session: a session with the target.
        request: the load.
        native: the parts of the source's table.
        columns: the columns of the target's table.
        loaded: the new table: the target's, or one that will replace it.
    """
    assert request.definition is not None
    model, table = request.definition.model, request.target
    rehearsal = rehearsal_table(session, table)
    omitted = [
        NotCopied("indexes", f"{index.name} ({index.obstacle})")
        for index in native.indexes
        if index.obstacle
    ]
    name_clause = free_name_clause(session, table)
    parts = list(_parts(model, native, table, rehearsal, name_clause))
    without_names = {
        column_text(each, native, name_clause): column_text(each, native) for each in model.columns
    }
    refused = refused_texts(
        session,
        rehearsal,
        [replace(column, type=without_names.get(column.type, column.type)) for column in columns],
        [(part.trial_text, part.is_late) for part in parts],
    )
    accepted = [part for part in parts if part.trial_text not in refused]
    omitted += [part.omitted for part in parts if part.trial_text in refused]
    late = [part for part in accepted if part.is_late]
    complete: list[str] = []
    if request.mode.table is Table.TARGET:
        complete = [part.text for part in late if not part.is_check]
        # Not all rows meet them.
        omitted += [replace(part.omitted, remedy=f"{part.text};") for part in late if part.is_check]
        late = []
    steps: list[Step] = []
    checks: list[Step] = []
    for rank, part in enumerate(late):
        # The name of a check is unique in a schema, so it waits for the table's final name.
        on, into = (table, checks) if part.is_check else (loaded, steps)
        name = f"create {part.omitted.name} of {on}"
        into.append(Step(f"make {rank}", name, part.statement(on), True, rank))
    identities = [column.name for column in model.columns if column.identity is not None]
    return TableExtras(
        tuple(part.text for part in accepted if not part.is_late),
        complete=tuple(complete),
        keys=tuple(
            key
            for key in request.definition.model.keys
            if any(set(part.unique) == set(key.columns) for part in accepted)
        ),
        after=(*steps, *identity_steps(request, identities)),
        late=tuple(checks),
        omitted=tuple(replace(item, table=str(table)) for item in omitted),
        warnings=tuple(
            f"{part.text} will not be created: {refused[part.trial_text]}"
            for part in parts
            if part.trial_text in refused
        ),
    )


def _parts(
    model: TableModel,
    native: NativeParts,
    table: TableRef,
    rehearsal: TableRef,
    name_clause: NameClause,
) -> Iterator[_Part]:
    for check in model.checks:
        late = check.test.text in native.distrusted or not check.enforced
        named_check = replace(check, name=check.name if name_clause(check.name) else "")
        if not check.enforced and not named_check.name:
            named_check = with_name(check, table)
        own_clause = constraint_clause if named_check.name else no_clause
        text = (
            check_statement(named_check, table, own_clause)
            if late
            else check_text(named_check, own_clause)
        )
        trial_text = check_text(check)
        if late:
            trial_text = f"ALTER TABLE {MSSQL.table(rehearsal)} ADD {trial_text}"
        omitted = NotCopied(KINDS["CHECK"], check.name or check.test.text)
        yield _Part(omitted, text, trial_text, late, is_check=True)
    for index in native.indexes:
        if index.obstacle:
            continue
        if index.constraint:
            omitted = NotCopied(KINDS[index.constraint], index.name)
            yield _Part(omitted, key_text(index, name_clause), key_text(index), unique=index.keys)
    # The clustered index first, since the others refer to it.
    for index in sorted(native.indexes, key=lambda each: each.kind != "CLUSTERED"):
        if not (index.obstacle or index.constraint):
            text = index_statement(index, table)
            omitted = NotCopied("indexes", index.name, f"{text};")
            trial_text, unique = index_statement(index, rehearsal), index.keys * index.unique
            yield _Part(omitted, text, trial_text, is_late=True, unique=unique, index=index)


def constraint_clause(name: str) -> str:
    """Return the clause that names a constraint."""
    return f"CONSTRAINT {MSSQL.ident(name)} "


def free_name_clause(session: MssqlSession, table: TableRef) -> NameClause:
    """Return names that no constraint of another table has: they are unique in a schema."""
    rows = session.fetch(
        # In Babelfish only unique keys have such names.
        "SELECT o.name FROM (SELECT name, schema_id, parent_object_id FROM sys.objects UNION"
        " SELECT name, schema_id, parent_object_id FROM sys.key_constraints) AS o"
        " JOIN sys.schemas AS s ON s.schema_id = o.schema_id"
        " WHERE s.name = ? AND COALESCE(OBJECT_NAME(o.parent_object_id), '') <> ?",
        f"table {table}",
        [table.schema, table.name],
    )
    names = {name for (name,) in rows}
    return lambda name: constraint_clause(name) if name and name not in names else ""


# What the server accepts


def rehearsal_table(session: MssqlSession, table: TableRef) -> TableRef:
    """Return the name of a table on which clauses and statements are tried, then rolled back."""
    rows = session.fetch("SELECT SCHEMA_ID(?)", f"schema {table.schema}", [table.schema])
    schema = table.schema if rows[0][0] is not None else session.search_path()[0]
    return TableRef(schema, f"{table.name}~rehearsal"[-LONGEST_NAME:])


def refused_texts(
    session: MssqlSession,
    table: TableRef,
    columns: Sequence[Column],
    texts: Sequence[tuple[str, bool]],
) -> Mapping[str, str]:
    """Return clauses and statements that the server rejects, with its messages.

    Args:
        session: a session with the target.
        table: the table of `rehearsal_table`.
        columns: the columns of that table.
        texts: each with whether it is a statement.

    Raises:
        PlanningError: the server rejects even the table without them.
    """
    accepted: list[tuple[str, bool]] = []
    if not _obstacle(session, table, columns, texts):
        return {}
    if why := _obstacle(session, table, columns, accepted):
        raise PlanningError(
            f"target: {why}; specify another type with --types, which also drops the default, or "
            "leave the column out with --columns"
        )
    refused = {}
    for each in texts:
        if why := _obstacle(session, table, columns, [*accepted, each]):
            refused[each[0]] = why
        else:
            accepted.append(each)
    return refused


def _obstacle(
    session: MssqlSession,
    table: TableRef,
    columns: Sequence[Column],
    texts: Sequence[tuple[str, bool]],
) -> str:
    clauses = [text for text, late in texts if not late]
    body = ", ".join([*listed_columns(MSSQL, columns), *clauses])
    try:
        with planning("target", "the new table"), session.trial_transaction():
            session.run(f"CREATE TABLE {MSSQL.table(table)} ({body})")
            for text, late in texts:
                if late:
                    session.run(text)
    except PlanningError as error:
        return error.message.removeprefix("target: ")
    return ""


# The next number


def identity_steps(request: LoadRequest, names: Sequence[str]) -> list[Step]:
    """Return the steps that set the next numbers.

    Args:
        request: the load.
        names: the columns that the server numbers.
    """
    sources = {pair.target: pair.source for pair in request.pairs}
    table = request.target
    statement = f"DBCC CHECKIDENT ({_quoted(table)}, RESEED)"
    return [
        # Not at the same time as others, which keep a lock that it would wait for.
        Step(
            IDENTITY,
            f"set the next number of {name} in {table}",
            statement,
            after=True,
            rank=-1,
            sequence_of=sources[name],
        )
        for name in names
        if sources.get(name) in (request.sequence_positions or ())
    ]


def set_identity(session: MssqlSession, table: TableRef, position: SequencePosition | None) -> None:
    """Continue a table's numbers where the source's would.

    The next number is never one that a row may already have.

    Args:
        session: a session with the target.
        table: the table that is numbered.
        position: the source's last number; None if it has none.
    """
    numbers = last_numbers(session, table)
    if position is None or numbers is None:
        return
    _, _, step, last = numbers
    used = position.last if position.called else position.last - step
    if last is None:
        # This sets the next number itself.
        used += step
    elif (used - last) * step <= 0:
        return
    session.run(f"DBCC CHECKIDENT ({_quoted(table)}, RESEED, {used}) WITH NO_INFOMSGS")


def _quoted(table: TableRef) -> str:
    text = MSSQL.literal(MSSQL.table(table))
    # Babelfish treats the N as part of the name.
    return text.removeprefix("N") if text.isascii() else text
