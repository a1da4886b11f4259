"""Statements that create a table, its sequences, and everything that is quick while it is empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl.text import (
    LONGEST_NAME,
    Names,
    comment,
    constraint_comment,
    replace_table_name,
)
from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        ColumnPart,
        ConstraintPart,
        SequencePart,
        TablePart,
    )

STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "x": "EXTENDED", "m": "MAIN"}
COMPRESSION = {"p": "pglz", "l": "lz4"}
COLUMN_OPTIONS = ("n_distinct", "n_distinct_inherited")


def create_table(
    table: TablePart, names: Names, *, persistence: str, version: int, tablespace: bool = False
) -> list[str]:
    """Return statements that create a table with everything that is quick while it is empty.

    Args:
        table: the table's definition.
        names: its names in the target.
        persistence: ``p`` (permanent) or ``u`` (unlogged).
        version: the version of the target's server.
        tablespace: use the tablespace of the definition.
    """
    ref = names.table(table)
    not_null = _not_null(table)
    parts = [_column(column, table, names, not_null, version) for column in table["columns"]]
    checks = [
        f"CONSTRAINT {ident(c['name'])} {replace_table_name(c['definition'], table, ref)}"
        for c in table["constraints"]
        # A constraint that is not enforced can be created at once, though it is not valid.
        if c["kind"] == "c" and (c["validated"] or "NOT ENFORCED" in c["definition"])
    ]
    late = [check for check in checks if literal(name(ref)) in check]
    parts += [check for check in checks if check not in late]
    unlogged = "UNLOGGED " if persistence == "u" and table["partition_key"] is None else ""
    create = f"CREATE {unlogged}TABLE {name(ref)} (" + ",".join(f"\n    {p}" for p in parts) + ")"
    if table["partition_key"] is not None:
        create += f" PARTITION BY {table['partition_key']}"
    elif table["method"] not in (None, "heap"):
        create += f" USING {ident(table['method'])}"
    options = [*table["options"], *(f"toast.{o}" for o in table["toast_options"])]
    if options and table["partition_key"] is None:
        create += f" WITH ({', '.join(_option(o) for o in options)})"
    if tablespace and table["tablespace"]:
        create += f" TABLESPACE {ident(table['tablespace'])}"
    used = [s for s in table["used_sequences"] if (s["schema"], s["name"]) in names.sequences]
    sequences = [*_sequences(table, names), *used]
    statements = [_create_sequence(s, names, version) for s in sequences]
    statements.append(create)
    # Objects that name the table require it to exist.
    statements += [f"ALTER TABLE ONLY {name(ref)} ADD {check}" for check in late]
    for column in table["columns"]:
        if _names_itself(column, table):
            expression = replace_table_name(
                _default(column["default"] or "", table, names), table, ref
            )
            alter = f"ALTER TABLE ONLY {name(ref)} ALTER COLUMN {ident(column['name'])}"
            statements.append(f"{alter} SET DEFAULT {expression}")
    for sequence in _sequences(table, names):
        owned = name(names.sequences[sequence["schema"], sequence["name"]])
        of = f"{name(ref)}.{ident(sequence['column'])}"
        statements.append(f"ALTER SEQUENCE {owned} OWNED BY {of}")
    for column in table["columns"]:
        statements += _column_settings(column, ref, version)
    if table["parent"] is not None:
        parent = names.tables[table["parent"]]
        statements.append(
            f"ALTER TABLE ONLY {name(parent)} ATTACH PARTITION {name(ref)} {table['bound']}"
        )
    if table["replica_identity"] in ("f", "n"):
        word = {"f": "FULL", "n": "NOTHING"}[table["replica_identity"]]
        statements.append(f"ALTER TABLE ONLY {name(ref)} REPLICA IDENTITY {word}")
    return statements


def _not_null(table: TablePart) -> dict[str, ConstraintPart]:
    """Return NOT NULL constraints by column, if the server has named ones."""
    return {c["column"]: c for c in table["constraints"] if c["kind"] == "n"}


def nullable(table: TablePart) -> list[bool]:
    """Return which columns allow NULL, as `create_table` creates them."""
    validated = {
        column: bool(constraint["validated"]) for column, constraint in _not_null(table).items()
    }
    return [not validated.get(column["name"], column["not_null"]) for column in table["columns"]]


def _sequences(table: TablePart, names: Names) -> list[SequencePart]:
    """Return the sequences that are created for the table separately."""
    return [
        s
        for s in table["sequences"]
        if not s["identity"] and (s["schema"], s["name"]) in names.sequences
    ]


def _column(
    column: ColumnPart,
    table: TablePart,
    names: Names,
    not_null: Mapping[str, ConstraintPart],
    version: int,
) -> str:
    words = [ident(column["name"]), column["type"]]
    if column["collation"]:
        words.append(f"COLLATE {column['collation']}")
    if column["generated"]:
        kind = "VIRTUAL" if column["generated"] == "v" else "STORED"
        words.append(f"GENERATED ALWAYS AS ({column['default']}) {kind}")
    elif column["identity"] and table["parent"] is None:
        kind = "ALWAYS" if column["identity"] == "a" else "BY DEFAULT"
        (sequence,) = [
            s for s in table["sequences"] if s["identity"] and s["column"] == column["name"]
        ]
        sequence_ref = names.sequences[sequence["schema"], sequence["name"]]
        options = f"SEQUENCE NAME {name(sequence_ref)} {_sequence_options(sequence)}"
        words.append(f"GENERATED {kind} AS IDENTITY ({options})")
    elif column["default"] is not None and not _names_itself(column, table):
        words.append(f"DEFAULT {_default(column['default'], table, names)}")
    constraint = not_null.get(column["name"])
    if constraint is not None:
        if constraint["validated"]:
            no_inherit = " NO INHERIT" if constraint["no_inherit"] and version >= 180000 else ""
            words.append(f"CONSTRAINT {ident(constraint['name'])} NOT NULL{no_inherit}")
    elif column["not_null"]:
        if version >= 180000 and (becomes := names.becomes.get(table["oid"])):
            # The server would name it after the table's temporary name.
            words.append(f"CONSTRAINT {ident(_not_null_name(becomes, column['name']))}")
        words.append("NOT NULL")
    return " ".join(words)


def _not_null_name(table: TableRef, column: str) -> str:
    """Return the name that the server gives to a NOT NULL constraint: it shortens the longer part.

    https://github.com/postgres/postgres/blob/REL_18_0/src/backend/commands/indexcmds.c, see
    `makeObjectName`.
    """
    parts = [table.name.encode(), column.encode()]
    room = LONGEST_NAME - len("__not_null")
    while sum(map(len, parts)) > room:
        longer = int(len(parts[0]) <= len(parts[1]))
        parts[longer] = parts[longer][:-1]
    return "_".join([*(part.decode(errors="ignore") for part in parts), "not_null"])


def _names_itself(column: ColumnPart, table: TablePart) -> bool:
    default = column["default"] if not column["generated"] else None
    return default is not None and bool(table["regclass"]) and table["regclass"] in default


def _default(expression: str, table: TablePart, names: Names) -> str:
    """Return a default expression that refers to the created sequences by their new names."""
    new_names: dict[str, str] = {}
    for sequence in (*table["sequences"], *table["used_sequences"]):
        ref = names.sequences.get((sequence["schema"], sequence["name"]))
        if ref is not None and sequence["written"] in expression:
            new_names[sequence["written"]] = f"{literal(name(ref))}::regclass"
    if not new_names:
        return expression
    # In one pass: one sequence's new name may be another's old name.
    either = "|".join(re.escape(before) for before in new_names)
    return re.sub(either, lambda match: new_names[match[0]], expression)


def _create_sequence(sequence: SequencePart, names: Names, version: int) -> str:
    sequence_name = name(names.sequences[sequence["schema"], sequence["name"]])
    unlogged = "UNLOGGED " if sequence["persistence"] == "u" and version >= 150000 else ""
    # A sequence that other tables use too may already exist.
    return (
        f"CREATE {unlogged}SEQUENCE IF NOT EXISTS {sequence_name} AS {sequence['type']} "
        f"{_sequence_options(sequence)}"
    )


def _sequence_options(sequence: SequencePart) -> str:
    cycle = "CYCLE" if sequence["cycle"] else "NO CYCLE"
    return (
        f"INCREMENT BY {sequence['increment']} MINVALUE {sequence['min']} "
        f"MAXVALUE {sequence['max']} START WITH {sequence['start']} "
        f"CACHE {sequence['cache']} {cycle}"
    )


def set_sequences(table: TablePart, names: Names, *, keep: bool) -> list[str]:
    """Return statements that set the table's sequences to their values in the definition.

    Args:
        table: the table's definition.
        names: its names in the target.
        keep: whether to leave their positions alone, and only add comments.
    """
    statements = []
    for sequence in table["sequences"]:
        ref = names.sequences.get((sequence["schema"], sequence["name"]))
        if ref is None:
            continue
        if sequence["value"] and not keep:
            value, is_called = sequence["value"]
            statements.append(
                f"SELECT pg_catalog.setval({literal(name(ref))}, {value}, "
                f"{'true' if is_called else 'false'})"
            )
        statements += comment("SEQUENCE", name(ref), sequence["comment"])
    return statements


def _column_settings(column: ColumnPart, ref: TableRef, version: int) -> list[str]:
    alter = f"ALTER TABLE ONLY {name(ref)} ALTER COLUMN {ident(column['name'])}"
    statements = []
    if column["storage"]:
        statements.append(f"{alter} SET STORAGE {STORAGE[column['storage']]}")
    if column["compression"] and version >= 140000:
        statements.append(f"{alter} SET COMPRESSION {COMPRESSION[column['compression']]}")
    if column["statistics"] is not None:
        statements.append(f"{alter} SET STATISTICS {column['statistics']}")
    # Some servers store internal notes among the options, which cannot be set.
    options = [o for o in column["options"] if o.partition("=")[0] in COLUMN_OPTIONS]
    if options:
        statements.append(f"{alter} SET ({', '.join(map(_option, options))})")
    return statements


def _option(text: str) -> str:
    key, _, value = text.partition("=")
    prefix, dot, option = key.rpartition(".")
    return f"{prefix}{dot}{ident(option)} = {literal(value)}"


def comments(table: TablePart, names: Names, version: int) -> list[str]:
    """Return the comments on the table, its columns, and its constraints without an index.

    Args:
        table: the table's definition.
        names: its names in the target.
        version: the version of the target's server; from PostgreSQL 18 on, NOT NULL constraints
            have names.
    """
    ref = names.table(table)
    statements = comment("TABLE", name(ref), table["comment"])
    for column in table["columns"]:
        statements += comment("COLUMN", f"{name(ref)}.{ident(column['name'])}", column["comment"])
    kinds = ("c", "n") if version >= 180000 else ("c",)
    for constraint in table["constraints"]:
        if constraint["kind"] in kinds and not is_unchecked(constraint):
            statements += constraint_comment(ref, constraint["name"], constraint["comment"])
    return statements


def unchecked_constraints(table: TablePart, names: Names) -> list[str]:
    """Return the constraints that existing rows may violate, which must be added after the rows."""
    ref = names.table(table)
    statements = []
    for c in table["constraints"]:
        if not is_unchecked(c):
            continue
        statements.append(
            f"ALTER TABLE {name(ref)} ADD CONSTRAINT {ident(c['name'])} "
            f"{replace_table_name(c['definition'], table, ref)}"
        )
        statements += constraint_comment(ref, c["name"], c["comment"])
    return statements


def is_unchecked(constraint: ConstraintPart) -> bool:
    """Whether existing rows may violate a constraint other than a foreign key."""
    valid = constraint["validated"] or "NOT ENFORCED" in constraint["definition"]
    return not valid and constraint["kind"] != "f"


def create_statistics(table: TablePart, names: Names) -> list[str]:
    """Return statements that create extended statistics."""
    statements = []
    for item in table["statistics"]:
        ref = names.statistics[item["schema"], item["name"]]
        body = replace_table_name(item["body"], table, names.table(table))
        statements.append(f"CREATE STATISTICS {name(ref)}{body} FROM {name(names.table(table))}")
        if item["target"] is not None:
            statements.append(f"ALTER STATISTICS {name(ref)} SET STATISTICS {item['target']}")
        statements += comment("STATISTICS", name(ref), item["comment"])
    return statements
