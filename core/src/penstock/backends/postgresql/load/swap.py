"""Mode swap: a table is built beside the target, and takes its place in one short transaction."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog import definition, sequences
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load import ddl, done, existing, indexes
from penstock.backends.postgresql.load.ddl import Json, Names, ident, name, script
from penstock.backends.postgresql.statements import statement
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import TableRef

NEEDS = "--mode swap"
# The id of the step that renames.
SWAP = "swap"


def plan_swap(connection: Connection, request: LoadRequest) -> LoadPlan:
    """
    Raises:
        PlanningError: the target is none that can be swapped, something depends on it, or a
            privilege is missing.
    """
    ref = request.target
    with planning("target", f"{NEEDS}: {ref}"):
        _check(connection, ref)
        with definition.full_names(connection):
            oid = definition.table_oid(connection, ref, "target")
            table = definition.read_table(connection, oid)
            shape = definition.one(connection, _shape(ref))
        _check_parts(connection, ref, table)
        others = _granted_by_default(connection, ref.schema)
        # Those of the old table, which the new one takes over as they are then.
        new = TableRef(ref.schema, ddl.beside(request.run_id, ref.name))
        advanced, refused = sequences.advance_existing(connection, request, new)
    names = _names(request.run_id, table, new)
    version = connection.info.server_version
    persistence = "u" if request.unlogged else table["persistence"]
    create = ddl.create_table(
        table, names, persistence=persistence, version=version, tablespace=True
    )
    if table["owner"] != connection.info.user:
        create.append(f"ALTER TABLE {name(new)} OWNER TO {ident(table['owner'])}")
    if persistence == "u" and version >= 150000 and table["persistence"] == "p":
        create += [f"ALTER SEQUENCE {name(made)} SET LOGGED" for made in names.sequences.values()]
    steps = [
        Step("drop", f"drop what is left of {new}", script([f"DROP TABLE IF EXISTS {name(new)}"])),
        Step("create", f"create {new} beside {ref}", script(create)),
    ]
    if persistence != table["persistence"]:
        steps.append(indexes.set_logged(new, oid))
    steps += indexes.build([table], names, tablespaces=True)
    steps += _dress(table, names, new, others, version)
    steps += advanced
    steps.append(
        Step(
            SWAP,
            f"swap {new} for {ref}",
            script(_exchange(table, names, ref, new, shape)),
            True,
            indexes.LAST,
            urgent=True,
        )
    )
    _, broken = indexes.usable([table])
    warnings = [f"indexes that are not valid are not made: {', '.join(broken)}"] if broken else []
    return LoadPlan(new, tuple(steps), volatile=persistence == "u", warnings=(*warnings, *refused))


def _check(connection: Connection, ref: TableRef) -> None:
    existing.check_writable_server(connection)
    tree = existing.tree(connection, ref)
    if not tree or tree[0].kind != "r":
        found = existing.found_kind(tree[0]) if tree else "none"
        raise PlanningError(
            f"{NEEDS}: expected {ref} to be a table that is not partitioned, found {found}"
        )
    if tree[0].partition or tree[0].inherits:
        raise PlanningError(
            f"{NEEDS}: expected {ref} to be a table by itself, found one that is a partition, "
            "inherits or is inherited from"
        )
    existing.check_owned(connection, tree, NEEDS)
    existing.check_creatable(connection, ref.schema, NEEDS)
    # The sequences of serial columns go on to the new table.
    found_dependents = existing.dependents(connection, tree, sequences="i")
    if found_dependents:
        raise PlanningError(
            f"{NEEDS}: other objects depend on {ref}, and would stay with the old table: "
            f"{'; '.join(found_dependents)}; drop them, or use --mode truncate, which keeps "
            "the table"
        )


def _check_parts(connection: Connection, ref: TableRef, table: Json) -> None:
    attached = table["attached"]
    if attached["rules"]:
        raise PlanningError(
            f"{NEEDS}: {ref} has rules, which cannot be carried over: "
            f"{', '.join(rule['name'] for rule in attached['rules'])}"
        )
    if table["typed"]:
        raise PlanningError(
            f"{NEEDS}: {ref} is a typed table (OF a composite type); use --mode truncate"
        )
    user = connection.info.user
    for publication in attached["publications"]:
        if not publication["mine"]:
            raise PlanningError(
                f"{NEEDS}: {ref} is published by {publication['name']!r}, which {user!r} does not "
                f"own; expected GRANT {ident(publication['owner'])} TO {ident(user)}"
            )
    may = "SELECT pg_catalog.has_schema_privilege(%s, %s, 'CREATE')"
    schema = ident(ref.schema)
    found = connection.execute(may, [table["owner"], ref.schema]).fetchone()
    superuser = definition.one(
        connection, "SELECT pg_catalog.current_setting('is_superuser') = 'on'"
    )
    if table["owner"] != user and not superuser and not (found and found[0]):
        raise PlanningError(
            f"{NEEDS}: {table['owner']!r}, who owns {ref}, may not create tables in schema "
            f"{ref.schema!r}, and so cannot be given the new one; expected GRANT CREATE ON SCHEMA "
            f"{schema} TO {ident(table['owner'])}"
        )


def _granted_by_default(connection: Connection, schema: str) -> list[str]:
    """Roles that a new table of this user's is granted to."""
    rows = connection.execute(
        "SELECT DISTINCT pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(acl.grantee))"
        " FROM pg_catalog.pg_default_acl AS d, pg_catalog.aclexplode(d.defaclacl) AS acl"
        " WHERE d.defaclobjtype = 'r' AND acl.grantee <> 0"
        " AND d.defaclrole = (SELECT r.oid FROM pg_catalog.pg_roles AS r"
        "   WHERE r.rolname = current_user)"
        " AND d.defaclnamespace IN (0, (SELECT n.oid FROM pg_catalog.pg_namespace AS n"
        "   WHERE n.nspname = %s)) ORDER BY 1",
        [schema],
    ).fetchall()
    return [quoted for (quoted,) in rows]


