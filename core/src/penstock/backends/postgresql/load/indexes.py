"""Indexes, and the constraints that stand on them: how they are dropped, and built again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.backends.postgresql.load import ddl, done
from penstock.backends.postgresql.load.ddl import Json, Names, ident, name, script
from penstock.model.plans import Step
from penstock.model.tables import TableRef

# Ranks of steps: indexes of one table are built side by side, then constraints are put on them.
# What changes the table's own row in the catalog has a rank apart from what else does.
LOGGED, BUILD, CONSTRAIN, ATTACH, DRESS, REFER, CHECK, LAST = range(8)


# What the ids of steps begin with after which a crash no longer empties the table.
SET_LOGGED = "set logged "


def set_logged(ref: TableRef, oid: int) -> Step:
    """Before its indexes are built: it is written anew, and they would be built twice."""
    return Step(
        f"{SET_LOGGED}{oid}",
        f"set {ref} logged",
        script([f"ALTER TABLE {name(ref)} SET LOGGED"]),
        True,
        LOGGED,
        done=done.is_logged(ref),
    )


def drop(table: Json, index: Json) -> str:
    """Repeatable: where it is gone, nothing is done."""
    if index["constraint"] is not None:
        of = name_of(table)
        return f"ALTER TABLE {of} DROP CONSTRAINT IF EXISTS {ident(index['name'])}"
    return f"DROP INDEX IF EXISTS {ident(table['schema'], index['name'])}"


def name_of(table: Json) -> str:
    return ident(table["schema"], table["name"])


def build(tables: Sequence[Json], names: Names, *, tablespaces: bool) -> list[Step]:
    """Steps that build all indexes of the tables that have a name in `names`.

    Parameters:
        tablespaces: where the definition says; else where the server puts them.
    """
    steps: list[Step] = []
    attach: list[str] = []
    by_oid = {
        index["oid"]: (table, index)
        for table in tables
        for index in table["indexes"]
        if index["oid"] in names.indexes
    }
    for table, index in by_oid.values():
        if table["partition_key"] is not None:
            attach += _on_parent(table, index, names)
        else:
            steps += _on_table(table, index, names, tablespaces=tablespaces)
    for table, index in by_oid.values():
        if index["parent"] in by_oid:
            parent = names.index(*by_oid[index["parent"]])
            child = names.index(table, index)
            attach.append(f"ALTER INDEX {name(parent)} ATTACH PARTITION {name(child)}")
    for table, index in by_oid.values():
        if table["partition_key"] is not None:
            attach += _dress(table, index, names)
    if attach:
        parents = [
            done.has_index(names.table(table), names.index(table, index))
            for table, index in by_oid.values()
            if table["partition_key"] is not None
        ]
        steps.append(
            Step(
                "attach",
                "attach the partitions' indexes",
                script(attach),
                True,
                ATTACH,
                done=parents[0],
            )
        )
    return steps


def _on_table(table: Json, index: Json, names: Names, *, tablespaces: bool) -> list[Step]:
    made = names.index(table, index)
    of = names.table(table)
    constraint = index["constraint"]
    tablespace = (
        [f"SET LOCAL default_tablespace = {ident(index['tablespace'])}"]
        if tablespaces and index["tablespace"]
        else []
    )
    steps = []
    if constraint is None or constraint["by_index"]:
        unique = "UNIQUE " if index["unique"] else ""
        tail = ddl.of_itself(index["tail"], table, of)
        create = f"CREATE {unique}INDEX {ident(made.name)} ON {name(of)} {tail}"
        dressed = _own(table, index, names) if constraint is None else []
        steps.append(
            Step(
                f"build {index['oid']}",
                f"build index {made.name} of {of}",
                script([*tablespace, create, *dressed]),
                True,
                BUILD,
                done=done.has_index(of, made),
            )
        )
        chosen = _chosen(table, index, names) if constraint is None else []
        if chosen:
            # Not beside builds of others, which keep a lock that this would wait for.
            steps.append(
                Step(
                    f"choose {index['oid']}",
                    f"mark index {made.name} of {of}",
                    script(chosen),
                    True,
                    CONSTRAIN,
                )
            )
    if constraint is not None:
        alter = f"ALTER TABLE {name(of)} ADD CONSTRAINT {ident(made.name)} "
        if constraint["by_index"]:
            kind = "PRIMARY KEY" if constraint["kind"] == "p" else "UNIQUE"
            alter += f"{kind} USING INDEX {ident(made.name)}{_deferrable(constraint)}"
        else:
            alter += ddl.of_itself(constraint["definition"], table, of)
        steps.append(
            Step(
                f"constrain {index['oid']}",
                f"add constraint {made.name} to {of}",
                script([*tablespace, alter, *_dress(table, index, names)]),
                True,
                CONSTRAIN,
                done=done.has_constraint(of, made.name),
            )
        )
    return steps


def _on_parent(table: Json, index: Json, names: Names) -> list[str]:
    """Of a partitioned table: not valid until its partitions' indexes are attached."""
    made, of = names.index(table, index), names.table(table)
    if index["constraint"] is not None:
        definition = index["constraint"]["definition"]
        add = f"ADD CONSTRAINT {ident(made.name)} {definition}"
        return [f"ALTER TABLE ONLY {name(of)} {add}"]
    unique = "UNIQUE " if index["unique"] else ""
    tail = ddl.of_itself(index["tail"], table, of)
    return [f"CREATE {unique}INDEX {ident(made.name)} ON ONLY {name(of)} {tail}"]


def _deferrable(constraint: Json) -> str:
    if not constraint["deferrable"]:
        return ""
    return f" DEFERRABLE INITIALLY {'DEFERRED' if constraint['deferred'] else 'IMMEDIATE'}"


def _dress(table: Json, index: Json, names: Names) -> list[str]:
    return [*_own(table, index, names), *_chosen(table, index, names)]


def _own(table: Json, index: Json, names: Names) -> list[str]:
    made, of = names.index(table, index), names.table(table)
    statements = [
        f"ALTER INDEX {name(made)} ALTER COLUMN {number} SET STATISTICS {target}"
        for number, target in index["statistics"]
    ]
    statements += ddl.comment("INDEX", name(made), index["comment"])
    if index["constraint"] is not None:
        statements += ddl.constraint_comment(of, made.name, index["constraint"]["comment"])
    return statements


def _chosen(table: Json, index: Json, names: Names) -> list[str]:
    """What the table says of one of its indexes."""
    made, of = names.index(table, index), names.table(table)
    statements = []
    if index["clustered"]:
        statements.append(f"ALTER TABLE {name(of)} CLUSTER ON {ident(made.name)}")
    if index["replica_identity"]:
        alter = f"ALTER TABLE ONLY {name(of)} REPLICA IDENTITY"
        statements.append(f"{alter} USING INDEX {ident(made.name)}")
    return statements


def usable(tables: Iterable[Json]) -> tuple[dict[int, Json], list[str]]:
    """Indexes by oid, and the names of those that a failed build has left behind."""
    found: dict[int, Json] = {}
    broken = []
    for table in tables:
        for index in table["indexes"]:
            if index["valid"]:
                found[index["oid"]] = index
            else:
                broken.append(index["name"])
    return found, broken
