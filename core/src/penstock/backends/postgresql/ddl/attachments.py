"""Objects attached to a table without being part of it, such as grants, policies and triggers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl.foreign_keys import FOREIGN_KEYS, foreign_key
from penstock.backends.postgresql.ddl.text import comment, replace_table_name
from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        GrantPart,
        PolicyPart,
        PublicationPart,
        RulePart,
        TablePart,
        TriggerPart,
    )

ENABLED = {"D": "DISABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}
COMMANDS = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE", "*": "ALL"}
_PART = r'(?:"(?:[^"]|"")*"|[^\s."]+)'
# The first " ON schema.table " or " TO schema.table " outside a quoted name.
_TABLE = r'^((?:"(?:[^"]|"")*"|[^"])*?\s{word} )' + rf"{_PART}\.{_PART}"


def grants(table: TablePart, ref: TableRef, default_grantees: Sequence[str]) -> list[str]:
    """Return statements that give the table its privileges, and no others.

    Args:
        table: the table's definition.
        ref: the table's name in the target.
        default_grantees: the quoted roles that receive privileges on new tables by default.
    """
    attached = table["attached"]
    if attached["default_grants"] and not attached["grants"]:
        return []
    # GRANT changes the table's catalog row without a lock, and fails if another session changes it
    # at the same time: a foreign key from or to the table, in another step or process.
    statements = [f"LOCK TABLE ONLY {name(ref)} IN SHARE ROW EXCLUSIVE MODE"]
    if not attached["default_grants"]:
        everybody = dict.fromkeys(["PUBLIC", *default_grantees, ident(table["owner"])])
        statements.append(f"REVOKE ALL ON TABLE {name(ref)} FROM {', '.join(everybody)}")
    return statements + [_grant(item, ref) for item in attached["grants"]]


def _grant(item: GrantPart, ref: TableRef) -> str:
    column = f" ({ident(item['column'])})" if item["column"] is not None else ""
    option = " WITH GRANT OPTION" if item["option"] and not item["own"] else ""
    return f"GRANT {item['privilege']}{column} ON TABLE {name(ref)} TO {item['grantee']}{option}"


def policies(table: TablePart, ref: TableRef) -> list[str]:
    """Return statements that create the table's policies, and enable row security."""
    statements = []
    for item in table["attached"]["policies"]:
        statements.append(_policy(item, table, ref))
        of = f"{ident(item['name'])} ON {name(ref)}"
        statements += comment("POLICY", of, item["comment"])
    return statements + row_security(table, ref)


def _policy(item: PolicyPart, table: TablePart, ref: TableRef) -> str:
    words = [
        f"CREATE POLICY {ident(item['name'])} ON {name(ref)}",
        f"AS {'PERMISSIVE' if item['permissive'] else 'RESTRICTIVE'}",
        f"FOR {COMMANDS[item['command']]} TO {', '.join(item['roles'])}",
    ]
    if item["using"] is not None:
        words.append(f"USING ({replace_table_name(item['using'], table, ref)})")
    if item["check"] is not None:
        words.append(f"WITH CHECK ({replace_table_name(item['check'], table, ref)})")
    return " ".join(words)


def row_security(table: TablePart, ref: TableRef) -> list[str]:
    """Return statements that enable the table's row security."""
    statements = []
    if table["row_security"]:
        statements.append(f"ALTER TABLE {name(ref)} ENABLE ROW LEVEL SECURITY")
    if table["force_row_security"]:
        statements.append(f"ALTER TABLE {name(ref)} FORCE ROW LEVEL SECURITY")
    return statements


def triggers(table: TablePart) -> list[str]:
    """Return the table's triggers under its own name, which is part of the text from the server."""
    ref = TableRef(table["schema"], table["name"])
    return [
        statement
        for trigger in table["attached"]["triggers"]
        for statement in (trigger["definition"], *_state("TRIGGER", trigger, ref))
    ]


def _state(kind: str, item: TriggerPart | RulePart, ref: TableRef) -> list[str]:
    """Return statements that disable a trigger or rule as the source's is, and its comment."""
    statements = []
    if word := ENABLED.get(item["enabled"]):
        statements.append(f"ALTER TABLE {name(ref)} {word} {kind} {ident(item['name'])}")
    return statements + comment(kind, f"{ident(item['name'])} ON {name(ref)}", item["comment"])


def publications(table: TablePart) -> list[str]:
    """Return the table's publications, as `triggers` does."""
    ref = TableRef(table["schema"], table["name"])
    return [_publication(item, ref) for item in table["attached"]["publications"]]


