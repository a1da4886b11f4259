"""DDL made of a definition: tables and what belongs to them, under names of the caller's choice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from penstock.model.tables import TableRef

Json = Mapping[str, Any]

STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "x": "EXTENDED", "m": "MAIN"}
COMPRESSION = {"p": "pglz", "l": "lz4"}
ENABLED = {"D": "DISABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}
COMMANDS = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE", "*": "ALL"}
COLUMN_OPTIONS = ("n_distinct", "n_distinct_inherited")
LONGEST_NAME = 63

# Expressions were written with the names of this path, and are read with them.
FULL_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"


def ident(*names: str) -> str:
    return sql.Identifier(*names).as_string(None)


def literal(text: str) -> str:
    return sql.Literal(text).as_string(None).strip()


def name(ref: TableRef) -> str:
    return ident(ref.schema, ref.name)


def script(statements: Iterable[str]) -> str:
    """Several statements for one step."""
    return ";\n".join((FULL_NAMES, *statements))


def beside(run_id: str, original: str) -> str:
    """A name for what is built beside something of that name."""
    digest = hashlib.sha256(f"{run_id}:{original}".encode()).hexdigest()[:8]
    return shortened(original, f"__penstock_{digest}")


def shortened(text: str, suffix: str) -> str:
    """With the suffix, as long as a name may be."""
    room = LONGEST_NAME - len(suffix.encode())
    return text.encode()[:room].decode(errors="ignore") + suffix


@dataclass(frozen=True)
class Names:
    """Where the things of a definition go: a table by its oid, the others by their names."""

    tables: Mapping[int, TableRef]
    indexes: Mapping[int, str] = field(default_factory=dict)
    """By oid; in the schema of their table."""
    sequences: Mapping[tuple[str, str], TableRef] = field(default_factory=dict)
    """Those that are made, or called otherwise; others are used as they are."""
    statistics: Mapping[tuple[str, str], TableRef] = field(default_factory=dict)

    def table(self, table: Json) -> TableRef:
        return self.tables[table["oid"]]

    def index(self, table: Json, index: Json) -> TableRef:
        return TableRef(self.table(table).schema, self.indexes[index["oid"]])


def create_table(
    table: Json, names: Names, *, persistence: str, version: int, tablespace: bool = False
) -> list[str]:
    """The table with its columns, and all that is quick while it is empty.

    Parameters:
        persistence: ``p`` or ``u``.
        version: of the server that makes it.
        tablespace: make it where the definition says.
    """
    ref = names.table(table)
    not_null = {c["column"]: c for c in table["constraints"] if c["kind"] == "n"}
    parts = [_column(column, table, names, not_null, version) for column in table["columns"]]
    checks = [
        f"CONSTRAINT {ident(c['name'])} {of_itself(c['definition'], table, ref)}"
        for c in table["constraints"]
        # One that is not enforced can be said at once, though it is not valid.
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
    made = [*_made(table, names), *used]
    statements = [_create_sequence(s, names, version) for s in made]
    statements.append(create)
    # What names the table needs it to be there.
    statements += [f"ALTER TABLE ONLY {name(ref)} ADD {check}" for check in late]
    for column in table["columns"]:
        if _names_itself(column, table):
            expression = of_itself(_default(column["default"], table, names), table, ref)
            alter = f"ALTER TABLE ONLY {name(ref)} ALTER COLUMN {ident(column['name'])}"
            statements.append(f"{alter} SET DEFAULT {expression}")
    for sequence in _made(table, names):
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


def _made(table: Json, names: Names) -> list[Json]:
    """Sequences that are made for the table by themselves."""
    return [
        s
        for s in table["sequences"]
        if not s["identity"] and (s["schema"], s["name"]) in names.sequences
    ]


def _column(
    column: Json,
    table: Json,
    names: Names,
    not_null: Mapping[str, Json],
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
        made = names.sequences[sequence["schema"], sequence["name"]]
        options = f"SEQUENCE NAME {name(made)} {_sequence_options(sequence)}"
        words.append(f"GENERATED {kind} AS IDENTITY ({options})")
    elif column["default"] is not None and not _names_itself(column, table):
        words.append(f"DEFAULT {_default(column['default'], table, names)}")
    constraint = not_null.get(column["name"])
    if constraint is not None:
        if constraint["validated"]:
            no_inherit = " NO INHERIT" if constraint["no_inherit"] and version >= 180000 else ""
            words.append(f"CONSTRAINT {ident(constraint['name'])} NOT NULL{no_inherit}")
    elif column["not_null"]:
        words.append("NOT NULL")
    return " ".join(words)


def _names_itself(column: Json, table: Json) -> bool:
    default = column["default"] if not column["generated"] else None
    return default is not None and bool(table["regclass"]) and table["regclass"] in default


_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d][\w$]*|.""", re.DOTALL)


