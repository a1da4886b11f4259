"""Mode recreate: the target is dropped, and made like the source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog import definition
from penstock.backends.postgresql.catalog.columns import data_type, read_columns
from penstock.backends.postgresql.catalog.datatypes import UNKNOWN, DataType
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.catalog.sequences import (
    WHOLE_NUMBERS,
    ColumnSequence,
    advance,
)
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load import ddl, done, existing, indexes
from penstock.backends.postgresql.load.ddl import Json, Names, ident, name, script
from penstock.backends.postgresql.load.left_out import apart
from penstock.backends.postgresql.load.links import FOREIGN_KEYS, links_of, restore, undo
from penstock.backends.postgresql.load.needs import lacking
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import Column, NotCopied, TableDefinition, TableRef

NEEDS = "--mode recreate"


def defined_columns(
    connection: Connection, ref: TableRef, defined: TableDefinition
) -> tuple[Column, ...]:
    """The columns of a table made from the definition: it is made, looked at, and rolled back.

    Raises:
        PlanningError: it cannot be made.
    """
    content = definition.content(defined)
    check_place(connection, ref)
    with planning("target", f"{NEEDS}: {ref}"):
        rehearsal = _Rehearsal(connection, ref, content)
        with connection.transaction(force_rollback=True):
            rehearsal.make_types()
            rehearsal.make_tables()
            columns = read_columns(connection, rehearsal.ref, "target")
        return _without_rehearsed_ids(connection, columns)


def _without_rehearsed_ids(connection: Connection, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Types that the rehearsal made will have other object ids when they are made for good."""
    parts = {part.oid for column in columns for part in data_type(column).parts()}
    rows = connection.execute(
        "SELECT oid FROM pg_catalog.pg_type WHERE oid = ANY (%s::oid[])", [list(parts)]
    ).fetchall()
    known = {oid for (oid,) in rows}

    def settled(type_: DataType) -> DataType:
        below = tuple(settled(part) for part in type_.below)
        return replace(type_, oid=type_.oid if type_.oid in known else UNKNOWN, below=below)

    return tuple(
        replace(column, traits={**column.traits, "type": settled(data_type(column))})
        for column in columns
    )


def plan_recreate(connection: Connection, request: LoadRequest) -> LoadPlan:
    """
    Raises:
        PlanningError: something depends on the target's table, the source's needs what the target
            lacks, or a privilege is missing.
    """
    assert request.definition is not None
    content = definition.content(request.definition)
    ref = request.target
    old, linked = check_droppable(connection, ref, request.siblings.remade)
    with planning("target", f"{NEEDS}: {ref}"):
        rehearsal = _Rehearsal(connection, ref, content)
        with connection.transaction(force_rollback=True):
            rehearsal.make_types()
            rehearsal.make_all()
        warnings = [*content["warnings"], *told_of_owner(connection, old)]
        names = _names(connection, ref, content, old, warnings)
        links = links_of(content["tables"], names, request.siblings)
        left = (*links.left, *apart(content["tables"], names.table, but=FOREIGN_KEYS))
        steps = (*links.own, *links.others)
        told = (*left, *(step.instead for step in steps if step.instead))
        made_again = {(item.kind, item.name, item.table) for item in told}
        lost = [
            item
            for item in dropped_with(connection, old)
            if (item.kind, item.name, item.table) not in made_again
        ]
    tables = content["tables"]
    unlogged = request.unlogged or any(
        t["persistence"] == "u" and t["partition_key"] is None for t in tables
    )
    version = connection.info.server_version
    before = [
        *undo(linked),
        Step("drop", f"drop {ref}", script([f"DROP TABLE IF EXISTS {name(ref)}"])),
        *_schemas(connection, names, rehearsal.missing),
        *(
            Step(f"type {t['oid']}", f"create type {t['schema']}.{t['name']}", ddl.create_type(t))
            for t in rehearsal.missing
        ),
    ]
    for table in tables:
        made = names.table(table)
        persistence = "u" if request.unlogged else table["persistence"]
        statements = [
            *ddl.create_table(table, names, persistence=persistence, version=version),
            *ddl.set_sequences(table, names, keep=request.counted is None),
            *ddl.comments(table, names),
        ]
        if version >= 180000:
            statements += ddl.not_null_comments(table, names)
        before.append(Step(f"create {table['oid']}", f"create {made}", script(statements)))
    after = [*_advanced(request, tables[0], names), *links.own]
    for table in tables:
        if request.unlogged and table["persistence"] == "p" and table["partition_key"] is None:
            after.append(indexes.set_logged(names.table(table), table["oid"]))
    after += indexes.build(tables, names, tablespaces=False)
    for table in tables:
        late = [*ddl.unchecked(table, names), *ddl.create_statistics(table, names)]
        if late:
            of = names.table(table)
            after.append(
                Step(
                    f"dress {table['oid']}",
                    f"statistics and constraints of {of}",
                    script(late),
                    True,
                    indexes.DRESS,
                    done=done.is_dressed(table, names, policies=False),
                )
            )
    alone = isinstance(request.source, TableRef) and request.source.only
    return LoadPlan(
        replace(ref, only=alone),
        (*before, *after),
        volatile=unlogged,
        warnings=tuple(warnings),
        not_copied=(*left, *lost),
        links=(*links.others, *restore(linked)),
    )


