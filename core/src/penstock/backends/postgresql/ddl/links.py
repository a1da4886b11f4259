"""Links between tables: foreign keys and inheritance, created once all of the tables are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.backends.api.facts import Siblings
from penstock.backends.postgresql.catalog.existing_tables import TableLink
from penstock.backends.postgresql.ddl import completion, steps
from penstock.backends.postgresql.ddl.foreign_keys import (
    FOREIGN_KEYS,
    foreign_key_steps,
    not_copied,
    referenced_table,
)
from penstock.backends.postgresql.ddl.text import Names
from penstock.backends.postgresql.session.statements import ident, literal, name
from penstock.model.plans import Step
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import TablePart

INHERITANCE = "inheritance"
INHERITED_PARTS = "parts that only the parent defines"
"""A child's columns and checks from its parents, which become its own, too."""


@dataclass(slots=True)
class Links:
    """The steps that link a table to others, and the links that are not created."""

    to_itself: list[Step] = field(default_factory=list)
    """From the table to itself."""
    to_others: list[Step] = field(default_factory=list)
    """To other tables of the batch."""
    omitted: list[NotCopied] = field(default_factory=list)
    """To tables that are not copied with it."""


def links_of(tables: Sequence[TablePart], names: Names, siblings: Siblings) -> Links:
    """Return what links tables to others.

    Args:
        tables: a table to be created, followed by the tables it consists of.
        names: the names in the target.
        siblings: the other tables of the batch.
    """
    links = Links()
    for table in tables:
        ref = names.table(table)
        for constraint in table["constraints"]:
            if constraint["kind"] != "f" or constraint["inherited"]:
                continue
            to_itself = constraint["references_itself"]
            referenced = ref if to_itself else siblings.targets.get(referenced_table(constraint))
            if referenced is None:
                links.omitted.append(not_copied(constraint, ref, None))
            else:
                planned = foreign_key_steps(table, constraint, ref, referenced)
                (links.to_itself if to_itself else links.to_others).extend(planned)
    _inherit(tables[0], names.table(tables[0]), siblings, links)
    return links


def _inherit(table: TablePart, ref: TableRef, siblings: Siblings, links: Links) -> None:
    parents = [TableRef(parent[0], parent[1]) for parent in table["inherits"]]
    if not parents:
        return
    targets = [siblings.targets.get(parent) for parent in parents]
    statements = [
        f"ALTER TABLE {name(ref)} INHERIT {name(target or parent)}"
        for parent, target in zip(parents, targets, strict=True)
    ]
    shown = ", ".join(map(str, parents))
    omitted = NotCopied(INHERITANCE, shown, "\n".join(f"{one};" for one in statements), str(ref))
    copied = [target for target in targets if target is not None]
    if len(copied) < len(parents):
        links.omitted.append(omitted)
        return
    inherited = [column["name"] for column in table["columns"] if column["inherited"]]
    inherited += [
        each["name"] for each in table["constraints"] if each["kind"] == "c" and not each["local"]
    ]
    if inherited:
        what = f"{', '.join(inherited)}: dropped from a parent, they stay here, as its own"
        links.omitted.append(NotCopied(INHERITED_PARTS, what, "", str(ref)))
    modes = {ref: "ACCESS EXCLUSIVE", **dict.fromkeys(copied, "SHARE UPDATE EXCLUSIVE")}
    links.to_others.append(
        steps.after(
            f"inherit {table['oid']}",
            f"have {ref} inherit from {', '.join(map(str, copied))}",
            steps.COMPLETE,
            *steps.locks(modes),
            *statements,
            instead=omitted,
            done=completion.inherits(ref, copied[0]),
        )
    )


def unlink_steps(links: Sequence[TableLink]) -> list[Step]:
    """Return steps, before the first partition, after which a table can be dropped."""
    return [
        steps.before(
            f"unlink {link.oid} {link.name}", f"unlink {link.ref}", _unlink_statement(link)
        )
        for link in links
    ]


def unlink_statements(links: Sequence[TableLink]) -> list[str]:
    """Return repeatable statements after which a table can be dropped."""
    return list(map(_unlink_statement, links))


def _unlink_statement(link: TableLink) -> str:
    """Return a repeatable statement that removes a link.

    The other table may have been recreated by then.
    """
    if link.kind == "sequence":
        # The new table uses it again, as the other table does.
        return f"ALTER SEQUENCE IF EXISTS {link.sequence} OWNED BY NONE"
    if link.kind == "foreign key":
        return (
            f"ALTER TABLE IF EXISTS {name(link.ref)} DROP CONSTRAINT IF EXISTS {ident(link.name)}"
        )
    condition = (
        f"inhrelid = pg_catalog.to_regclass({literal(name(link.ref))}) AND {_is_parent(link)}"
    )
    body = (
        f"BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE {condition}) THEN"
        f" ALTER TABLE {name(link.ref)} NO INHERIT {link.parent}; END IF; END"
    )
    return f"DO {literal(body)}"


def _is_parent(link: TableLink) -> str:
    return f"inhparent = pg_catalog.to_regclass({literal(link.parent or '')})"


def relink_steps(links: Sequence[TableLink]) -> list[Step]:
    """Return steps that restore the removed links.

    They do so only if the other table was not recreated after all.
    """
    return [_relink_step(link) for link in links if link.kind != "sequence"]


def _relink_step(link: TableLink) -> Step:
    of = literal(name(link.ref))
    if link.kind == "foreign key":
        kind = FOREIGN_KEYS
        action = f"ADD CONSTRAINT {ident(link.name)} {link.definition}"
        existing = f"pg_constraint WHERE conrelid = {link.oid} AND conname = {literal(link.name)}"
        done = f"SELECT EXISTS (SELECT FROM pg_catalog.{existing})"
    else:
        kind = INHERITANCE
        action = f"INHERIT {link.parent}"
        existing = f"pg_inherits WHERE inhrelid = {link.oid} AND {_is_parent(link)}"
        done = ""
    action = f"ALTER TABLE {name(link.ref)} {action}"
    body = (
        f"BEGIN IF pg_catalog.to_regclass({of})::oid = {link.oid}"
        f" AND NOT EXISTS (SELECT FROM pg_catalog.{existing}) THEN {action}; END IF; END"
    )
    return steps.after(
        f"restore {link.oid} {link.name}",
        f"relink {link.ref}",
        steps.CHECK,
        f"DO {literal(body)}",
        instead=NotCopied(kind, link.name, f"{action};", str(link.ref), dropped=True),
        done=done,
    )
