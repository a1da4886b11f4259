"""Indexes and the constraints based on them: how they are dropped and rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl import completion, steps, text
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.session.statements import ident, name
from penstock.model.plans import Step

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import IndexConstraint, IndexPart, TablePart


def drop_statement(table: TablePart, index: IndexPart) -> str:
    """Return a repeatable statement that drops an index, if it exists."""
    if index["constraint"] is not None:
        of = ident(table["schema"], table["name"])
        return f"ALTER TABLE {of} DROP CONSTRAINT IF EXISTS {ident(index['name'])}"
    return f"DROP INDEX IF EXISTS {ident(table['schema'], index['name'])}"


def build_steps(tables: Sequence[TablePart], names: Names, *, tablespaces: bool) -> list[Step]:
    """Return steps that build all indexes of the tables that have an entry in `names`.

    Args:
        tables: the definitions, parents first.
        names: the names in the target.
        tablespaces: build them in the tablespace of the definition, instead of the server's
            default.
    """
    planned: list[Step] = []
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
            planned += _on_table(table, index, names, tablespaces=tablespaces)
    for table, index in by_oid.values():
        if index["parent"] in by_oid:
            parent = names.index(*by_oid[index["parent"]])
            child = names.index(table, index)
            attach.append(f"ALTER INDEX {name(parent)} ATTACH PARTITION {name(child)}")
    for table, index in by_oid.values():
        if table["partition_key"] is not None:
            attach += _complete(table, index, names)
    if attach:
        parents = [
            completion.has_index(names.table(table), names.index(table, index))
            for table, index in by_oid.values()
            if table["partition_key"] is not None
        ]
        what = "attach the child tables' indexes"
        planned.append(steps.after("attach", what, steps.ATTACH, *attach, done=parents[0]))
    return planned


def _on_table(table: TablePart, index: IndexPart, names: Names, *, tablespaces: bool) -> list[Step]:
    index_name = names.index(table, index)
    of = names.table(table)
    constraint = index["constraint"]
    tablespace = (
        [f"SET LOCAL default_tablespace = {ident(index['tablespace'])}"]
        if tablespaces and index["tablespace"]
        else []
    )
    planned = []
    if constraint is None or constraint["by_index"]:
        unique = "UNIQUE " if index["unique"] else ""
        tail = text.replace_table_name(index["tail"], table, of)
        create = f"CREATE {unique}INDEX {ident(index_name.name)} ON {name(of)} {tail}"
        planned.append(
            steps.after(
                f"build {index['oid']}",
                f"build index {index_name.name} of {of}",
                steps.BUILD,
                *tablespace,
                create,
                *(_settings(table, index, names) if constraint is None else []),
                done=completion.has_index(of, index_name),
            )
        )
    if constraint is None and (chosen := _table_settings(table, index, names)):
        # Not at the same time as other builds, which keep a lock that this would wait for.
        step_id, what = f"choose {index['oid']}", f"mark index {index_name.name} of {of}"
        planned.append(steps.after(step_id, what, steps.CONSTRAIN, *chosen))
    if constraint is not None:
        alter = f"ALTER TABLE {name(of)} ADD CONSTRAINT {ident(index_name.name)} "
        if constraint["by_index"]:
            kind = "PRIMARY KEY" if constraint["kind"] == "p" else "UNIQUE"
            alter += f"{kind} USING INDEX {ident(index_name.name)}{_deferrable(constraint)}"
        else:
            alter += text.replace_table_name(constraint["definition"], table, of)
        planned.append(
            steps.after(
                f"constrain {index['oid']}",
                f"add constraint {index_name.name} to {of}",
                steps.CONSTRAIN,
                *tablespace,
                alter,
                *_complete(table, index, names),
                done=completion.has_constraint(of, index_name.name),
            )
        )
    return planned


def _on_parent(table: TablePart, index: IndexPart, names: Names) -> list[str]:
    """Return an index on a partitioned table, invalid until the children's indexes are attached."""
    index_name, of = names.index(table, index), names.table(table)
    if index["constraint"] is not None:
        definition = index["constraint"]["definition"]
        add = f"ADD CONSTRAINT {ident(index_name.name)} {definition}"
        return [f"ALTER TABLE ONLY {name(of)} {add}"]
    unique = "UNIQUE " if index["unique"] else ""
    tail = text.replace_table_name(index["tail"], table, of)
    return [f"CREATE {unique}INDEX {ident(index_name.name)} ON ONLY {name(of)} {tail}"]


def _deferrable(constraint: IndexConstraint) -> str:
    if not constraint["deferrable"]:
        return ""
    return f" DEFERRABLE INITIALLY {'DEFERRED' if constraint['deferred'] else 'IMMEDIATE'}"


def _complete(table: TablePart, index: IndexPart, names: Names) -> list[str]:
    return [*_settings(table, index, names), *_table_settings(table, index, names)]


def _settings(table: TablePart, index: IndexPart, names: Names) -> list[str]:
    index_name, of = names.index(table, index), names.table(table)
    statements = [
        f"ALTER INDEX {name(index_name)} ALTER COLUMN {number} SET STATISTICS {target}"
        for number, target in index["statistics"]
    ]
    statements += text.comment("INDEX", name(index_name), index["comment"])
    if index["constraint"] is not None:
        statements += text.constraint_comment(of, index_name.name, index["constraint"]["comment"])
    return statements


def _table_settings(table: TablePart, index: IndexPart, names: Names) -> list[str]:
    """Return statements for a table's properties that refer to one of its indexes."""
    index_name, of = names.index(table, index), names.table(table)
    statements = []
    if index["clustered"]:
        statements.append(f"ALTER TABLE {name(of)} CLUSTER ON {ident(index_name.name)}")
    if index["replica_identity"]:
        alter = f"ALTER TABLE ONLY {name(of)} REPLICA IDENTITY"
        statements.append(f"{alter} USING INDEX {ident(index_name.name)}")
    return statements


def usable_indexes(tables: Iterable[TablePart]) -> tuple[dict[int, IndexPart], list[str]]:
    """Return indexes by object id, and the names of those left behind by a failed build."""
    usable: dict[int, IndexPart] = {}
    broken = []
    for table in tables:
        for index in table["indexes"]:
            if index["valid"]:
                usable[index["oid"]] = index
            else:
                broken.append(index["name"])
    return usable, broken
