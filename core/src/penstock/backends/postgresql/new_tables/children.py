"""Mode attach, planned: the child of the target's table that each partition becomes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psycopg

from penstock.backends.api.optional.children import ChildRequest, PlannedChildren, Windows
from penstock.backends.postgresql.catalog.children import DEFAULT, ExistingChild
from penstock.backends.postgresql.catalog.existing_tables import NamesInSchema, kind_name
from penstock.backends.postgresql.catalog.privileges import check_owned
from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.ddl.children import create_child, index_child
from penstock.backends.postgresql.ddl.text import shorten, temporary_name
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, literal
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Extent, KeyIsNull, KeyOther, KeyRange, KeyValues
from penstock.model.plans import Child, Partition
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart

MODE = "--mode attach"
RANGES, LISTS = "r", "l"
_KINDS = {RANGES: "RANGE", LISTS: "LIST", "h": "HASH"}
# The check of a child without bounds, whose partition may select nothing.
_NOTHING = "false"
# Removed from the first value in a child's name: midnight adds nothing to the day.
_MIDNIGHT = re.compile(r"[ T]00:00:00(?:[+-]\d\d)?$")
_OVERLAP = "42P17"


@dataclass(frozen=True, slots=True)
class _Parent:
    """The partitioning of the target's table."""

    ref: TableRef
    strategy: str
    key: str
    """The key as named in PARTITION BY."""
    column: str
    """The key."""
    type: str
    """The key's type."""
    default: str | None


def plan_children(facts: TargetFacts, schema: str, request: ChildRequest) -> PlannedChildren:
    """See `AttachesChildren.plan_children`.

    Args:
        facts: the facts about the target.
        schema: the control schema.
        request: the request.
    """
    connection = facts.connection
    with planning("target", f"{MODE}: {request.table}"):
        facts.check_server()
        parent = _read_parent(facts, request)
        facts.creatable(request.table.schema, MODE)
        table = facts.root_definition(request.table)
        existing = facts.children(request.table)
        attached = facts.attached(schema)
        names = facts.names(request.table.schema)
        with connection.transaction(force_rollback=True), full_names(connection):
            _rehearse(connection, parent, table)
            partitions = _with_bounds(connection, request, parent)
            planned = _plan_with_existing(
                connection, request, partitions, existing, attached, names
            )
    warnings = list(planned.warnings)
    if parent.default:
        warnings.append(
            f"{parent.default} is the default partition of {request.table}: attaching a child "
            "table locks out its readers while the server scans it"
        )
    return replace(planned, warnings=tuple(warnings))


def _read_parent(facts: TargetFacts, request: ChildRequest) -> _Parent:
    """Read how the target's table is partitioned.

    Raises:
        PlanningError: it has no children, or only kinds that cannot be created separately.
    """
    ref = request.table
    facts.check_exists(ref)
    root, *_ = facts.tree(ref)
    if root.kind != "p":
        raise PlanningError(
            f"{MODE}: expected {ref} to be a partitioned table, found {kind_name(root)}; use "
            "--mode append, or create it with PARTITION BY"
        )
    check_owned(facts.connection, [root], MODE)
    partitioned = facts.partitioned(ref)
    column, type_, key = partitioned.column, partitioned.type, partitioned.key
    into = {pair.source: pair.target for pair in request.pairs}
    if partitioned.strategy not in (RANGES, LISTS) or partitioned.keys != 1 or column is None:
        raise PlanningError(
            f"{MODE}: expected {ref} to be partitioned by RANGE or LIST of one column, found "
            f"PARTITION BY {key}; use --mode append"
        )
    if into.get(request.key) != column:
        raise PlanningError(
            f"{MODE}: {ref} is partitioned by {key}: expected the --key that is loaded into "
            f"{column}, found {request.key}"
        )
    if partitioned.nested:
        raise PlanningError(
            f"{MODE}: expected {ref} to be the root of its partition tree, found a child table; "
            "use --mode append"
        )
    if partitioned.triggers:
        raise PlanningError(
            f"{MODE}: INSERT triggers of {ref} ({', '.join(partitioned.triggers)}) would not see "
            "the rows, which are loaded before their table is attached; drop or disable them, or "
            "use --mode append"
        )
    if partitioned.publications:
        raise PlanningError(
            f"{MODE}: {ref} is published ({', '.join(partitioned.publications)}), and subscribers "
            "would not receive the rows, which are loaded before their table is attached; use "
            "--mode append"
        )
    lacking = [column for column in partitioned.identities if column not in into.values()]
    if lacking:
        raise PlanningError(
            f"{MODE}: the identity column {', '.join(lacking)} of {ref} is not copied, and a table "
            "that is not attached yet cannot generate it; copy it, or use --mode append"
        )
    return _Parent(ref, partitioned.strategy, key, column, str(type_), partitioned.default)


