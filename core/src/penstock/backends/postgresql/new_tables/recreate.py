"""Mode recreate: create a table like the source's, which replaces the target's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.backends.api.facts import LoadRequest, Siblings
from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.catalog.privileges import check_owned, missing_grant
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.catalog.sequences import ColumnSequence
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import completion, indexes, steps, tables
from penstock.backends.postgresql.ddl.attachments import omitted_objects
from penstock.backends.postgresql.ddl.foreign_keys import FOREIGN_KEYS
from penstock.backends.postgresql.ddl.links import (
    Links,
    links_of,
    relink_steps,
    unlink_steps,
)
from penstock.backends.postgresql.ddl.text import Names, comment, shorten
from penstock.backends.postgresql.ddl.types import create_type
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.sequences import advance_steps
from penstock.backends.postgresql.load.target_facts import WHOLE_NUMBERS, TargetFacts, check_place
from penstock.backends.postgresql.new_tables.exchange import exchange_statements, temporary_names
from penstock.backends.postgresql.new_tables.rehearsal import NEEDS as MAKING
from penstock.backends.postgresql.new_tables.rehearsal import Rehearsals
from penstock.backends.postgresql.session.statements import ident, name
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        Content,
        SequencePart,
        StatisticsPart,
        TablePart,
        TypePart,
    )
    from penstock.backends.postgresql.new_tables.late_parts import LateParts

NEEDS = "--mode recreate"


def plan_recreate(
    facts: TargetFacts,
    request: LoadRequest,
    content: Content,
    omitted_before: Sequence[NotCopied] = (),
    late: LateParts | None = None,
) -> LoadPlan:
    """Plan to create the target like the source.

    A table that exists stays until the new one, built beside it, is loaded and finished, and takes
    its place. Without one, or without rows, the new table has its own name from the beginning.

    Args:
        facts: the facts about the target.
        request: the request.
        content: the parts of the definition to create.
        omitted_before: what the source's table has but the definition leaves out.
        late: more parts, created after everything else.

    Raises:
        PlanningError: something depends on the target's table, the target lacks what the source's
            table needs, or a privilege is missing.
    """
    ref = request.target
    definitions: Sequence[TablePart] = content["tables"]
    old, linked = _check_droppable(facts, ref, request.siblings.recreated)
    with planning("target", f"{NEEDS}: {ref}"):
        missing = facts.derive(Rehearsals).missing(ref, content)
        warnings = [*content["warnings"], *_owner_warnings(facts.connection, old)]
        names = names_for(facts, ref, definitions, old, warnings)
        beside = bool(old) and not request.schema_only
        made = temporary_names(request.run_id, names, definitions) if beside else names
        links = links_of(definitions, names, request.siblings)
        omitted = (
            *links.omitted,
            *omitted_objects(definitions, names.table, excluded_kind=FOREIGN_KEYS),
        )
        linking = (*links.to_itself, *links.to_others)
        stated = (*omitted, *(step.instead for step in linking if step.instead))
        mentioned = {(item.kind, item.name, item.table) for item in stated}
        dropped_objects = [
            item
            for item in _attached_objects(facts, ref)
            if (item.kind, item.name, item.table) not in mentioned
        ]
    version = facts.connection.info.server_version
    table = made.table(definitions[0])
    before = [
        *(unlink_steps(linked) if not beside else ()),
        steps.before("drop", f"drop {table}", f"DROP TABLE IF EXISTS {name(table)}"),
        *schema_steps(facts, names, definitions, missing),
        *type_steps([each for each in missing if each["oid"]]),
        *(_create_step(request, each, made, names, version, missing) for each in definitions),
    ]
    after = [
        *advance_new(request, definitions[0], made),
        *(_links_to_itself(definitions, made, links) if beside else links.to_itself),
        *_completion_steps(request, definitions, made),
    ]
    more: list[str] = []
    if late:
        after += late.steps(request.run_id, table)
        more += late.rename_statements(request.run_id)
    if beside:
        with planning("target", f"{NEEDS}: {ref}"):
            exchange = exchange_statements(facts, ref, linked, definitions, made, names)
            kind = steps.LINKED if _is_linked(facts, ref, linked) else ""
        what, rank = f"swap {table} for {ref}", 1 + max((step.rank for step in after), default=0)
        swap = steps.after(steps.SWAP, what, rank, *exchange, *more, urgent=True)
        after.append(replace(swap, kind=kind))
    alone = isinstance(request.source, TableRef) and request.source.only
    return LoadPlan(
        replace(table, only=alone),
        (*before, *after),
        volatile=request.unlogged
        or any(t["persistence"] == "u" and t["partition_key"] is None for t in definitions),
        warnings=tuple(warnings),
        not_copied=(
            *omitted_before,
            *omitted,
            *other_owners(facts.connection, definitions, names),
            *dropped_objects,
        ),
        links=(*links.to_others, *relink_steps(linked)),
    )


def _create_step(
    request: LoadRequest,
    table: TablePart,
    made: Names,
    names: Names,
    version: int,
    types: Sequence[TypePart],
) -> Step:
    ref, becomes = made.table(table), names.table(table)
    return steps.before(
        f"create {table['oid']}",
        f"create {ref}" if ref == becomes else f"create {ref}, to become {becomes}",
        # Types of its columns alone are created with it, or not at all.
        *(create_type(each) for each in types if not each["oid"]),
        *creation(request, table, made, version),
    )


def creation(request: LoadRequest, table: TablePart, names: Names, version: int) -> list[str]:
    """Return statements that create a table, without what is created after the load.

    Args:
        request: the request.
        table: the table's definition.
        names: its names in the target.
        version: the version of the target's server.
    """
    persistence = "u" if request.unlogged else table["persistence"]
    return [
        *tables.create_table(table, names, persistence=persistence, version=version),
        *tables.set_sequences(table, names, keep=request.sequence_positions is None),
        *tables.comments(table, names, version),
    ]


def _completion_steps(
    request: LoadRequest, definitions: Sequence[TablePart], names: Names
) -> Iterator[Step]:
    """Yield the steps that complete the tables after the load."""
    for table in definitions:
        if request.unlogged and table["persistence"] == "p" and table["partition_key"] is None:
            yield steps.set_logged(names.table(table), table["oid"])
    yield from indexes.build_steps(definitions, names, tablespaces=False)
    for table in definitions:
        late = [
            *tables.unchecked_constraints(table, names),
            *tables.create_statistics(table, names),
        ]
        if late:
            yield steps.after(
                f"complete {table['oid']}",
                f"create statistics and constraints of {names.table(table)}",
                steps.COMPLETE,
                *late,
                done=completion.is_complete(table, names, policies=False),
            )


def _links_to_itself(definitions: Sequence[TablePart], made: Names, links: Links) -> Iterator[Step]:
    """Yield the steps that link tables to themselves while they have temporary names."""
    under_names = links_of(definitions, made, Siblings()).to_itself
    for step, final in zip(under_names, links.to_itself, strict=True):
        yield replace(step, instead=final.instead)


def _is_linked(
    facts: TargetFacts, ref: TableRef, linked: Sequence[existing_tables.TableLink]
) -> bool:
    """Whether dropping a table locks others."""
    return bool(linked) or any(
        table["inherits"] or any(each["kind"] == "f" for each in table["constraints"])
        for table in facts.definitions(ref)
    )


def _check_droppable(
    facts: TargetFacts, ref: TableRef, remade: Collection[TableRef] = ()
) -> tuple[list[existing_tables.Relation], list[existing_tables.TableLink]]:
    """Return the relations of the existing table, and the links to remove before it is dropped.

    Args:
        facts: the facts about the target.
        ref: the table to drop.
        remade: tables recreated together with it, so that links to them can be removed.

    Raises:
        PlanningError: it cannot be dropped, or no table can be created in its place.
    """
    check_place(facts, ref, NEEDS)
    with planning("target", f"{NEEDS}: {ref}"):
        old = facts.tree(ref)
        if not old:
            return [], []
        if old[0].kind not in ("r", "p"):
            raise PlanningError(
                f"{NEEDS}: expected {ref} to be a table, or not to exist, found "
                f"{existing_tables.kind_name(old[0])}"
            )
        if old[0].partition:
            raise PlanningError(
                f"{NEEDS}: {ref} is a child table, and its parent would lose it; detach it first"
            )
        check_owned(facts.connection, old[:1], NEEDS)
        linked = [
            link for link in facts.links(ref) if link.kind == "sequence" or link.root in remade
        ]
        dependents = existing_tables.listed_dependents(facts.dependents(ref), removed=linked)
    if dependents:
        raise PlanningError(
            f"{NEEDS}: {ref} cannot be dropped, because other objects depend on it: "
            f"{'; '.join(dependents)}; drop them first, and create them again after the copy"
        )
    return old, linked


def _attached_objects(facts: TargetFacts, ref: TableRef) -> tuple[NotCopied, ...]:
    """Return the objects attached to the existing table, which are dropped with it."""
    definitions = facts.definitions(ref)
    return omitted_objects(
        definitions, lambda table: TableRef(table["schema"], table["name"]), dropped=True
    )


def _owner_warnings(connection: Connection, old: Sequence[existing_tables.Relation]) -> list[str]:
    """Return a warning if the existing table belongs to another user."""
    user = connection.info.user
    if not old or old[0].owner == user:
        return []
    return [f"the target's owner changes from {old[0].owner} to {user}"]


def other_owners(
    connection: Connection, definitions: Sequence[TablePart], names: Names
) -> Iterator[NotCopied]:
    """Yield the source's owners of tables that another user creates in the target."""
    for table in definitions:
        if table["owner"] not in ("", connection.info.user):
            owner, ref = table["owner"], names.table(table)
            remedy = f"ALTER TABLE {name(ref)} OWNER TO {ident(owner)};"
            yield NotCopied("owners", owner, remedy, str(ref))


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


