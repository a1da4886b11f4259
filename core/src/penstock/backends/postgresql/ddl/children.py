"""A table that becomes a child of a partitioned one, created as the server creates children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl.tables import create_table
from penstock.backends.postgresql.ddl.text import Names, replace_table_name
from penstock.backends.postgresql.session.statements import ident, name
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import ColumnPart, ConstraintPart, TablePart

# The constraint that lets the server conclude, without reading rows, that they are within the
# bounds.
BOUNDS_CONSTRAINT = "penstock_child_bounds"


def create_child(parent: TablePart, ref: TableRef, check: str, version: int) -> list[str]:
    """Return statements that create the table, detached from its parent and without indexes.

    Args:
        parent: the parent's definition.
        ref: the child's name.
        check: see `Child`.
        version: the server's version.
    """
    # Sequences belong to the parent: defaults draw from them, and attaching the child transfers the
    # identity columns.
    columns: list[ColumnPart] = [{**column, "identity": ""} for column in parent["columns"]]
    # All rows are new, and a child with fewer constraints than its parent could not be attached.
    constraints: list[ConstraintPart] = [
        {**c, "validated": True, "definition": c["definition"].removesuffix(" NOT VALID")}
        for c in parent["constraints"]
    ]
    standalone: TablePart = {
        **parent, "partition_key": None, "parent": None, "columns": columns,
        "constraints": constraints, "sequences": [],
        "used_sequences": [], "options": [], "toast_options": [], "replica_identity": "d",
    }  # fmt: skip
    names = Names({parent["oid"]: ref})
    statements = create_table(standalone, names, persistence="p", version=version, tablespace=True)
    return [
        *statements,
        f"ALTER TABLE {name(ref)} ADD CONSTRAINT {BOUNDS_CONSTRAINT} CHECK ({check})",
        f"ALTER TABLE {name(ref)} OWNER TO {ident(parent['owner'])}",
    ]


def index_child(parent: TablePart, ref: TableRef) -> list[str]:
    """Return statements that create all of the parent's indexes, so that attaching builds none."""
    statements = []
    for index in parent["indexes"]:
        if index["tablespace"]:
            statements.append(f"SET LOCAL default_tablespace = {ident(index['tablespace'])}")
        if index["constraint"] is not None:
            definition = replace_table_name(index["constraint"]["definition"], parent, ref)
            statements.append(f"ALTER TABLE {name(ref)} ADD {definition}")
        else:
            unique = "UNIQUE " if index["unique"] else ""
            tail = replace_table_name(index["tail"], parent, ref)
            statements.append(f"CREATE {unique}INDEX ON {name(ref)} {tail}")
        if index["tablespace"]:
            statements.append("SET LOCAL default_tablespace TO DEFAULT")
    return statements
