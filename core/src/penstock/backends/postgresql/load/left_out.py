"""What hangs on a table and is not made with it, with the statements that make it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from penstock.backends.postgresql.load import ddl
from penstock.backends.postgresql.load.ddl import Json, ident, name
from penstock.model.tables import NotCopied, TableRef

_PART = r'(?:"(?:[^"]|"")*"|[^\s."]+)'
# The first " ON schema.table " or " TO schema.table " that stands outside of a quoted name.
_TABLE = r'^((?:"(?:[^"]|"")*"|[^"])*?\s{word} )' + rf"{_PART}\.{_PART}"


def apart(
    tables: Sequence[Json],
    ref_of: Callable[[Json], TableRef],
    *,
    dropped: bool = False,
    but: str = "",
) -> tuple[NotCopied, ...]:
    """
    Parameters:
        tables: one, and then those that it consists of.
        ref_of: where each is in the target.
        dropped: they are the target's own, which are dropped.
        but: a kind that is left out.
    """
    found: dict[tuple[str, str, str], NotCopied] = {}
    for table in tables:
        ref = ref_of(table)
        for kind, what, statements in _things(table, ref):
            if kind == but:
                continue
            remedy = "\n".join(f"{one};" for one in statements)
            item = NotCopied(kind, what, remedy, str(ref), dropped)
            found.setdefault((kind, what, str(ref)), item)
    return tuple(found.values())


def _things(table: Json, ref: TableRef) -> Iterator[tuple[str, str, list[str]]]:
    """Kind, name and statements of each; those that come from the parent are the parent's."""
    attached = table["attached"]
    for constraint in table["constraints"]:
        if constraint["kind"] == "f" and not constraint["inherited"]:
            yield "foreign keys", constraint["name"], [ddl.foreign_key(constraint, ref)]
    for trigger in attached["triggers"]:
        if not trigger["inherited"]:
            yield "triggers", trigger["name"], [_moved(trigger["definition"], "ON", ref)]
    for rule in attached["rules"]:
        yield "rules", rule["name"], [_moved(rule["definition"].rstrip(";"), "TO", ref)]
    for policy in attached["policies"]:
        yield "policies", policy["name"], [ddl.policy(policy, table, ref)]
    if table["row_security"]:
        yield "row security", ref.name, ddl.row_security(table, ref)
    for grant in attached["grants"]:
        if not grant["own"]:
            column = f" ({grant['column']})" if grant["column"] is not None else ""
            what = f"{grant['privilege']}{column} to {grant['grantee']}"
            yield "grants", what, [ddl.grant(grant, ref)]
    for publication in attached["publications"]:
        yield "publications", publication["name"], [ddl.publication(publication, ref)]
    for sequence in table["sequences"]:
        if not sequence["readable"]:
            made = ident(sequence["schema"], sequence["name"])
            what = "sequences whose value may not be read"
            yield what, sequence["name"], [f"GRANT SELECT ON SEQUENCE {made} TO CURRENT_USER"]


def _moved(definition: str, word: str, ref: TableRef) -> str:
    """A statement that the server wrote, for a table of another name."""
    pattern = _TABLE.replace("{word}", word)
    return re.sub(pattern, lambda found: found[1] + name(ref), definition, count=1)