def _rehearse(connection: Connection, parent: _Parent, table: TablePart) -> None:
    """Create a child without rows, to find errors now, and a table for trying bounds.

    That table is partitioned like the target, but has only the key.
    """
    child = TableRef(parent.ref.schema, temporary_name("rehearsal", parent.ref.name))
    version = connection.info.server_version
    (key,) = [column for column in table["columns"] if column["name"] == parent.column]
    collate = f" COLLATE {key['collation']}" if key["collation"] else ""
    for query in (
        *create_child(table, child, "true", version),
        *index_child(table, child),
        f"CREATE TEMPORARY TABLE penstock_parent ({ident(parent.column)} {key['type']}{collate}) "
        f"PARTITION BY {parent.key}",
    ):
        connection.execute(query.encode())


_PARENT = "pg_temp.penstock_parent"


def _with_bounds(connection: Connection, request: ChildRequest, parent: _Parent) -> list[Partition]:
    """Return the partitions with their children, named only by the ends of the names so far.

    The server writes the bounds and their meaning, from tables created for that purpose.
    """
    planned = []
    for number, partition in enumerate(request.partitions):
        extent = _closed_window(connection, partition.extent, parent.type, request.windows)
        bounds = _bounds(partition, extent, parent)
        ref = TableRef(parent.ref.schema, f"_p{_first_value(extent)}")
        if not bounds:
            child = Child(ref, "", _NOTHING)
        else:
            table = f"pg_temp.penstock_child_{number}"
            _make_part(connection, table, bounds, f"partition {partition}")
            child = Child(ref, *_read_back(connection, table))
        planned.append(replace(partition, child=child))
    return planned


def _read_back(connection: Connection, table: str) -> tuple[str, str]:
    query = (
        "SELECT pg_catalog.pg_get_expr(c.relpartbound, c.oid),"
        " pg_catalog.pg_get_partition_constraintdef(c.oid)"
        f" FROM pg_catalog.pg_class AS c WHERE c.oid = {literal(table)}::regclass"
    )
    bounds, check = connection.first(query)
    return bounds, check


def _make_part(connection: Connection, table: str, bounds: str, what: str) -> None:
    """Create a child with some bounds.

    Raises:
        PlanningError: it overlaps one created before.
    """
    try:
        connection.execute(f"CREATE TABLE {table} PARTITION OF {_PARENT} {bounds}".encode())
    except psycopg.errors.InvalidObjectDefinition as error:
        reason = error.diag.message_primary or ""
        raise PlanningError(f"{MODE}: {what} cannot be a child ({bounds}): {reason}") from error


def _closed_window(
    connection: Connection, extent: Extent, type_: str, windows: Windows | None
) -> Extent:
    """Return a window with both bounds, so that the next one finds its range free.

    A row outside the bounds that the partition selects anyway makes the attempt fail.
    """
    if windows is None or not isinstance(extent, KeyRange):
        return extent
    lower = extent.lower or windows.first
    if extent.upper is not None:
        return replace(extent, lower=lower)
    query = f"SELECT ((%s::{type_})::timestamp + %s::interval)::{type_}::text"
    end = connection.value(query.encode(), [lower.text, windows.interval])
    return replace(extent, lower=lower, upper=Bound(lower.type, end))