def check_place(connection: Connection, ref: TableRef) -> None:
    """
    Raises:
        PlanningError: nothing can be made there, whatever its name.
    """
    with planning("target", f"{NEEDS}: {ref}"):
        existing.check_writable_server(connection)
        existing.check_creatable(connection, ref.schema, NEEDS)


def check_droppable(
    connection: Connection, ref: TableRef, remade: Collection[TableRef] = ()
) -> tuple[list[existing.Relation], list[existing.Linked]]:
    """What the table that is there consists of, and what is to be undone before it is dropped.

    Parameters:
        remade: tables that are made again together with it, so that what they have to do with it
            can be undone.

    Raises:
        PlanningError: it cannot be dropped, or nothing can be made in its place.
    """
    check_place(connection, ref)
    with planning("target", f"{NEEDS}: {ref}"):
        old = existing.tree(connection, ref)
        if not old:
            return [], []
        if old[0].kind not in ("r", "p"):
            raise PlanningError(
                f"{NEEDS}: expected {ref} to be a table, or nothing; found "
                f"{existing.found_kind(old[0])}"
            )
        if old[0].partition:
            raise PlanningError(
                f"{NEEDS}: {ref} is a partition of another table, which would lose it; detach it"
            )
        existing.check_owned(connection, old[:1], NEEDS)
        with definition.full_names(connection):
            linked = [
                link
                for link in existing.linked(connection, old)
                if link.kind == "sequence" or link.root in remade
            ]
        found = existing.dependents(connection, old, undone=linked)
    if found:
        raise PlanningError(
            f"{NEEDS}: {ref} cannot be dropped, since other objects depend on it: "
            f"{'; '.join(found)}; drop them first, and create them again after the copy"
        )
    return old, linked


def dropped_with(connection: Connection, old: Sequence[existing.Relation]) -> tuple[NotCopied, ...]:
    """What hangs on the table that is there, and goes with it."""
    with definition.full_names(connection):
        tables = [definition.read_table(connection, relation.oid) for relation in old]
    return apart(tables, lambda table: TableRef(table["schema"], table["name"]), dropped=True)


def told_of_owner(connection: Connection, old: Sequence[existing.Relation]) -> list[str]:
    """A warning where the table that is there belongs to somebody else."""
    user = connection.info.user
    if not old or old[0].owner == user:
        return []
    return [f"the target's owner was {old[0].owner}, and will be {user}"]


class _Rehearsal:
    """Makes the tables under names of their own, in a transaction that is rolled back.

    What the target lacks (a function, a collation, an access method, a privilege) is found so.
    """

    def __init__(self, connection: Connection, ref: TableRef, content: Mapping[str, Any]) -> None:
        self._connection = connection
        self._tables: Sequence[Json] = content["tables"]
        self._all_types: Sequence[Json] = content["types"]
        self.ref = TableRef(ref.schema, ddl.beside("rehearsal", ref.name))
        self._names = _names_beside("rehearsal", self.ref, self._tables)
        self.missing, lines = _missing_types(connection, self._all_types)
        with connection.transaction():
            lines += lacking(connection, self._tables)
        if lines:
            raise PlanningError(
                f"{NEEDS}: the target lacks what {ref} needs, or has a different one; make it "
                "there first:\n  " + "\n  ".join(lines)
            )

    def _run(self, statements: Sequence[str]) -> None:
        for one in statements:
            self._connection.execute(one.encode())

    def make_types(self) -> None:
        self._run([ddl.FULL_NAMES, "SET LOCAL lock_timeout = 10000"])
        schemas = {self.ref.schema, *(t["schema"] for t in self.missing)}
        for schema in sorted(schemas):
            if not existing.check_creatable(self._connection, schema, NEEDS):
                self._run([f"CREATE SCHEMA {ident(schema)}"])
        for type_ in self.missing:
            self._run([ddl.create_type(type_)])
            self._make_apart(type_)

    def _make_apart(self, type_: Json) -> None:
        """See that its object id is not the source's by chance, which would look like agreement."""
        made = ident(type_["schema"], type_["name"])
        query = (
            "SELECT t.oid::bigint, t.typarray::bigint FROM pg_catalog.pg_type AS t"
            " WHERE t.oid = pg_catalog.to_regtype(%s)"
        )
        while True:
            found = self._connection.execute(query, [made]).fetchone()
            assert found is not None
            if {found[0], found[1]}.isdisjoint({type_["oid"], type_["array_oid"]}):
                return
            self._run([f"DROP TYPE {made}", ddl.create_type(type_)])

    def make_tables(self) -> None:
        version = self._connection.info.server_version
        for table in self._tables:
            self._run(ddl.create_table(table, self._names, persistence="u", version=version))

    def make_all(self) -> None:
        self.make_tables()
        for step in indexes.build(self._tables, self._names, tablespaces=False):
            self._run([step.statement])
        for table in self._tables:
            self._run(ddl.unchecked(table, self._names))
            self._run(ddl.create_statistics(table, self._names))


