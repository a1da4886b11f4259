"""A table that is built beside another one under temporary names, and then takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl.text import Names, temporary_name
from penstock.backends.postgresql.session.statements import ident, name
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart


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
