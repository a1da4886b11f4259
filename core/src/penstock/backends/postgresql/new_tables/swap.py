"""Mode swap: build a table next to the target, and exchange the two in one short transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.catalog.existing_tables import shape_of
from penstock.backends.postgresql.catalog.privileges import check_owned, missing_grant
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import attachments, completion, indexes, steps, tables
from penstock.backends.postgresql.ddl.foreign_keys import foreign_key_steps
from penstock.backends.postgresql.ddl.text import Names, comment, temporary_name
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.sequences import advance_existing
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.new_tables.naming import rename_statements, temporary_names
from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart

NEEDS = "--mode swap"


def plan_swap(facts: TargetFacts, request: LoadRequest) -> LoadPlan:
    """Plan the exchange of a table.

    Raises:
        PlanningError: the target cannot be exchanged, something depends on it, or a privilege is
            missing.
    """
    ref = request.target
    connection = facts.connection
    with planning("target", f"{NEEDS}: {ref}"):
        _check(facts, ref)
        # Read before the definition: a later change by others is then detected at the exchange.
        shape = facts.shape(ref)
        table = facts.definition(ref)
        _check_parts(connection, ref, table)
        default_grantees = facts.granted_by_default(ref.schema)
        # The old table's sequences, which the new table takes over with their values at that time.
        new = TableRef(ref.schema, temporary_name(request.run_id, ref.name))
        advanced, refused = advance_existing(facts, request, new)
    own_names = _own_names(table, ref)
    names = temporary_names(request.run_id, own_names, [table])
    version = connection.info.server_version
    persistence = "u" if request.unlogged else table["persistence"]
    create = tables.create_table(
        table, names, persistence=persistence, version=version, tablespace=True
    )
    if table["owner"] != connection.info.user:
        create.append(f"ALTER TABLE {name(new)} OWNER TO {ident(table['owner'])}")
    if persistence == "u" and version >= 150000 and table["persistence"] == "p":
        create += [
            f"ALTER SEQUENCE {name(sequence)} SET LOGGED" for sequence in names.sequences.values()
        ]
    planned = [
        steps.before("drop", f"drop {new} if it exists", f"DROP TABLE IF EXISTS {name(new)}"),
        steps.before("create", f"create {new}, to become {ref}", *create),
    ]
    if persistence != table["persistence"]:
        planned.append(steps.set_logged(new, table["oid"]))
    planned += indexes.build_steps([table], names, tablespaces=True)
    planned += _complete(table, names, new, default_grantees, version)
    planned += advanced
    exchange = _exchange(table, names, own_names, ref, shape)
    what = f"swap {new} for {ref}"
    planned.append(steps.after(steps.SWAP, what, steps.LAST, *exchange, urgent=True))
    _, broken = indexes.usable_indexes([table])
    warnings = [f"invalid indexes are not created: {', '.join(broken)}"] if broken else []
    return LoadPlan(
        new, tuple(planned), volatile=persistence == "u", warnings=(*warnings, *refused)
    )


def _check(facts: TargetFacts, ref: TableRef) -> None:
    facts.check_server()
    tree = facts.tree(ref)
    if not tree or tree[0].kind != "r":
        kind = existing_tables.kind_name(tree[0]) if tree else "none"
        raise PlanningError(
            f"{NEEDS}: expected {ref} to be a table that is not partitioned, found {kind}"
        )
    if tree[0].partition or tree[0].inherits or tree[0].hypertable:
        raise PlanningError(
            f"{NEEDS}: expected {ref} to be a table without inheritance, found one that is a "
            "partition, inherits, or is inherited from"
        )
    check_owned(facts.connection, tree, NEEDS)
    facts.creatable(ref.schema, NEEDS)
    # The sequences of serial columns are kept by the new table.
    dependents = existing_tables.listed_dependents(facts.dependents(ref, sequences="i"))
    if dependents:
        raise PlanningError(
            f"{NEEDS}: other objects depend on {ref}, and would stay with the old table: "
            f"{'; '.join(dependents)}; drop them, or use --mode truncate, which keeps "
            "the table"
        )


def _check_parts(connection: Connection, ref: TableRef, table: TablePart) -> None:
    hanging = table["attached"]
    if hanging["rules"]:
        raise PlanningError(
            f"{NEEDS}: {ref} has rules, which cannot be carried over: "
            f"{', '.join(rule['name'] for rule in hanging['rules'])}; use --mode truncate"
        )
    if table["typed"]:
        raise PlanningError(
            f"{NEEDS}: {ref} is a typed table (OF a composite type); use --mode truncate"
        )
    for publication in hanging["publications"]:
        if not publication["mine"]:
            missing = f"does not own publication {publication['name']!r} of {ref}"
            raise missing_grant(connection, missing, NEEDS, ident(publication["owner"]))
    owner = table["owner"]
    may_own = owner == connection.info.user or connection.value(
        "SELECT pg_catalog.current_setting('is_superuser') = 'on'"
        " OR pg_catalog.has_schema_privilege(%s, %s, 'CREATE')",
        [owner, ref.schema],
    )
    if not may_own:
        raise PlanningError(
            f"{NEEDS}: {owner!r}, who owns {ref}, may not create tables in schema {ref.schema!r}, "
            f"and so cannot own the new one; run GRANT CREATE ON SCHEMA {ident(ref.schema)} TO "
            f"{ident(owner)}"
        )


def _own_names(table: TablePart, ref: TableRef) -> Names:
    """Return the names of the table and of its objects, except sequences that it keeps."""
    usable, _ = indexes.usable_indexes([table])
    return Names(
        {table["oid"]: ref},
        {oid: index["name"] for oid, index in usable.items()},
        {
            (s["schema"], s["name"]): TableRef(ref.schema, s["name"])
            for s in table["sequences"]
            if s["identity"]
        },
        {(s["schema"], s["name"]): TableRef(s["schema"], s["name"]) for s in table["statistics"]},
    )


def _complete(
    table: TablePart, names: Names, new: TableRef, default_grantees: Sequence[str], version: int
) -> list[Step]:
    statements = [
        *tables.unchecked_constraints(table, names),
        *tables.create_statistics(table, names),
        *tables.comments(table, names, version),
        *attachments.policies(table, new),
        *attachments.grants(table, new, default_grantees),
    ]
    planned = []
    if statements:
        what = f"create comments, statistics, policies and grants of {new}"
        done = completion.is_complete(table, names, policies=True)
        planned.append(steps.after("complete", what, steps.COMPLETE, *statements, done=done))
    for constraint in table["constraints"]:
        if constraint["kind"] == "f":
            planned += foreign_key_steps(table, constraint, new, None)
    return planned


def _shape(ref: TableRef) -> sql.Composed:
    return shape_of(sql.Literal(name(ref)))


def _exchange(
    table: TablePart, names: Names, own_names: Names, ref: TableRef, shape: str
) -> list[str]:
    """Return one transaction that gives the new table and its own objects the old table's names."""
    new = names.table(table)
    changed = (
        f"{ref} was altered after the run was planned, so the new table lacks the change; start a "
        "new run"
    )
    check = (
        f"BEGIN IF ({_shape(ref).as_string(None)}) IS DISTINCT FROM {literal(shape)} THEN "
        f"RAISE EXCEPTION USING MESSAGE = {literal(changed)}; END IF; END"
    )
    statements = [
        f"LOCK TABLE ONLY {name(ref)}, {name(new)} IN ACCESS EXCLUSIVE MODE",
        f"DO {literal(check)}",
    ]
    for sequence in table["sequences"]:
        old = ident(sequence["schema"], sequence["name"])
        new_sequence = names.sequences.get((sequence["schema"], sequence["name"]))
        if new_sequence is None:
            statements.append(
                f"ALTER SEQUENCE {old} OWNED BY {name(new)}.{ident(sequence['column'])}"
            )
            continue
        statements.append(
            f"SELECT pg_catalog.setval({literal(name(new_sequence))}, s.last_value, s.is_called) "
            f"FROM {old} AS s"
        )
        statements += comment("SEQUENCE", name(new_sequence), sequence["comment"])
    statements.append(f"DROP TABLE {name(ref)}")
    statements += rename_statements([table], names, own_names)
    statements += attachments.triggers(table)
    statements += attachments.publications(table)
    return statements
