"""Where the partitions are loaded, and the steps around it: planned here, done by the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.catalog import existing
from penstock.backends.postgresql.catalog.privileges import check_creatable, check_owned
from penstock.backends.postgresql.catalog.relations import list_heirs
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import definition, indexes, steps
from penstock.backends.postgresql.ddl.text import Json, Names
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.conflict_key import conflict_columns
from penstock.backends.postgresql.load.loadable import check_loadable
from penstock.backends.postgresql.load.recreate import plan_recreate
from penstock.backends.postgresql.load.sequences import advance_existing
from penstock.backends.postgresql.load.swap import plan_swap
from penstock.backends.postgresql.statements import ident, name
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step


def plan_load(connection: Connection, request: LoadRequest) -> LoadPlan:
    """
    Raises:
        PlanningError: see `TargetCatalog.plan_load`.
    """
    if request.mode.recreates:
        assert request.definition is not None
        if request.definition.dialect == definition.DIALECT:
            return plan_recreate(connection, request, request.definition.content)
        from penstock.backends.postgresql.load.unlike import plain_content  # noqa: PLC0415 - it needs Arrow

        besides = [replace(b, table=str(request.target)) for b in request.definition.besides]
        content = plain_content(request.target, request.made)
        return plan_recreate(connection, request, content, besides)
    if request.mode.builds_beside:
        return plan_swap(connection, request)
    ref = request.target
    found = check_loadable(connection, ref, request.mode)
    with planning("target", f"table {ref}"):
        tree = existing.table_tree(connection, ref)
        # What inherits from it is a table of its own, and left alone.
        only = tree[0].kind == "r" and tree[0].inherits
        _check_heirs(connection, request)
        before: list[Step] = []
        after: list[Step] = []
        warnings: list[str] = []
        if request.mode.truncates:
            _check_referenced(connection, tree)
            rows = f"ONLY {name(ref)}" if only else name(ref)
            before.append(steps.before("truncate", f"truncate {ref}", f"TRUNCATE {rows}"))
        if request.unlogged:
            _unlogged(connection, tree, before, after)
        if request.indexes == "defer":
            _deferred(connection, request, tree, before, after, warnings)
    stored = [relation for relation in tree if relation.kind == "r"]
    unlogged = [relation for relation in stored if relation.persistence == "u"]
    if unlogged and len(unlogged) < len(stored) and request.mode.only_adds:
        raise PlanningError(
            f"--mode append: some partitions of {ref} are unlogged, such as {unlogged[0].ref}, "
            "and others are not: a crash would empty some; expected all or none"
        )
    key, remarks = conflict_columns(connection, request)
    with planning("target", f"sequences of {ref}"):
        advanced, refused = advance_existing(connection, request)
    return LoadPlan(
        replace(ref, only=only),
        (*before, *after, *advanced),
        conflict_columns=key,
        volatile=request.unlogged or bool(unlogged),
        warnings=(*found, *warnings, *remarks, *refused),
    )


def _check_heirs(connection: Connection, request: LoadRequest) -> None:
    """
    Raises:
        PlanningError: rows of several tables would go into one of several.
    """
    theirs = list_heirs(connection, request.target) if request.heirs else ()
    if theirs:
        raise PlanningError(
            f"source: {', '.join(map(str, request.heirs))} inherit from {request.source}, and its "
            f"rows come with theirs; found {', '.join(map(str, theirs))} in the target, which "
            f"inherit from {request.target} too; expected --descendants exclude, and each table "
            "copied by itself, as copy-all does"
        )


def _check_referenced(connection: Connection, tree: Sequence[existing.Relation]) -> None:
    """
    Raises:
        PlanningError: foreign keys of other tables point to this one, so it cannot be truncated.
    """
    oids = [relation.oid for relation in tree]
    rows = connection.execute(
        "SELECT pg_catalog.format('%%I of %%s', k.conname, k.conrelid::regclass)"
        " FROM pg_catalog.pg_constraint AS k"
        " WHERE k.contype = 'f' AND k.confrelid = ANY (%(tables)s::oid[])"
        " AND NOT k.conrelid = ANY (%(tables)s::oid[]) ORDER BY 1",
        {"tables": oids},
    ).fetchall()
    if rows:
        raise PlanningError(
            f"--mode truncate: {tree[0].ref} cannot be truncated, since foreign keys of other "
            f"tables reference it: {', '.join(row[0] for row in rows)}"
        )


def _unlogged(
    connection: Connection,
    tree: Sequence[existing.Relation],
    before: list[Step],
    after: list[Step],
) -> None:
    """The table, or every partition of it, unlogged while it is loaded.

    Raises:
        PlanningError: the server would refuse it.
    """
    check_owned(connection, tree, "--unlogged")
    tables = definition.read_tables(connection, [relation.oid for relation in tree])
    for relation, table in zip(tree, tables, strict=True):
        if relation.kind not in ("r", "p"):
            raise PlanningError(
                f"--unlogged: expected {relation.ref} to be a table, found "
                f"{existing.kind_name(relation)}"
            )
        published = [p["name"] for p in table["attached"]["publications"]]
        if published:
            raise PlanningError(
                f"--unlogged: {relation.ref} is published by {', '.join(published)}, which an "
                "unlogged table cannot be; expected a table without publications"
            )
        if relation.kind == "r" and relation.persistence == "p":
            alter = [f"ALTER TABLE {name(relation.ref)} SET UNLOGGED"]
            if connection.info.server_version >= 150000:
                # They went with the table; a crash would set them back to their start.
                alter += [
                    f"ALTER SEQUENCE {ident(s['schema'], s['name'])} SET LOGGED"
                    for s in table["sequences"]
                    if s["persistence"] == "p"
                ]
            what = f"set {relation.ref} unlogged"
            before.append(steps.before(f"unlogged {relation.oid}", what, *alter))
            after.append(steps.set_logged(relation.ref, relation.oid))


def _deferred(
    connection: Connection,
    request: LoadRequest,
    tree: Sequence[existing.Relation],
    before: list[Step],
    after: list[Step],
    warnings: list[str],
) -> None:
    """Drop the indexes before the load, and build them after it.

    Raises:
        PlanningError: something else needs them, or the user may not.
    """
    if tree[0].kind not in ("r", "p"):
        raise PlanningError(
            f"--indexes defer: expected {tree[0].ref} to be a table, found "
            f"{existing.kind_name(tree[0])}"
        )
    if tree[0].partition:
        raise PlanningError(
            f"--indexes defer: {tree[0].ref} is a partition of another table, whose indexes hold "
            "its own; expected the table itself, or --indexes keep"
        )
    check_owned(connection, tree, "--indexes defer")
    for schema in sorted({relation.ref.schema for relation in tree}):
        check_creatable(connection, schema, "--indexes defer")
    tables = definition.read_tables(connection, [relation.oid for relation in tree])
    usable, broken = indexes.usable_indexes(tables)
    kept = _kept(tables, usable, broken, warnings)
    deferred = {oid: index["name"] for oid, index in usable.items() if oid not in kept}
    for table in tables:
        for index in table["indexes"]:
            if index["oid"] in deferred and index["parent"] not in deferred:
                what = f"drop index {index['name']} of {table['schema']}.{table['name']}"
                drop = indexes.drop_statement(table, index)
                before.append(steps.before(f"drop {index['oid']}", what, drop))
    refs = {relation.oid: relation.ref for relation in tree}
    after += indexes.build_steps(tables, Names(refs, deferred), tablespaces=True)


def _kept(
    tables: Sequence[Json],
    usable: dict[int, Json],
    broken: Sequence[str],
    warnings: list[str],
) -> set[int]:
    """Indexes that stay: something else stands on them, or on those that are attached to them."""
    parents = {index["oid"]: index["parent"] for table in tables for index in table["indexes"]}
    kept = set()
    for oid, index in usable.items():
        if index["needed_by"]:
            root = oid
            while parents.get(root) in usable:
                root = parents[root]
            kept.add(root)
    if kept:
        shown = [
            f"{usable[oid]['name']} ({', '.join(usable[oid]['needed_by']) or 'by its partitions'})"
            for oid in sorted(kept)
        ]
        warnings.append(f"indexes that other objects need are kept: {'; '.join(shown)}")
    if broken:
        warnings.append(f"invalid indexes stay as they are: {', '.join(broken)}")
    # With a partitioned index stay those of the partitions.
    while more := {oid for oid in usable if parents[oid] in kept} - kept:
        kept |= more
    return kept
