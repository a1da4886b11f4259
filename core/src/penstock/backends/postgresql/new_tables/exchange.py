"""A table that is built beside another one under temporary names, and then takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.ddl.links import unlink_statements
from penstock.backends.postgresql.ddl.text import Names, temporary_name
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import SequencePart, TablePart


def temporary_names(run_id: str, names: Names, definitions: Sequence[TablePart]) -> Names:
    """Return unused names for tables and their own objects.

    Args:
        run_id: the run that builds them.
        names: the names that they will have.
        definitions: the definition of a table, followed by those of the tables it consists of.
    """

    def temporary_ref(ref: TableRef) -> TableRef:
        return TableRef(ref.schema, temporary_name(run_id, ref.name))

    owned = {(s["schema"], s["name"]) for table in definitions for s in table["sequences"]}
    return Names(
        {oid: temporary_ref(ref) for oid, ref in names.tables.items()},
        {oid: temporary_name(run_id, index) for oid, index in names.indexes.items()},
        {key: temporary_ref(ref) if key in owned else ref for key, ref in names.sequences.items()},
        {key: temporary_ref(ref) for key, ref in names.statistics.items()},
        names.tables,
    )


def rename_statements(
    definitions: Sequence[TablePart], temporary: Names, names: Names
) -> list[str]:
    """Return statements that give tables and their own objects their final names.

    Args:
        definitions: as for `temporary_names`.
        temporary: the names that they have.
        names: the names that they get, none of which is in use.
    """
    pairs: list[tuple[str, TableRef, TableRef]] = []
    for table in definitions:
        pairs.append(("TABLE", temporary.table(table), names.table(table)))
        pairs += [
            ("INDEX", temporary.index(table, index), names.index(table, index))
            for index in table["indexes"]
            if index["oid"] in names.indexes
        ]
    pairs += [
        (kind, mine[key], theirs[key])
        for kind, mine, theirs in (
            ("SEQUENCE", temporary.sequences, names.sequences),
            ("STATISTICS", temporary.statistics, names.statistics),
        )
        for key in mine
        if mine[key] != theirs[key]
    ]
    return [f"ALTER {kind} {name(mine)} RENAME TO {ident(ref.name)}" for kind, mine, ref in pairs]


def exchange_statements(
    facts: TargetFacts,
    ref: TableRef,
    linked: Sequence[existing_tables.TableLink],
    definitions: Sequence[TablePart],
    made: Names,
    names: Names,
) -> list[str]:
    """Return one transaction that drops the existing table and gives the new one its name.

    Args:
        facts: the facts about the target.
        ref: the existing table.
        linked: the links from other tables, which are removed.
        definitions: the new table's definition, followed by those of the tables it consists of.
        made: the names under which they are built.
        names: their names in the end.
    """
    owned = {
        (sequence["schema"], sequence["name"])
        for table in facts.definitions(ref)
        for sequence in table["sequences"]
        if not sequence["identity"]
    }
    used = {each for each in made.sequences.values() if (each.schema, each.name) in owned}
    # Other tables go on using these, and so does the new one.
    shared = {link.name for link in linked if link.kind == "sequence"}
    statements = unlink_statements(linked)
    # They would be dropped with it.
    statements += [f"ALTER SEQUENCE {name(each)} OWNED BY NONE" for each in sorted(used)]
    statements.append(f"DROP TABLE IF EXISTS {name(ref)}")
    for table in definitions:
        for sequence in table["sequences"]:
            key = sequence["schema"], sequence["name"]
            final = names.sequences.get(key)
            if final is None or final.name not in shared:
                continue
            statements += _share(made.table(table), sequence, made.sequences[key], final)
            made = made.without_sequence(key)
    return [*statements, *rename_statements(definitions, made, names)]


def _share(table: TableRef, sequence: SequencePart, made: TableRef, shared: TableRef) -> list[str]:
    """Return statements after which a column of a new table uses an existing sequence.

    Args:
        table: the new table.
        sequence: the sequence that the column would have had alone.
        made: the name of that sequence.
        shared: the existing sequence.
    """
    column = ident(sequence["column"])
    later = ">" if int(sequence["increment"]) > 0 else "<"
    return [
        f"SELECT pg_catalog.setval({literal(name(shared))}, m.last_value, m.is_called)"
        f" FROM {name(made)} AS m, {name(shared)} AS s WHERE m.last_value {later} s.last_value",
        f"ALTER TABLE {name(table)} ALTER COLUMN {column}"
        f" SET DEFAULT pg_catalog.nextval({literal(name(shared))})",
        f"DROP SEQUENCE {name(made)}",
        f"ALTER SEQUENCE {name(shared)} OWNED BY {name(table)}.{column}",
    ]
