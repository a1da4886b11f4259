"""A missing table, created like the source's by a mode that loads existing tables.

Several runs may find the table missing at the same time, such as those of two days. One of them
creates it completely, in the transaction that prepares the run. The others wait, and then check
that the table has what they were planned for. Nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.ddl import completion, indexes, steps, tables
from penstock.backends.postgresql.ddl.attachments import omitted_objects
from penstock.backends.postgresql.ddl.foreign_keys import FOREIGN_KEYS
from penstock.backends.postgresql.ddl.links import Links, links_of
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.ddl.types import create_type
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.conflict_key import conflict_columns
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.new_tables.naming import (
    names_for,
    rename_statements,
    temporary_names,
)
from penstock.backends.postgresql.new_tables.new_table import NewTable
from penstock.backends.postgresql.new_tables.recreate import other_owners
from penstock.backends.postgresql.new_tables.rehearsal import NEEDS, Rehearsals, rehearse
from penstock.backends.postgresql.session.statements import ident, literal, name, statement
from penstock.backends.sql.definitions.definition import KINDS
from penstock.backends.sql.definitions.missing_table import check_no_changes
from penstock.model.plans import LoadPlan
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import Content, TablePart


def plan_missing(
    facts: TargetFacts,
    request: LoadRequest,
    content: Content,
    omitted_before: Sequence[NotCopied] = (),
    more: Sequence[str] = (),
) -> LoadPlan:
    """Plan the load of a table that is created first.

    Args:
        facts: the facts about the target.
        request: the request.
        content: the parts of the definition to create.
        omitted_before: what the source's table has but the definition leaves out.
        more: statements that complete the table.

    Raises:
        PlanningError: the table cannot be created, or a privilege is missing.
    """
    check_no_changes(request)
    connection, ref = facts.connection, request.target
    definitions: Sequence[TablePart] = content["tables"]
    (table,) = definitions
    warnings = list(content["warnings"])
    with planning("target", f"{NEEDS}: {ref}"):
        missing = facts.derive(Rehearsals).missing(ref, content)
        with rehearse(facts, ref, content) as rehearsal:
            key, remarks = conflict_columns(facts, request, rehearsal)
            parts = connection.execute(_parts(rehearsal)).fetchall()
        names = names_for(facts, ref, definitions, [], warnings)
        links = links_of(definitions, names, request.siblings.held_together)
        new = NewTable(facts, request, definitions, missing, names)
        schemas = new.schema_steps()
    make = steps.before(
        "make",
        f"create {ref} if it does not exist",
        *map(create_type, missing),
        *new.creation(table),
        *(step.statement for step in indexes.build_steps(definitions, names, tablespaces=False)),
        *tables.create_statistics(table, names),
        *more,
    )
    advance = new.advance_steps()
    expected = [part for (part,) in parts if key or not part.startswith("UNIQUE (")]
    check = _check(ref, expected, names if advance else None)
    before = [
        *schemas,
        replace(make, done=completion.relation_exists(ref)),
        steps.before("check", f"check that {ref} is as planned", check),
        *steps.emptying(request.mode.emptying, ref),
    ]
    return LoadPlan(
        ref,
        (*before, *advance),
        conflict_columns=key,
        volatile=table["persistence"] == "u",
        warnings=(*warnings, *remarks),
        not_copied=(
            *omitted_before,
            *_not_created(table, names, links),
            *other_owners(connection, definitions, names),
        ),
        links=tuple(links.to_others),
    )


def plan_under_temporary_name(
    facts: TargetFacts, request: LoadRequest, content: Content
) -> LoadPlan:
    """Plan a table that is created and loaded under a temporary name.

    It gets its own name after all other steps, so that no session sees it before.

    Args:
        facts: the facts about the target.
        request: the request.
        content: as for `plan_recreate`.

    Raises:
        PlanningError: the table cannot be created, or a privilege is missing.
    """
    check_no_changes(request)
    ref = request.target
    definitions: Sequence[TablePart] = content["tables"]
    (table,) = definitions
    warnings = list(content["warnings"])
    with planning("target", f"{NEEDS}: {ref}"):
        missing = facts.derive(Rehearsals).missing(ref, content)
        names = names_for(facts, ref, definitions, [], warnings)
        links = links_of(definitions, names, request.siblings.held_together)
    made = temporary_names(request.run_id, names, definitions)
    new = NewTable(facts, request, definitions, missing, names, made)
    column = request.deletes.column
    mark = f"ALTER TABLE {name(new.table)} ADD COLUMN {ident(column)} timestamptz"
    after = [*new.advance_steps(), *new.completion_steps(unchecked=False)]
    renames = rename_statements(definitions, made, names)
    renamed = new.swap_step(after, _check_free(ref), *renames, replaces=False)
    return LoadPlan(
        new.table,
        (*new.create_steps(*([mark] if column else ())), *after, renamed),
        volatile=new.is_volatile,
        warnings=tuple(warnings),
        not_copied=tuple(_not_created(table, names, links)),
        links=tuple(links.to_others),
    )


def _check_free(ref: TableRef) -> str:
    """Return a query that fails if the table was created in the meantime."""
    message = (
        f"target: {ref} was created by another session after the run was planned: expected no "
        "table with that name; start a new run"
    )
    body = (
        f"BEGIN IF pg_catalog.to_regclass({literal(name(ref))}) IS NOT NULL THEN"
        f" RAISE EXCEPTION USING MESSAGE = {literal(message)}; END IF; END"
    )
    return f"DO {literal(body)}"


def _parts(ref: TableRef) -> sql.Composed:
    return statement("table_parts").format(table=sql.Literal(name(ref)))


def _check(ref: TableRef, expected: Sequence[str], names: Names | None) -> str:
    """Return a query that fails if a different table was created in the meantime.

    Args:
        ref: the table.
        expected: the parts it must have; see `table_parts.sql`.
        names: the sequences to be advanced.
    """
    sequences = sorted({name(each) for each in names.sequences.values()} if names else ())
    message = (
        f"target: {ref} was created by another session after the run was planned: expected a table "
        "with %s, found one without; start a new run"
    )
    body = (
        "DECLARE missing text; BEGIN SELECT pg_catalog.string_agg(w.part, ', ') INTO missing FROM ("
        f" SELECT w.part FROM unnest({_array(expected)}) AS w (part)"
        f" EXCEPT ({_parts(ref).as_string(None)})"
        f" UNION ALL SELECT 'sequence ' || s.name FROM unnest({_array(sequences)}) AS s (name)"
        " WHERE pg_catalog.to_regclass(s.name) IS NULL) AS w (part);"
        " IF missing IS NOT NULL THEN RAISE EXCEPTION USING MESSAGE ="
        f" pg_catalog.replace({literal(message)}, '%s', missing); END IF; END"
    )
    return f"DO {literal(body)}"


def _array(texts: Sequence[str]) -> str:
    return f"ARRAY[{', '.join(map(literal, texts))}]::text[]"


def _not_created(table: TablePart, names: Names, links: Links) -> Iterator[NotCopied]:
    """Yield what is not created.

    These are constraints that could reject rows before others arrive, and objects that are not part
    of a table.

    Args:
        table: the table.
        names: the names in the target.
        links: its links to tables that are always merged together with it.
    """
    ref = names.table(table)
    yield from links.omitted
    for step in links.to_itself:
        if step.instead is not None and step.rank == steps.REFER:
            yield step.instead
    for constraint in table["constraints"]:
        if tables.is_unchecked(constraint):
            (added, *_) = tables.unchecked_constraints(
                {**table, "constraints": [constraint]}, names
            )
            yield NotCopied(KINDS["CHECK"], constraint["name"], f"{added};", str(ref))
    yield from omitted_objects([table], names.table, excluded_kind=FOREIGN_KEYS)
