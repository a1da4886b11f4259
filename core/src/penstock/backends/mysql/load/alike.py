"""A table like one of the same system: its keys, checks, indexes and foreign keys, as the source's
server has written them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest, Siblings
from penstock.backends.mysql.catalog.indexes import serves
from penstock.backends.mysql.catalog.tables import GENERATED
from penstock.backends.mysql.catalog.written import REFERENCES, Written, WrittenTable, unquoted
from penstock.backends.mysql.load.rehearsal import refused_clauses, rehearse_all
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definition import KINDS, Besides
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.foreign_keys import ForeignKeyChange
from penstock.backends.sql.index_changes import IndexChange
from penstock.model.plans import Step
from penstock.model.tables import Column, NotCopied, TableRef

# Name and value.
_OPTION = re.compile(r"((?:DEFAULT )?\S+?)=('(?:[^'\\]|''|\\.)*'|\S+)\s*")
_KEPT = {"DEFAULT CHARSET", "COLLATE", "COMMENT"}
_OTHERS = {"ENGINE", "AUTO_INCREMENT"}
"""Options that are no part of what the table is like."""
LONGEST_NAME = 64
_UNIQUE = ("PRIMARY", "UNIQUE")
# They are not made for a temporary table.
_UNTRIED = ("FULLTEXT", "SPATIAL")


def made_alike(
    session: MySqlSession,
    request: LoadRequest,
    written: WrittenTable,
    columns: Sequence[Column],
) -> Besides:
    """
    Parameters:
        written: the source's table.
        columns: that the target's table has.
    """
    source, table, dialect = request.source, request.target, session.dialect
    assert isinstance(source, TableRef)
    assert request.definition is not None
    names = {column.name for column in columns}
    options, others = _options(written.options)
    left = [NotCopied("table options", text) for text in (*written.others, *others)]
    left += [
        NotCopied(GENERATED, f"{name}: {text}")
        for name, text in written.generated.items()
        if name in names
    ]
    checks = _checks(written)
    reasons = refused_clauses(session, columns, _clauses(written, names), options)
    warnings: list[str] = []

    def takes(each: Written) -> bool:
        if each.named <= names and each.alone not in reasons:
            return True
        remedy = "" if each.kind == "PRIMARY" else f"{dialect.indexes_made(table, [each.text])};"
        kind = KINDS.get(f"{each.kind} KEY", KINDS.get(each.kind, "indexes"))
        left.append(NotCopied(kind, each.name, remedy))
        if each.alone in reasons:
            warnings.append(f"{each.text} is not made: {reasons[each.alone]}")
        return False

    keys = [key for key in written.keys if takes(key)]
    fresh = request.mode.loads_new_table
    now = [key for key in keys if key.kind in _UNIQUE or not fresh]
    if written.automatic in names and not any(serves(key, (written.automatic,)) for key in now):
        now += [key for key in keys if serves(key, (written.automatic,))][:1]
    later = {key.name: key.text for key in keys if key not in now}
    steps = [IndexChange(table, later, makes=True, exact=False).step(dialect)] if later else []
    links: list[Step] = []
    taken = names_taken(session, table)
    for each in written.constraints:
        if each.kind != "FOREIGN KEY":
            continue
        if not each.named <= names:
            left.append(NotCopied(KINDS[each.kind], each.name))
            continue
        change = _foreign_key(dialect, each, source, table, request.siblings, taken)
        if change.target is None or not fresh:
            # It would refuse rows whose others are still to come.
            left.append(change.not_copied(dialect))
        else:
            (steps if change.target == table else links).append(change.step(dialect))
    made = [*now, *(_renamed(check, table, taken) for check in checks if takes(check))]
    return Besides(
        tuple(each.text for each in made),
        options,
        tuple(steps),
        tuple(links),
        tuple(replace(item, table=str(table)) for item in left),
        tuple(warnings),
        keys=tuple(
            key
            for key in request.definition.model.keys
            if any(each.named == set(key.columns) and each.kind in _UNIQUE for each in now)
        ),
    )


def expect_alike(session: MySqlSession, tables: Sequence[WrittenTable]) -> None:
    """Try together what `made_alike` tries of each of these tables, where it is made whole."""
    expected = []
    for written in tables:
        texts = {n: text for n, text in written.columns.items() if n not in written.generated}
        columns = [Column(name, text) for name, text in texts.items()]
        options, _ = _options(written.options)
        expected.append((columns, _clauses(written, texts.keys()), options))
    rehearse_all(session, expected)


def _checks(written: WrittenTable) -> list[Written]:
    return [each for each in written.constraints if each.kind == "CHECK"]


def _clauses(written: WrittenTable, names: Collection[str]) -> list[str]:
    """The keys and checks that are tried for a table of some of the columns."""
    tried = [key for key in written.keys if key.kind not in _UNTRIED] + _checks(written)
    return [each.alone for each in tried if each.named.issubset(names)]


def _options(text: str) -> tuple[str, list[str]]:
    """Those that a table is made with, and what is left of them."""
    head, _, partitions = text.partition("\n")
    others = [f"{name}={value}" for name, value in _OPTION.findall(head)
              if name not in _KEPT | _OTHERS]  # fmt: skip
    kept = [f"{name}={value}" for name, value in _OPTION.findall(head) if name in _KEPT]
    rest = (_OPTION.sub("", head).strip(), partitions.strip())
    return " ".join(kept), [*others, *filter(None, rest)]


def _foreign_key(
    dialect: CatalogDialect,
    constraint: Written,
    source: TableRef,
    table: TableRef,
    siblings: Siblings,
    taken: set[str],
) -> ForeignKeyChange:
    found = REFERENCES.match(constraint.body)
    assert found is not None
    schema, name = (found[2], found[3]) if found[3] else (source.schema, found[2])
    other = TableRef(unquoted(schema), unquoted(name))
    target = table if other == source else siblings.targets.get(other)
    head, rest = constraint.body[: found.start(2) - 1], constraint.body[found.start(4) - 1 :]
    definition = f"FOREIGN KEY {head}{dialect.table(target or other)} {rest}"
    called = free_name(constraint.name, table, taken)
    return ForeignKeyChange(table, called, definition, target=target)


def _renamed(check: Written, table: TableRef, taken: set[str]) -> Written:
    name = free_name(check.name, table, taken)
    return replace(check, text=f"CONSTRAINT `{name.replace('`', '``')}` {check.alone}")


def free_name(name: str, table: TableRef, taken: set[str]) -> str:
    return name if name not in taken else f"{table.name}_{name}"[:LONGEST_NAME]


def names_taken(session: MySqlSession, table: TableRef) -> set[str]:
    """Constraints of other tables: a name stands for one of them in a database."""

    def ask() -> list[tuple[str, str]]:
        return session.fetch(
            "SELECT table_name, constraint_name FROM information_schema.table_constraints"
            " WHERE constraint_schema = %s AND constraint_type IN ('FOREIGN KEY', 'CHECK')",
            f"database {table.schema}",
            [table.schema],
        )

    known = session.kept(("constraints", table.schema), ask)
    return {name for of, name in known if of != table.name}
