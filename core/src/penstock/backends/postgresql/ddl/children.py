"""A table that becomes a child of a partitioned one, made as the server itself makes children."""

from __future__ import annotations

from penstock.backends.postgresql.ddl.tables import create_table
from penstock.backends.postgresql.ddl.text import Json, Names, under_name
from penstock.backends.postgresql.session.statements import ident, name
from penstock.model.tables import TableRef

# The constraint by which the server knows, without reading them, that rows are within the bounds.
WITHIN = "penstock_child_bounds"


def create_child(parent: Json, ref: TableRef, check: str, version: int) -> list[str]:
    """The table, still apart from its parent, and without indexes.

    Parameters:
        parent: its definition.
        check: see `Child`.
        version: of the server.
    """
    # Sequences are the parent's: its defaults draw from them, and its identities are taken over
    # when the child is attached.
    columns = [column | {"identity": ""} for column in parent["columns"]]
    # Its rows are all new, and a child with less than its parent would not be attached.
    constraints = [
        c | {"validated": True, "definition": c["definition"].removesuffix(" NOT VALID")}
        for c in parent["constraints"]
    ]
    apart = {
        **parent, "partition_key": None, "parent": None, "columns": columns,
        "constraints": constraints, "sequences": [],
        "used_sequences": [], "options": [], "toast_options": [], "replica_identity": "d",
    }  # fmt: skip
    names = Names({parent["oid"]: ref})
    made = create_table(apart, names, persistence="p", version=version, tablespace=True)
    return [
        *made,
        f"ALTER TABLE {name(ref)} ADD CONSTRAINT {WITHIN} CHECK ({check})",
        f"ALTER TABLE {name(ref)} OWNER TO {ident(parent['owner'])}",
    ]


def index_child(parent: Json, ref: TableRef) -> list[str]:
    """All indexes of the parent, so that to attach the child builds none."""
    statements = []
    for index in parent["indexes"]:
        if index["tablespace"]:
            statements.append(f"SET LOCAL default_tablespace = {ident(index['tablespace'])}")
        if index["constraint"] is not None:
            definition = under_name(index["constraint"]["definition"], parent, ref)
            statements.append(f"ALTER TABLE {name(ref)} ADD {definition}")
        else:
            unique = "UNIQUE " if index["unique"] else ""
            tail = under_name(index["tail"], parent, ref)
            statements.append(f"CREATE {unique}INDEX ON {name(ref)} {tail}")
        if index["tablespace"]:
            statements.append("SET LOCAL default_tablespace TO DEFAULT")
    return statements