def _names(run_id: str, table: Json, new: TableRef) -> Names:
    usable, _ = indexes.usable([table])

    def beside(schema: str, original: str) -> TableRef:
        return TableRef(schema, ddl.beside(run_id, original))

    return Names(
        {table["oid"]: new},
        {oid: ddl.beside(run_id, index["name"]) for oid, index in usable.items()},
        {
            (s["schema"], s["name"]): beside(new.schema, s["name"])
            for s in table["sequences"]
            if s["identity"]
        },
        {(s["schema"], s["name"]): beside(s["schema"], s["name"]) for s in table["statistics"]},
    )


def _dress(
    table: Json, names: Names, new: TableRef, others: Sequence[str], version: int
) -> list[Step]:
    statements = [
        *ddl.unchecked(table, names),
        *ddl.create_statistics(table, names),
        *ddl.comments(table, names),
        *(ddl.not_null_comments(table, names) if version >= 180000 else []),
        *ddl.policies(table, new),
        *ddl.grants(table, new, others),
    ]
    steps = []
    if statements:
        steps.append(
            Step(
                "dress",
                f"comments, statistics, policies and grants of {new}",
                script(statements),
                True,
                indexes.DRESS,
                done=done.is_dressed(table, names, policies=True),
            )
        )
    for number, (constraint, add, validate) in enumerate(ddl.foreign_keys(table, new)):
        steps.append(
            Step(
                f"reference {number}",
                f"add a foreign key to {new}",
                add,
                True,
                indexes.REFER,
                done=done.has_constraint(new, constraint),
            )
        )
        if validate is not None:
            steps.append(
                Step(
                    f"validate {number}",
                    f"validate a foreign key of {new}",
                    script([validate]),
                    True,
                    indexes.CHECK,
                )
            )
    return steps


def _shape(ref: TableRef) -> sql.Composed:
    return statement("shape").format(table=sql.Literal(name(ref)))


def _exchange(table: Json, names: Names, ref: TableRef, new: TableRef, shape: str) -> list[str]:
    """One transaction: the new table, and all that is its own, under the old one's names."""
    changed = (
        f"{ref} was altered since the run was planned, and the new table is as it was then; "
        "expected no change; start a new run"
    )
    check = (
        f"BEGIN IF ({_shape(ref).as_string(None)}) IS DISTINCT FROM {ddl.literal(shape)} THEN "
        f"RAISE EXCEPTION USING MESSAGE = {ddl.literal(changed)}; END IF; END"
    )
    statements = [
        f"LOCK TABLE ONLY {name(ref)}, {name(new)} IN ACCESS EXCLUSIVE MODE",
        f"DO {ddl.literal(check)}",
    ]
    restored: list[tuple[str, str, str]] = []
    for sequence in table["sequences"]:
        old = ident(sequence["schema"], sequence["name"])
        made = names.sequences.get((sequence["schema"], sequence["name"]))
        if made is None:
            statements.append(
                f"ALTER SEQUENCE {old} OWNED BY {name(new)}.{ident(sequence['column'])}"
            )
            continue
        statements.append(
            f"SELECT pg_catalog.setval({ddl.literal(name(made))}, s.last_value, s.is_called) "
            f"FROM {old} AS s"
        )
        statements += ddl.comment("SEQUENCE", name(made), sequence["comment"])
        restored.append(("SEQUENCE", name(made), sequence["name"]))
    restored += [
        ("INDEX", name(names.index(table, index)), index["name"])
        for index in table["indexes"]
        if index["oid"] in names.indexes
    ]
    for item in table["statistics"]:
        made = names.statistics[item["schema"], item["name"]]
        restored.append(("STATISTICS", name(made), item["name"]))
    statements.append(f"DROP TABLE {name(ref)}")
    statements.append(f"ALTER TABLE {name(new)} RENAME TO {ident(ref.name)}")
    statements += [f"ALTER {kind} {of} RENAME TO {ident(old)}" for kind, of, old in restored]
    statements += ddl.triggers(table)
    statements += ddl.publications(table)
    return statements