def _missing_types(connection: Connection, types: Sequence[Json]) -> tuple[list[Json], list[str]]:
    """Those that are to be made; a line for each that is there and differs, or cannot be made."""
    missing = []
    lines = []
    for type_ in types:
        made = ident(type_["schema"], type_["name"])
        found = definition.one(
            connection,
            f"SELECT pg_catalog.to_regtype({ddl.literal(made)})::oid::bigint",
        )
        if found is not None:
            with definition.full_names(connection):
                theirs = definition.read_type(connection, found)
            if _essence(type_) != _essence(theirs):
                lines.append(
                    f"type {made} differs: the source has {_told(type_)}, the target "
                    f"{_told(theirs)}"
                )
        elif type_["extension"]:
            lines.append(
                f"type {made} comes with an extension: run CREATE EXTENSION "
                f"{ident(type_['extension'])} in the target first"
            )
        elif type_["relation"]:
            lines.append(f"type {made} is a row of {type_['relation']}: make that table first")
        elif type_["kind"] not in "edcr" or (type_["range"] or {}).get("canonical"):
            lines.append(f"type {made} is written in C: install it in the target first")
        else:
            missing.append(type_)
    return missing, lines


def _essence(type_: Json) -> tuple[Any, ...]:
    """What must be alike where a type is there already."""
    if type_["kind"] == "b":
        return ("b",)
    return (
        type_["kind"],
        type_["labels"],
        type_["base"],
        type_["not_null"],
        type_["collation"],
        sorted(c["definition"] for c in type_["checks"] or ()),
        [(a["name"], a["type"]) for a in type_["attributes"] or ()],
        ddl.range_parts(type_["range"])[:2] if type_["range"] else None,
    )


def _told(type_: Json) -> str:
    if type_["kind"] == "e":
        return f"enum ({', '.join(type_['labels'] or ())})"
    if type_["kind"] == "d":
        checks = [c["definition"] for c in type_["checks"] or ()]
        not_null = ["NOT NULL"] if type_["not_null"] else []
        return " ".join(["domain over", type_["base"], *not_null, *checks])
    if type_["kind"] == "r":
        return f"range of {type_['range']['subtype']}"
    attributes = [f"{a['name']} {a['type']}" for a in type_["attributes"] or ()]
    return f"composite ({', '.join(attributes)})" if attributes else f"kind {type_['kind']!r}"


def _names_beside(run_id: str, ref: TableRef, tables: Sequence[Json]) -> Names:
    refs: dict[int, TableRef] = {}
    sequences: dict[tuple[str, str], TableRef] = {}
    statistics: dict[tuple[str, str], TableRef] = {}
    for table in tables:
        first = not refs
        refs[table["oid"]] = (
            ref if first else TableRef(ref.schema, ddl.beside(run_id, str(table["oid"])))
        )
        for sequence in table["sequences"]:
            made = TableRef(ref.schema, ddl.beside(run_id, sequence["name"]))
            sequences[sequence["schema"], sequence["name"]] = made
        for sequence in table["used_sequences"]:
            whole = f"{sequence['schema']}.{sequence['name']}"
            made = TableRef(ref.schema, ddl.beside(run_id, whole))
            sequences[sequence["schema"], sequence["name"]] = made
        for item in table["statistics"]:
            made = TableRef(ref.schema, ddl.beside(run_id, item["name"]))
            statistics[item["schema"], item["name"]] = made
    usable, _ = indexes.usable(tables)
    by_oid = {oid: ddl.beside(run_id, str(oid)) for oid in usable}
    return Names(refs, by_oid, sequences, statistics)