def of_itself(text: str, table: Json, ref: TableRef) -> str:
    """An expression of a table's, for the table under another name: it may speak of its whole row,
    ``name.*``, or of itself, ``'schema.name'::regclass``."""
    found = []
    tokens = _TOKEN.findall(text)
    for place, token in enumerate(tokens):
        after = tokens[place + 1 : place + 4]
        before = tokens[place - 1] if place else ""
        if token == table["written"] and after[:2] == [".", "*"] and before != ".":
            found.append(ident(ref.name))
        elif token == table["regclass"] and after == [":", ":", "regclass"]:
            found.append(literal(name(ref)))
        else:
            found.append(token)
    return "".join(found)


def _default(expression: str, table: Json, names: Names) -> str:
    """The expression, with sequences that are made under the names that they get."""
    called: dict[str, str] = {}
    for sequence in (*table["sequences"], *table["used_sequences"]):
        ref = names.sequences.get((sequence["schema"], sequence["name"]))
        if ref is not None:
            called[sequence["written"]] = f"{literal(name(ref))}::regclass"
    if not called:
        return expression
    # In one go: what one of them is called may be what another one was called.
    either = "|".join(re.escape(before) for before in called)
    return re.sub(either, lambda found: called[found[0]], expression)


def _create_sequence(sequence: Json, names: Names, version: int) -> str:
    made = name(names.sequences[sequence["schema"], sequence["name"]])
    unlogged = "UNLOGGED " if sequence["persistence"] == "u" and version >= 150000 else ""
    # One that other tables use too may be there already.
    return (
        f"CREATE {unlogged}SEQUENCE IF NOT EXISTS {made} AS {sequence['type']} "
        f"{_sequence_options(sequence)}"
    )


def _sequence_options(sequence: Json) -> str:
    cycle = "CYCLE" if sequence["cycle"] else "NO CYCLE"
    return (
        f"INCREMENT BY {sequence['increment']} MINVALUE {sequence['min']} "
        f"MAXVALUE {sequence['max']} START WITH {sequence['start']} "
        f"CACHE {sequence['cache']} {cycle}"
    )


def set_sequences(table: Json, names: Names, *, keep: bool) -> list[str]:
    """Every sequence of the table to the value that it had when the definition was read, unless its
    values are to be kept apart."""
    statements = []
    for sequence in table["sequences"]:
        ref = names.sequences.get((sequence["schema"], sequence["name"]))
        if ref is None:
            continue
        if sequence["value"] and not keep:
            value, called = sequence["value"]
            statements.append(
                f"SELECT pg_catalog.setval({literal(name(ref))}, {value}, "
                f"{'true' if called else 'false'})"
            )
        statements += comment("SEQUENCE", name(ref), sequence["comment"])
    return statements


def _column_settings(column: Json, ref: TableRef, version: int) -> list[str]:
    alter = f"ALTER TABLE ONLY {name(ref)} ALTER COLUMN {ident(column['name'])}"
    statements = []
    if column["storage"]:
        statements.append(f"{alter} SET STORAGE {STORAGE[column['storage']]}")
    if column["compression"] and version >= 140000:
        statements.append(f"{alter} SET COMPRESSION {COMPRESSION[column['compression']]}")
    if column["statistics"] is not None:
        statements.append(f"{alter} SET STATISTICS {column['statistics']}")
    # Some servers keep notes of their own among the options, which cannot be set.
    options = [o for o in column["options"] if o.partition("=")[0] in COLUMN_OPTIONS]
    if options:
        statements.append(f"{alter} SET ({', '.join(map(_option, options))})")
    return statements


def _option(text: str) -> str:
    key, _, value = text.partition("=")
    prefix, dot, rest = key.rpartition(".")
    return f"{prefix}{dot}{ident(rest)} = {literal(value)}"


def comments(table: Json, names: Names) -> list[str]:
    """Of the table, its columns, and its constraints without an index."""
    ref = names.table(table)
    statements = comment("TABLE", name(ref), table["comment"])
    for column in table["columns"]:
        statements += comment("COLUMN", f"{name(ref)}.{ident(column['name'])}", column["comment"])
    for constraint in table["constraints"]:
        if constraint["kind"] == "c" and constraint["validated"]:
            statements += constraint_comment(ref, constraint["name"], constraint["comment"])
    return statements


def not_null_comments(table: Json, names: Names) -> list[str]:
    """Of NOT NULL constraints that are named: from PostgreSQL 18 on."""
    statements = []
    for constraint in table["constraints"]:
        if constraint["kind"] == "n" and constraint["validated"]:
            statements += constraint_comment(
                names.table(table), constraint["name"], constraint["comment"]
            )
    return statements