def _bounds(partition: Partition, extent: Extent, parent: _Parent) -> str:
    """Return bounds as ATTACH PARTITION expects them; empty if there are none.

    Raises:
        PlanningError: the table is not partitioned in this way.
    """
    match extent:
        case KeyRange(_, lower, upper) if parent.strategy == RANGES:
            return f"FOR VALUES FROM ({_bound(lower, 'MINVALUE')}) TO ({_bound(upper, 'MAXVALUE')})"
        case KeyValues(_, values) if parent.strategy == LISTS:
            return f"FOR VALUES IN ({', '.join(literal(value.text) for value in values)})"
        case KeyIsNull() if parent.strategy == LISTS:
            return "FOR VALUES IN (NULL)"
        case KeyIsNull() | KeyOther():
            return ""
    strategy = "time or range" if parent.strategy == RANGES else "values"
    raise PlanningError(
        f"{MODE}: {parent.ref} is partitioned by {parent.key}: expected --strategy {strategy}, "
        f"found partition {partition}"
    )


def _bound(bound: Bound | None, without: str) -> str:
    return literal(bound.text) if bound else without


def _plan_with_existing(
    connection: Connection,
    request: ChildRequest,
    partitions: Sequence[Partition],
    existing: Sequence[ExistingChild],
    attached: Collection[int],
    names: NamesInSchema,
) -> PlannedChildren:
    """Plan the children next to existing ones.

    Args:
        connection: a session in the transaction that is rolled back.
        request: the request.
        partitions: the partitions with their bounds.
        existing: the existing children.
        attached: the object ids of children attached by runs of mode attach.
        names: the names in the table's schema.

    Raises:
        PlanningError: an existing child conflicts.
    """
    existing_by_bounds = {child.bounds: child for child in existing}
    planned = {p.child.bounds: p for p in partitions if p.child and p.child.bounds}
    for number, child in enumerate(existing):
        if child.bounds not in planned and child.bounds != DEFAULT:
            what = f"{child.ref}, an existing child table of {request.table},"
            try:
                _make_part(connection, f"pg_temp.penstock_old_{number}", child.bounds, what)
            except PlanningError as error:
                raise PlanningError(_overlap(child, request.table, partitions, error)) from error
    warnings = []
    for bounds, partition in planned.items():
        old = existing_by_bounds.get(bounds)
        if old is None:
            continue
        if old.oid in attached and not request.selective:
            warnings.append(f"{old.ref} ({bounds}) is replaced by partition {partition.id}")
        elif not request.selective:
            raise PlanningError(
                f"{MODE}: {old.ref} already has the bounds of partition {partition}, and --mode "
                "attach did not create it; detach or drop it, or use --mode replace"
            )
        else:
            warnings.append(
                f"{old.ref} ({bounds}) exists, and a run with a condition replaces no child "
                f"table: partition {partition.id} fails if it has rows"
            )
    children = _name_children(names, request.table, partitions, existing_by_bounds)
    return PlannedChildren(tuple(children), (), tuple(warnings))


def _overlap(
    child: ExistingChild, table: TableRef, partitions: Sequence[Partition], error: PlanningError
) -> str:
    match = re.search(r'penstock_child_(\d+)"', error.message)
    which = f"partition {partitions[int(match[1])]}" if match else "a planned partition"
    return (
        f"{MODE}: {child.ref}, a child table of {table} ({child.bounds}), overlaps {which}; "
        "expected partitions outside the existing child tables, or with exactly the bounds of one; "
        "detach it, or use --mode append or replace"
    )


def _name_children(
    names: NamesInSchema,
    table: TableRef,
    partitions: Sequence[Partition],
    existing_by_bounds: Mapping[str, ExistingChild],
) -> list[Partition]:
    """Name each child after its parent and its first value, by a free name."""
    new_names: set[str] = set()
    planned = []
    for partition in partitions:
        child = partition.child
        assert child is not None
        if child.bounds in existing_by_bounds:
            ref = existing_by_bounds[child.bounds].ref
        else:
            ending = child.table.name[:40]
            label, number = shorten(table.name, ending), 1
            while label in new_names or names.holds(label):
                number += 1
                label = shorten(table.name, f"{ending}_{number}")
            new_names.add(label)
            ref = TableRef(table.schema, label)
        planned.append(replace(partition, child=replace(child, table=ref)))
    return planned


def _first_value(extent: Extent) -> str:
    match extent:
        case KeyRange(_, Bound(_, text), _) | KeyValues(_, (Bound(_, text), *_)):
            return re.sub(r"\W+", "_", _MIDNIGHT.sub("", text)).strip("_").lower()
        case KeyIsNull():
            return "null"
        case _:
            return "min"