def _publication(item: PublicationPart, ref: TableRef) -> str:
    columns = item["columns"]
    listed = f" ({', '.join(map(ident, columns))})" if columns else ""
    condition = f" WHERE ({item['condition']})" if item["condition"] else ""
    return f"ALTER PUBLICATION {ident(item['name'])} ADD TABLE {name(ref)}{listed}{condition}"


def omitted_objects(
    tables: Sequence[TablePart],
    ref_of: Callable[[TablePart], TableRef],
    *,
    dropped: bool = False,
    excluded_kind: str = "",
) -> tuple[NotCopied, ...]:
    """Return what is attached to the tables and not copied.

    Args:
        tables: a table, followed by the tables it consists of.
        ref_of: the name of each table in the target.
        dropped: whether the tables are the target's own, about to be dropped.
        excluded_kind: a kind to leave out.
    """
    omitted: dict[tuple[str, str, str], NotCopied] = {}
    for table in tables:
        ref = ref_of(table)
        for kind, what, statements in _objects(table, ref):
            if kind == excluded_kind:
                continue
            remedy = "\n".join(f"{one};" for one in statements)
            item = NotCopied(kind, what, remedy, str(ref), dropped)
            omitted.setdefault((kind, what, str(ref)), item)
    return tuple(omitted.values())


def _objects(table: TablePart, ref: TableRef) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind, name and statements of each object.

    Those inherited from a parent belong to the parent.
    """
    parts = table["attached"]
    for constraint in table["constraints"]:
        if constraint["kind"] == "f" and not constraint["inherited"]:
            yield FOREIGN_KEYS, constraint["name"], [foreign_key(constraint, ref)]
    for trigger in parts["triggers"]:
        if not trigger["inherited"]:
            create = _for_table(trigger["definition"], "ON", ref)
            yield "triggers", trigger["name"], [create, *_state("TRIGGER", trigger, ref)]
        elif trigger["enabled"] != trigger["parent_enabled"]:
            word = ENABLED.get(trigger["enabled"], "ENABLE")
            alter = f"ALTER TABLE {name(ref)} {word} TRIGGER {ident(trigger['name'])}"
            yield "triggers", trigger["name"], [alter]
    for rule in parts["rules"]:
        create = _for_table(rule["definition"].rstrip(";"), "TO", ref)
        yield "rules", rule["name"], [create, *_state("RULE", rule, ref)]
    for policy in parts["policies"]:
        of = f"{ident(policy['name'])} ON {name(ref)}"
        commented = comment("POLICY", of, policy["comment"])
        yield "policies", policy["name"], [_policy(policy, table, ref), *commented]
    if table["row_security"]:
        yield "row security", ref.name, row_security(table, ref)
    for grant in parts["grants"]:
        if not grant["own"]:
            column = f" ({grant['column']})" if grant["column"] is not None else ""
            what = f"{grant['privilege']}{column} to {grant['grantee']}"
            yield "grants", what, [_grant(grant, ref)]
    for publication in parts["publications"]:
        yield "publications", publication["name"], [_publication(publication, ref)]
    if table["hypertable"]:
        # Its columns, intervals and policies are in TimescaleDB's own tables.
        create = f"SELECT create_hypertable({literal(name(ref))}, ..., migrate_data => true)"
        yield "hypertables", ref.name, [f"-- with its time column and interval: {create}"]
    if table["typed"] and table["kind"] == "r":
        yield "typed tables", table["typed"], [f"ALTER TABLE {name(ref)} OF {table['typed']}"]
    for sequence in table["sequences"]:
        sequence_name = ident(sequence["schema"], sequence["name"])
        for privilege, grantee, grantable in sequence["grants"]:
            what = f"{privilege} on sequence {sequence['name']} to {grantee}"
            option = " WITH GRANT OPTION" if grantable else ""
            statement = f"GRANT {privilege} ON SEQUENCE {sequence_name} TO {grantee}{option}"
            yield "grants", what, [statement]
        if not sequence["readable"]:
            what = "sequences that the user may not read"
            yield (
                what,
                sequence["name"],
                [f"GRANT SELECT ON SEQUENCE {sequence_name} TO CURRENT_USER"],
            )


def _for_table(definition: str, word: str, ref: TableRef) -> str:
    """Rewrite a statement from the server to name another table."""
    pattern = _TABLE.replace("{word}", word)
    return re.sub(pattern, lambda match: match[1] + name(ref), definition, count=1)