def unchecked(table: Json, names: Names) -> list[str]:
    """Constraints that are not valid for all rows, and so must come after these."""
    ref = names.table(table)
    statements = []
    for c in table["constraints"]:
        if not is_unchecked(c):
            continue
        statements.append(
            f"ALTER TABLE {name(ref)} ADD CONSTRAINT {ident(c['name'])} "
            f"{of_itself(c['definition'], table, ref)}"
        )
        statements += constraint_comment(ref, c["name"], c["comment"])
    return statements


def is_unchecked(constraint: Json) -> bool:
    valid = constraint["validated"] or "NOT ENFORCED" in constraint["definition"]
    return not valid and constraint["kind"] != "f"


def constraint_comment(ref: TableRef, constraint: str, text: str | None) -> list[str]:
    return comment("CONSTRAINT", f"{ident(constraint)} ON {name(ref)}", text)


def comment(kind: str, of: str, text: str | None) -> list[str]:
    return [] if text is None else [f"COMMENT ON {kind} {of} IS {literal(text)}"]


def create_statistics(table: Json, names: Names) -> list[str]:
    """Extended statistics."""
    statements = []
    for item in table["statistics"]:
        ref = names.statistics[item["schema"], item["name"]]
        statements.append(
            f"CREATE STATISTICS {name(ref)}{of_itself(item['body'], table, names.table(table))}"
            f" FROM {name(names.table(table))}"
        )
        if item["target"] is not None:
            statements.append(f"ALTER STATISTICS {name(ref)} SET STATISTICS {item['target']}")
        statements += comment("STATISTICS", name(ref), item["comment"])
    return statements


def create_type(type_: Json) -> str:
    """The type, where it is not there yet: a run that starts over finds its own."""
    made = ident(type_["schema"], type_["name"])
    statements = [_type_statement(type_, made)]
    if type_["kind"] == "d":
        statements += comment("DOMAIN", made, type_["comment"])
    else:
        statements += comment("TYPE", made, type_["comment"])
    body = (
        f"BEGIN IF pg_catalog.to_regtype({literal(made)}) IS NULL THEN\n"
        + "".join(f"{one};\n" for one in statements)
        + "END IF; END"
    )
    return f"DO {literal(body)}"


def _type_statement(type_: Json, made: str) -> str:
    if type_["kind"] == "e":
        labels = ", ".join(literal(label) for label in type_["labels"] or ())
        return f"CREATE TYPE {made} AS ENUM ({labels})"
    if type_["kind"] == "d":
        words = [f"CREATE DOMAIN {made} AS {type_['base']}"]
        if type_["collation"]:
            words.append(f"COLLATE {type_['collation']}")
        if type_["default"] is not None:
            words.append(f"DEFAULT {type_['default']}")
        if type_["not_null"]:
            words.append("NOT NULL")
        words += [f"CONSTRAINT {ident(c['name'])} {c['definition']}" for c in type_["checks"] or ()]
        return " ".join(words)
    if type_["kind"] == "r":
        parts = range_parts(type_["range"])
        return f"CREATE TYPE {made} AS RANGE ({', '.join(parts)})"
    attributes = [
        f"{ident(a['name'])} {a['type']}" + (f" COLLATE {a['collation']}" if a["collation"] else "")
        for a in type_["attributes"] or ()
    ]
    return f"CREATE TYPE {made} AS ({', '.join(attributes)})"


def range_parts(range_: Json) -> list[str]:
    parts = [f"subtype = {range_['subtype']}", f"subtype_opclass = {range_['class']}"]
    if range_["collation"]:
        parts.append(f"collation = {range_['collation']}")
    if range_["subdiff"]:
        parts.append(f"subtype_diff = {range_['subdiff']}")
    if range_["multirange"]:
        parts.append(f"multirange_type_name = {range_['multirange']}")
    return parts


def grants(table: Json, ref: TableRef, others: Sequence[str]) -> list[str]:
    """The table's privileges, and no others.

    Parameters:
        others: whom new tables are granted to by default, quoted.
    """
    attached = table["attached"]
    if attached["default_grants"] and not attached["grants"]:
        return []
    # GRANT changes the table's row in the catalog without a lock, and fails where somebody else
    # changes it: a foreign key of the table or to it, in another step or in another process.
    statements = [f"LOCK TABLE ONLY {name(ref)} IN SHARE ROW EXCLUSIVE MODE"]
    if not attached["default_grants"]:
        everybody = dict.fromkeys(["PUBLIC", *others, ident(table["owner"])])
        statements.append(f"REVOKE ALL ON TABLE {name(ref)} FROM {', '.join(everybody)}")
    return statements + [grant(item, ref) for item in attached["grants"]]


