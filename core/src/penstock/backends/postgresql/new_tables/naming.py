"""The names of new tables and of their objects: in the end, and until then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.catalog.privileges import missing_grant
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.ddl import indexes
from penstock.backends.postgresql.ddl.text import Names, shorten, temporary_name
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.new_tables.rehearsal import NEEDS as MAKING
from penstock.backends.postgresql.session.statements import ident, name
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        SequencePart,
        StatisticsPart,
        TablePart,
    )


def names_for(
    facts: TargetFacts,
    ref: TableRef,
    definitions: Sequence[TablePart],
    old: Sequence[existing_tables.Relation],
    warnings: list[str],
) -> Names:
    """Return the source's names, adapted where objects are named after a table with another name.

    Args:
        facts: the facts about the target.
        ref: the table to create.
        definitions: its definition, followed by those of the tables it consists of.
        old: the relations of the existing table, whose names become free.
        warnings: receives a warning for each name that is taken.

    Raises:
        PlanningError: the name of a child table is taken.
    """
    root: TablePart = definitions[0]
    dropped = {relation.oid for relation in old}
    new_names: dict[str, set[str]] = defaultdict(set)
    new_names[ref.schema].add(ref.name)
    claimed = facts.claimed_names
    claimed.begin_parts(ref)

    def free(schema: str, preferred: str, what: str) -> str:
        used, taken_names = new_names[schema], facts.names(schema)
        if preferred.startswith(root["name"]) and ref.name != root["name"]:
            preferred = shorten(ref.name + preferred[len(root["name"]) :], "")
        candidate, count = preferred, 0
        while (
            candidate in used
            or taken_names.holds(candidate, dropped)
            or claimed.holds(schema, candidate)
        ):
            count += 1
            candidate = shorten(preferred, f"_{count}")
        if candidate != preferred:
            warnings.append(
                f"{what} {preferred} is named {candidate}, because the name is taken in schema "
                f"{schema}"
            )
        used.add(candidate)
        claimed.add_part(schema, candidate, ref)
        return candidate

    def schema_of(item: TablePart | SequencePart | StatisticsPart) -> str:
        return ref.schema if item["schema"] == root["schema"] else str(item["schema"])

    refs = {root["oid"]: ref}
    sequences: dict[tuple[str, str], TableRef] = {}
    statistics: dict[tuple[str, str], TableRef] = {}
    index_names: dict[int, str] = {}
    for table in definitions:
        if table is not root:
            schema = schema_of(table)
            refs[table["oid"]] = TableRef(schema, free(schema, table["name"], "child table"))
    usable, broken = indexes.usable_indexes(definitions)
    for table in definitions:
        schema = refs[table["oid"]].schema
        for index in table["indexes"]:
            if index["oid"] in usable:
                index_names[index["oid"]] = free(schema, index["name"], "index")
        for sequence in table["sequences"]:
            schema = schema_of(sequence)
            free_name = free(schema, sequence["name"], "sequence")
            sequences[sequence["schema"], sequence["name"]] = TableRef(schema, free_name)
        for sequence in table["used_sequences"]:
            # Other tables may use it too, so it keeps its name, whatever the table's name.
            used = TableRef(schema_of(sequence), sequence["name"])
            _check_sequence(facts, used)
            sequences[sequence["schema"], sequence["name"]] = used
        for item in table["statistics"]:
            statistics[item["schema"], item["name"]] = TableRef(schema_of(item), item["name"])
    if broken:
        warnings.append(f"invalid indexes are not created: {', '.join(broken)}")
    return Names(refs, index_names, sequences, statistics)


def _check_sequence(facts: TargetFacts, ref: TableRef) -> None:
    """Check the sequence that a column draws from.

    Raises:
        PlanningError: another object has the name, or the user may not use the sequence.
    """
    kind, settable = facts.sequence(ref)
    if kind != "S":
        raise PlanningError(
            f"{MAKING}: a default of the source's table uses sequence {ref}; expected a sequence "
            f"in the target, or nothing with that name, found {KINDS.get(kind, kind)}"
        )
    if not settable:
        missing = f"may not set sequence {ref}, which a default of the source's table uses"
        grant = f"USAGE, SELECT, UPDATE ON SEQUENCE {name(ref)}"
        raise missing_grant(facts.connection, missing, MAKING, grant)


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
