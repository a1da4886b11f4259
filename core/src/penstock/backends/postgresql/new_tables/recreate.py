"""Mode recreate: create a table like the source's, which replaces the target's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.backends.api.facts import LoadRequest, Siblings
from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.catalog.privileges import check_owned
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.ddl.attachments import omitted_objects
from penstock.backends.postgresql.ddl.foreign_keys import FOREIGN_KEYS
from penstock.backends.postgresql.ddl.links import (
    Links,
    links_of,
    relink_steps,
    unlink_steps,
)
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.target_facts import TargetFacts, check_place
from penstock.backends.postgresql.new_tables.exchange import exchange_statements
from penstock.backends.postgresql.new_tables.naming import names_for, temporary_names
from penstock.backends.postgresql.new_tables.new_table import NewTable
from penstock.backends.postgresql.new_tables.rehearsal import Rehearsals
from penstock.backends.postgresql.session.statements import ident, name
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        Content,
        TablePart,
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
    new = NewTable(facts, request, definitions, missing, names, made)
    before = [*(unlink_steps(linked) if not beside else ()), *new.create_steps()]
    after = [
        *new.advance_steps(),
        *(_links_to_itself(definitions, made, links) if beside else links.to_itself),
        *new.completion_steps(),
        *(late.steps(request.run_id, new.table) if late else ()),
    ]
    if beside:
        with planning("target", f"{NEEDS}: {ref}"):
            exchange = exchange_statements(facts, ref, linked, definitions, made, names)
            kind = steps.LINKED if _is_linked(facts, ref, linked) else ""
        more = late.rename_statements(request.run_id) if late else ()
        after.append(replace(new.swap_step(after, *exchange, *more), kind=kind))
    alone = isinstance(request.source, TableRef) and request.source.only
    return LoadPlan(
        replace(new.table, only=alone),
        (*before, *after),
        volatile=new.is_volatile,
        warnings=tuple(warnings),
        not_copied=(
            *omitted_before,
            *omitted,
            *other_owners(facts.connection, definitions, names),
            *dropped_objects,
        ),
        links=(*links.to_others, *relink_steps(linked)),
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