def advance_new(request: LoadRequest, table: TablePart, names: Names) -> list[Step]:
    """Return steps that advance the sequences of a new table.

    Args:
        request: the request.
        table: the table's definition.
        names: its names in the target.
    """
    sequences = [
        ColumnSequence(item["column"], ref, item["increment"])
        for item in (*table["sequences"], *table["used_sequences"])
        if (ref := names.sequences.get((item["schema"], item["name"]))) is not None
    ]
    integers = {column["name"] for column in table["columns"] if column["type"] in WHOLE_NUMBERS}
    only = table["partition_key"] is None
    return advance_steps(request, names.table(table), sequences, integers, only=only)


def type_steps(types: Sequence[TypePart]) -> list[Step]:
    """Return steps that create types, unless another run has done so."""
    return [
        Step(
            f"type {each['oid']}",
            f"create type {each['schema']}.{each['name']}",
            create_type(each),
            done=completion.has_type(each["schema"], each["name"]),
        )
        for each in types
    ]


def schema_steps(
    facts: TargetFacts, names: Names, definitions: Sequence[TablePart], types: Sequence[TypePart]
) -> list[Step]:
    """Return steps that create the schemas that do not exist, unless another run has done so.

    They get the comments of the source's schemas.

    Args:
        facts: the facts about the target.
        names: the names of the new objects.
        definitions: the tables.
        types: the types created with the table.
    """
    schemas = {ref.schema for ref in (*names.tables.values(), *names.sequences.values())}
    schemas |= {type_["schema"] for type_ in types}
    comments = {type_["schema"]: type_.get("schema_comment") for type_ in types}
    comments |= {names.table(each).schema: each.get("schema_comment") for each in definitions}
    return [
        replace(
            steps.before(
                f"schema {schema}",
                f"create schema {schema}",
                f"CREATE SCHEMA IF NOT EXISTS {ident(schema)}",
                *comment("SCHEMA", ident(schema), comments.get(schema)),
            ),
            makes_schema=schema,
            done=completion.has_schema(schema),
        )
        for schema in sorted(schemas)
        if not facts.creatable(schema, MAKING)
    ]