def _names(
    connection: Connection,
    ref: TableRef,
    content: Mapping[str, Any],
    old: Sequence[existing.Relation],
    warnings: list[str],
) -> Names:
    """The source's names; where the table has another one, what is named after it too.

    Raises:
        PlanningError: the name of a partition is taken.
    """
    root: Json = content["tables"][0]
    taken: dict[str, set[str]] = {}

    def free(schema: str, wanted: str, what: str) -> str:
        used = taken.setdefault(schema, existing.taken(connection, schema, old))
        if wanted.startswith(root["name"]) and ref.name != root["name"]:
            wanted = ddl.shortened(ref.name + wanted[len(root["name"]) :], "")
        found, count = wanted, 0
        while found in used:
            count += 1
            found = ddl.shortened(wanted, f"_{count}")
        if found != wanted:
            warnings.append(f"{what} {wanted} is called {found}: the name is taken in {schema}")
        used.add(found)
        return found

    def schema_of(item: Json) -> str:
        return ref.schema if item["schema"] == root["schema"] else str(item["schema"])

    refs = {root["oid"]: ref}
    taken[ref.schema] = existing.taken(connection, ref.schema, old) | {ref.name}
    sequences: dict[tuple[str, str], TableRef] = {}
    statistics: dict[tuple[str, str], TableRef] = {}
    index_names: dict[int, str] = {}
    for table in content["tables"]:
        if table is not root:
            schema = schema_of(table)
            refs[table["oid"]] = TableRef(schema, free(schema, table["name"], "partition"))
    usable, broken = indexes.usable(content["tables"])
    for table in content["tables"]:
        schema = refs[table["oid"]].schema
        for index in table["indexes"]:
            if index["oid"] in usable:
                index_names[index["oid"]] = free(schema, index["name"], "index")
        for sequence in table["sequences"]:
            made = schema_of(sequence)
            sequences[sequence["schema"], sequence["name"]] = TableRef(
                made, free(made, sequence["name"], "sequence")
            )
        for sequence in table["used_sequences"]:
            # Others may use it too: it is the one of that name, whatever the table is called.
            used = TableRef(schema_of(sequence), sequence["name"])
            _check_sequence(connection, used)
            sequences[sequence["schema"], sequence["name"]] = used
        for item in table["statistics"]:
            made = schema_of(item)
            statistics[item["schema"], item["name"]] = TableRef(made, item["name"])
    if broken:
        warnings.append(f"indexes that are not valid are not made: {', '.join(broken)}")
    return Names(refs, index_names, sequences, statistics)


def _check_sequence(connection: Connection, ref: TableRef) -> None:
    """
    Raises:
        PlanningError: something else has the name, or the user may not use the sequence.
    """
    found = connection.execute(
        "SELECT c.relkind::text, CASE WHEN c.relkind = 'S' THEN"
        " pg_catalog.has_sequence_privilege(c.oid, 'SELECT')"
        " AND pg_catalog.has_sequence_privilege(c.oid, 'UPDATE') END"
        " FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass(%s)",
        [name(ref)],
    ).fetchone()
    if found is not None and found[0] != "S":
        raise PlanningError(
            f"{NEEDS}: a default of the source's table names a sequence, {ref}; expected one in "
            f"the target, or nothing of that name; found {KINDS.get(found[0], found[0])}"
        )
    if found is not None and not found[1]:
        user = ident(connection.info.user)
        raise PlanningError(
            f"{NEEDS}: a default of the source's table names a sequence, {ref}, which "
            f"{connection.info.user!r} may not set in the target; expected GRANT USAGE, SELECT, "
            f"UPDATE ON SEQUENCE {name(ref)} TO {user}"
        )


def _advanced(request: LoadRequest, table: Json, names: Names) -> list[Step]:
    found = [
        ColumnSequence(item["column"], ref, item["increment"])
        for item in (*table["sequences"], *table["used_sequences"])
        if (ref := names.sequences.get((item["schema"], item["name"]))) is not None
    ]
    whole = {column["name"] for column in table["columns"] if column["type"] in WHOLE_NUMBERS}
    only = table["partition_key"] is None
    return advance(request, names.table(table), found, whole, only=only)


def _schemas(connection: Connection, names: Names, types: Sequence[Json]) -> list[Step]:
    wanted = {ref.schema for ref in (*names.tables.values(), *names.sequences.values())}
    wanted |= {type_["schema"] for type_ in types}
    return [
        Step(
            f"schema {schema}",
            f"create schema {schema}",
            script([f"CREATE SCHEMA IF NOT EXISTS {ident(schema)}"]),
        )
        for schema in sorted(wanted)
        if not existing.check_creatable(connection, schema, NEEDS)
    ]
