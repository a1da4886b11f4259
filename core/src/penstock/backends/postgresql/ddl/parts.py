"""The parts of a table's definition, in the form in which the catalog's queries return them."""

from __future__ import annotations

from typing import TypedDict


class ColumnDetails(TypedDict):
    """A column's properties other than its name and type."""

    not_null: bool
    default: str | None
    """The expression of a default, or of a computed column."""
    generated: str
    """``s`` (stored) or ``v`` (virtual) for a computed column, otherwise empty."""
    identity: str
    """``a`` (always) or ``d`` (by default) for an identity column, otherwise empty."""
    storage: str | None
    compression: str | None
    statistics: int | None
    options: list[str]
    inherited: bool


class ColumnPart(ColumnDetails):
    """A column."""

    name: str
    type: str
    type_oid: int | None
    """None if the type is created with the table."""
    collation: str | None
    """None if it is the type's own."""
    comment: str | None


ConstraintPart = TypedDict(
    "ConstraintPart",
    {
        "name": str,
        "kind": str,
        "definition": str,
        "validated": bool,
        "no_inherit": bool,
        "column": str,
        "columns": str,
        "from": list[str],
        "to": list[str] | None,
        "on_delete": str,
        "on_update": str,
        "local": bool,
        "inherited": bool,
        "references_itself": bool,
        "references": list[str] | None,
        "comment": str | None,
    },
)
"""A constraint without an index: ``c`` (check), ``f`` (foreign key) or ``n`` (not null)."""


class IndexConstraint(TypedDict):
    """The constraint of an index: ``p`` (primary key), ``u`` (unique) or ``x`` (exclusion)."""

    kind: str
    definition: str
    columns: list[str]
    deferrable: bool
    deferred: bool
    by_index: bool
    """Whether it can be added with an existing index."""
    comment: str | None


class IndexPart(TypedDict):
    """An index."""

    oid: int
    name: str
    parent: int | None
    """The index of the parent of which it is a part."""
    unique: bool
    valid: bool
    clustered: bool
    replica_identity: bool
    tail: str
    """The definition after the table's name: ``USING method (columns) ...``."""
    tablespace: str | None
    comment: str | None
    statistics: list[tuple[int, int]]
    """Numbers of columns, and their statistics targets."""
    constraint: IndexConstraint | None
    needed_by: list[str]


class SequencePart(TypedDict):
    """A sequence that a column owns, or that its default uses."""

    schema: str
    name: str
    written: str
    """How the server writes it in an expression."""
    column: str
    identity: bool
    persistence: str
    type: str
    start: int
    increment: int
    min: int
    max: int
    cache: int
    cycle: bool
    grants: list[tuple[str, str, bool]]
    """Privilege, grantee, and whether it can be granted on."""
    readable: bool
    comment: str | None
    value: tuple[int, bool] | None
    """Its last value, and whether it is called; None if it is not readable."""


class StatisticsPart(TypedDict):
    """Extended statistics."""

    schema: str
    name: str
    target: int | None
    body: str
    """The definition between its name and the table's."""
    comment: str | None


class TriggerPart(TypedDict):
    """A trigger."""

    name: str
    definition: str
    enabled: str
    inherited: bool
    parent_enabled: str | None
    comment: str | None


class RulePart(TypedDict):
    """A rewrite rule."""

    name: str
    definition: str
    enabled: str
    comment: str | None


class PolicyPart(TypedDict):
    """A policy of row security."""

    name: str
    command: str
    permissive: bool
    roles: list[str]
    using: str | None
    check: str | None
    comment: str | None


class GrantPart(TypedDict):
    """A privilege on the table, or on a column."""

    column: str | None
    privilege: str
    grantee: str
    own: bool
    """Whether the grantee is the owner."""
    option: bool


class PublicationPart(TypedDict):
    """A publication that lists the table."""

    name: str
    mine: bool
    """Whether the user may change it."""
    owner: str
    columns: list[str] | None
    condition: str | None


class AttachedParts(TypedDict):
    """Objects that belong to a table without being part of it."""

    triggers: list[TriggerPart]
    rules: list[RulePart]
    policies: list[PolicyPart]
    grants: list[GrantPart]
    default_grants: bool
    publications: list[PublicationPart]


class NeedPart(TypedDict):
    """An object that a table needs and that is not created with it."""

    kind: str
    name: str
    address: list[object]
    """The arguments by which the server finds it."""
    extension: str | None


class TableDetails(TypedDict):
    """A table's properties other than its columns."""

    partition_key: str | None
    persistence: str
    options: list[str]
    toast_options: list[str]
    method: str | None
    replica_identity: str
    constraints: list[ConstraintPart]
    indexes: list[IndexPart]
    sequences: list[SequencePart]
    used_sequences: list[SequencePart]
    statistics: list[StatisticsPart]


class TablePart(TableDetails):
    """A table with its columns, constraints and indexes."""

    oid: int
    schema: str
    name: str
    written: str
    regclass: str
    """Its quoted name as a text literal."""
    kind: str
    owner: str
    tablespace: str | None
    comment: str | None
    hypertable: bool
    typed: str | None
    schema_comment: str | None
    row_security: bool
    force_row_security: bool
    bound: str | None
    inherits: list[list[str]]
    parent: int | None
    needs: list[NeedPart]
    columns: list[ColumnPart]
    attached: AttachedParts


class TypeCheck(TypedDict):
    """A check of a domain."""

    name: str
    definition: str
    comment: str | None


class TypeAttribute(TypedDict):
    """An attribute of a composite type."""

    name: str
    type: str
    type_oid: int
    collation: str | None
    comment: str | None


RangePart = TypedDict(
    "RangePart",
    {
        "subtype": str,
        "subtype_oid": int,
        "class": str,
        "collation": str | None,
        "canonical": str | None,
        "subdiff": str | None,
        "multirange": str | None,
    },
)
"""The properties that only range types have."""


class TypePart(TypedDict):
    """A type that is not built in."""

    oid: int
    array_oid: int
    schema: str
    name: str
    kind: str
    element: int | None
    relation: str | None
    extension: str | None
    """The extension that it belongs to."""
    comment: str | None
    schema_comment: str | None
    labels: list[str] | None
    base: str | None
    base_oid: int | None
    not_null: bool
    default: str | None
    collation: str | None
    checks: list[TypeCheck] | None
    attributes: list[TypeAttribute] | None
    range: RangePart | None
    range_oid: int | None


class Content(TypedDict):
    """A table to create: `TableDefinition.native`."""

    tables: list[TablePart]
    """The table, followed by the tables it consists of."""
    types: list[TypePart]
    """The types that are not built in, each after its components."""
    warnings: list[str]
    of_partitions: list[tuple[str, str]]
    """Kinds and names of objects that only child tables have, if these are not created."""