def grant(item: Json, ref: TableRef) -> str:
    column = f" ({ident(item['column'])})" if item["column"] is not None else ""
    option = " WITH GRANT OPTION" if item["option"] and not item["own"] else ""
    return f"GRANT {item['privilege']}{column} ON TABLE {name(ref)} TO {item['grantee']}{option}"


def policies(table: Json, ref: TableRef) -> list[str]:
    statements = []
    for item in table["attached"]["policies"]:
        statements.append(policy(item, table, ref))
        of = f"{ident(item['name'])} ON {name(ref)}"
        statements += comment("POLICY", of, item["comment"])
    return statements + row_security(table, ref)


def policy(item: Json, table: Json, ref: TableRef) -> str:
    words = [
        f"CREATE POLICY {ident(item['name'])} ON {name(ref)}",
        f"AS {'PERMISSIVE' if item['permissive'] else 'RESTRICTIVE'}",
        f"FOR {COMMANDS[item['command']]} TO {', '.join(item['roles'])}",
    ]
    if item["using"] is not None:
        words.append(f"USING ({of_itself(item['using'], table, ref)})")
    if item["check"] is not None:
        words.append(f"WITH CHECK ({of_itself(item['check'], table, ref)})")
    return " ".join(words)


def row_security(table: Json, ref: TableRef) -> list[str]:
    statements = []
    if table["row_security"]:
        statements.append(f"ALTER TABLE {name(ref)} ENABLE ROW LEVEL SECURITY")
    if table["force_row_security"]:
        statements.append(f"ALTER TABLE {name(ref)} FORCE ROW LEVEL SECURITY")
    return statements


def triggers(table: Json) -> list[str]:
    """For the table under its own name, which is a part of what the server wrote."""
    ref = TableRef(table["schema"], table["name"])
    statements = []
    for trigger in table["attached"]["triggers"]:
        statements.append(trigger["definition"])
        if word := ENABLED.get(trigger["enabled"]):
            statements.append(f"ALTER TABLE {name(ref)} {word} TRIGGER {ident(trigger['name'])}")
        of = f"{ident(trigger['name'])} ON {name(ref)}"
        statements += comment("TRIGGER", of, trigger["comment"])
    return statements


def publications(table: Json) -> list[str]:
    """As `triggers`."""
    ref = TableRef(table["schema"], table["name"])
    return [publication(item, ref) for item in table["attached"]["publications"]]


def publication(item: Json, ref: TableRef) -> str:
    columns = item["columns"]
    listed = f" ({', '.join(map(ident, columns))})" if columns else ""
    condition = f" WHERE ({item['condition']})" if item["condition"] else ""
    return f"ALTER PUBLICATION {ident(item['name'])} ADD TABLE {name(ref)}{listed}{condition}"


def foreign_keys(table: Json, ref: TableRef) -> list[tuple[str, str, str | None]]:
    """Of each, its name, the statement that adds it without a look at the rows, and the one that
    looks."""
    found: list[tuple[str, str, str | None]] = []
    for constraint in table["constraints"]:
        if constraint["kind"] != "f":
            continue
        add = foreign_key(constraint, ref)
        valid = constraint["validated"] and "NOT ENFORCED" not in constraint["definition"]
        statements = [
            f"{add} NOT VALID" if valid else add,
            *constraint_comment(ref, constraint["name"], constraint["comment"]),
        ]
        validate = f"ALTER TABLE {name(ref)} VALIDATE CONSTRAINT {ident(constraint['name'])}"
        found.append((constraint["name"], script(statements), validate if valid else None))
    return found


def foreign_key(constraint: Json, ref: TableRef, other: TableRef | None = None) -> str:
    """The statement that adds it to a table of another name, to which it may refer itself.

    Parameters:
        other: the table that it refers to, where that has another name too.
    """
    definition = constraint["definition"]
    other = ref if constraint["references_itself"] else other
    if other is not None:
        start = definition.index(" REFERENCES ", definition.index("(")) + len(" REFERENCES ")
        head = f"FOREIGN KEY ({constraint['columns']}) REFERENCES "
        if definition.startswith(head):
            start = len(head)
        rest = definition[start:]
        definition = definition[:start] + name(other) + rest[_name_end(rest) :]
    return f"ALTER TABLE {name(ref)} ADD CONSTRAINT {ident(constraint['name'])} {definition}"


def _name_end(text: str) -> int:
    """Where the table's name ends that the text begins with, quoted or not."""
    inside = False
    for index, character in enumerate(text):
        if character == '"':
            inside = not inside
        elif character == "(" and not inside:
            return index
    return len(text)
