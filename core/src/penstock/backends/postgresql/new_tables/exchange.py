"""The transaction in which a table that was built beside another one takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.ddl.links import unlink_statements
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.new_tables.naming import rename_statements
from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import SequencePart, TablePart


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
