"""Changes to a table during the load, reverted after it: logging, and indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.catalog import existing_tables
from penstock.backends.postgresql.catalog.privileges import check_owned
from penstock.backends.postgresql.ddl import indexes, steps
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, name
from penstock.errors import PlanningError
from penstock.model.plans import Step
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import IndexPart, TablePart


def unlog(facts: TargetFacts, ref: TableRef, before: list[Step], after: list[Step]) -> None:
    """Add steps that keep the table, or each of its child tables, unlogged during the load.

    Args:
        facts: the facts about the target.
        ref: the table.
        before: receives steps before the first partition.
        after: receives steps after the last partition.

    Raises:
        PlanningError: the server would reject it.
    """
    tree = facts.tree(ref)
    check_owned(facts.connection, tree, "--unlogged")
    for relation, table in zip(tree, facts.whole_definition(ref), strict=True):
        if relation.kind not in ("r", "p"):
            raise PlanningError(
                f"--unlogged: expected {relation.ref} to be a table, found "
                f"{existing_tables.kind_name(relation)}"
            )
        published = [p["name"] for p in table["attached"]["publications"]]
        if published:
            raise PlanningError(
                f"--unlogged: {relation.ref} is published ({', '.join(published)}), and an "
                "unlogged table cannot be; expected a table without publications"
            )
        if relation.kind == "r" and relation.persistence == "p":
            alter = [f"ALTER TABLE {name(relation.ref)} SET UNLOGGED"]
            if facts.connection.info.server_version >= 150000:
                # They are unlogged with the table, and a crash would reset them.
                alter += [
                    f"ALTER SEQUENCE {ident(s['schema'], s['name'])} SET LOGGED"
                    for s in table["sequences"]
                    if s["persistence"] == "p"
                ]
            what = f"set {relation.ref} unlogged"
            before.append(steps.before(f"unlogged {relation.oid}", what, *alter))
            after.append(steps.set_logged(relation.ref, relation.oid))


def defer_indexes(
    facts: TargetFacts,
    ref: TableRef,
    before: list[Step],
    after: list[Step],
    warnings: list[str],
) -> None:
    """Add steps that drop the indexes before the load, and rebuild them after it.

    Args:
        facts: the facts about the target.
        ref: the table.
        before: receives steps before the first partition.
        after: receives steps after the last partition.
        warnings: receives warnings about indexes that stay.

    Raises:
        PlanningError: other objects need the indexes, or the user may not drop them.
    """
    tree = facts.tree(ref)
    if tree[0].kind not in ("r", "p"):
        raise PlanningError(
            f"--indexes defer: expected {tree[0].ref} to be a table, found "
            f"{existing_tables.kind_name(tree[0])}"
        )
    if tree[0].partition:
        raise PlanningError(
            f"--indexes defer: {tree[0].ref} is a child table, and its indexes belong to its "
            "parent's; load the parent, or use --indexes keep"
        )
    check_owned(facts.connection, tree, "--indexes defer")
    for schema in sorted({relation.ref.schema for relation in tree}):
        facts.creatable(schema, "--indexes defer")
    tables = facts.whole_definition(ref)
    usable, broken = indexes.usable_indexes(tables)
    indexes_to_keep = _indexes_to_keep(tables, usable, broken, warnings)
    deferred = {oid: index["name"] for oid, index in usable.items() if oid not in indexes_to_keep}
    for table in tables:
        for index in table["indexes"]:
            if index["oid"] in deferred and index["parent"] not in deferred:
                what = f"drop index {index['name']} of {table['schema']}.{table['name']}"
                drop = indexes.drop_statement(table, index)
                before.append(steps.before(f"drop {index['oid']}", what, drop))
    refs = {relation.oid: relation.ref for relation in tree}
    after += indexes.build_steps(tables, Names(refs, deferred), tablespaces=True)


def _indexes_to_keep(
    tables: Sequence[TablePart],
    usable: dict[int, IndexPart],
    broken: Sequence[str],
    warnings: list[str],
) -> set[int]:
    """Return the indexes to keep, because other objects depend on them or their parts."""
    parents = {index["oid"]: index["parent"] for table in tables for index in table["indexes"]}
    roots = set()
    for oid, index in usable.items():
        if index["needed_by"]:
            root = oid
            while (parent := parents.get(root)) is not None and parent in usable:
                root = parent
            roots.add(root)
    if roots:
        shown = [
            f"{usable[oid]['name']} ({', '.join(usable[oid]['needed_by']) or 'by child tables'})"
            for oid in sorted(roots)
        ]
        warnings.append(f"indexes that other objects need are kept: {'; '.join(shown)}")
    if broken:
        warnings.append(f"invalid indexes stay as they are: {', '.join(broken)}")
    # Keeping a partitioned index means keeping those of its child tables.
    while more := {oid for oid in usable if parents[oid] in roots} - roots:
        roots |= more
    return roots
