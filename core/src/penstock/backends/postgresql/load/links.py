"""What links a table to others: foreign keys and inheritance, made when all of them are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.backends.api.facts import Siblings
from penstock.backends.postgresql.load import ddl, done, indexes
from penstock.backends.postgresql.load.ddl import Json, Names, ident, literal, name, script
from penstock.backends.postgresql.load.existing import Linked
from penstock.model.plans import Step
from penstock.model.tables import NotCopied, TableRef

FOREIGN_KEYS, INHERITANCE = "foreign keys", "inheritance"


@dataclass(slots=True)
class Links:
    own: list[Step] = field(default_factory=list)
    """Of the table to itself."""
    others: list[Step] = field(default_factory=list)
    """To other tables of the batch."""
    left: list[NotCopied] = field(default_factory=list)
    """To tables that are not copied with it."""


def links_of(tables: Sequence[Json], names: Names, siblings: Siblings) -> Links:
    """
    Parameters:
        tables: one that is made, and then those that it consists of.
    """
    links = Links()
    for table in tables:
        ref = names.table(table)
        for constraint in table["constraints"]:
            if constraint["kind"] != "f" or constraint["inherited"]:
                continue
            own = constraint["references_itself"]
            other = ref if own else siblings.targets.get(TableRef(*constraint["references"]))
            if other is None:
                links.left.append(_left(constraint, ref, None))
            else:
                steps = _foreign_key(table, constraint, ref, other)
                (links.own if own else links.others).extend(steps)
    _inherit(tables[0], names.table(tables[0]), siblings, links)
    return links


def _left(constraint: Json, ref: TableRef, other: TableRef | None) -> NotCopied:
    remedy = f"{ddl.foreign_key(constraint, ref, other)};"
    return NotCopied(FOREIGN_KEYS, constraint["name"], remedy, str(ref))


def _foreign_key(table: Json, constraint: Json, ref: TableRef, other: TableRef) -> list[Step]:
    """Added without a look at the rows first, so that the look keeps nobody from writing."""
    add = ddl.foreign_key(constraint, ref, other)
    checked = constraint["validated"] and "NOT ENFORCED" not in constraint["definition"]
    # A partitioned table takes none that is not valid.
    apart = checked and table["partition_key"] is None
    label = constraint["name"]
    statements = [
        _locked({ref: "SHARE ROW EXCLUSIVE", other: "SHARE ROW EXCLUSIVE"}),
        f"{add} NOT VALID" if apart else add,
        *ddl.constraint_comment(ref, label, constraint["comment"]),
    ]
    steps = [
        Step(
            f"reference {table['oid']} {label}",
            f"add foreign key {label} to {ref}",
            script(statements),
            True,
            indexes.REFER,
            instead=_left(constraint, ref, other),
            done=done.has_constraint(ref, label),
        )
    ]
    if apart:
        validate = f"ALTER TABLE {name(ref)} VALIDATE CONSTRAINT {ident(label)}"
        steps.append(
            Step(
                f"validate {table['oid']} {label}",
                f"validate foreign key {label} of {ref}",
                script([validate]),
                True,
                indexes.CHECK,
                instead=NotCopied(FOREIGN_KEYS, label, f"{validate};", str(ref)),
            )
        )
    return steps


def _inherit(table: Json, ref: TableRef, siblings: Siblings, links: Links) -> None:
    parents = [TableRef(*parent) for parent in table["inherits"]]
    if not parents:
        return
    made = [siblings.targets.get(parent) for parent in parents]
    statements = [
        f"ALTER TABLE {name(ref)} INHERIT {name(target or parent)}"
        for parent, target in zip(parents, made, strict=True)
    ]
    shown = ", ".join(str(parent) for parent in parents)
    left = NotCopied(INHERITANCE, shown, "\n".join(f"{one};" for one in statements), str(ref))
    known = [target for target in made if target is not None]
    if len(known) < len(parents):
        links.left.append(left)
        return
    locks = {ref: "ACCESS EXCLUSIVE", **dict.fromkeys(known, "SHARE UPDATE EXCLUSIVE")}
    links.others.append(
        Step(
            f"inherit {table['oid']}",
            f"have {ref} inherit from {', '.join(map(str, known))}",
            script([_locked(locks), *statements]),
            True,
            indexes.DRESS,
            instead=left,
            done=done.inherits(ref, known[0]),
        )
    )


def _locked(modes: dict[TableRef, str]) -> str:
    """All in one order, whoever does it: nobody waits for somebody who waits for him."""
    return ";\n".join(
        f"LOCK TABLE ONLY {name(ref)} IN {mode} MODE" for ref, mode in sorted(modes.items())
    )


def undo(links: Sequence[Linked]) -> list[Step]:
    """Steps before the first partition after which a table can be dropped."""
    return [
        Step(f"unlink {link.oid} {link.name}", f"unlink {link.ref}", script([_undone(link)]))
        for link in links
    ]


def _undone(link: Linked) -> str:
    """Repeatable: the other table may be made anew by then."""
    if link.kind == "sequence":
        # The table that is made uses it again, as the other one does.
        return f"ALTER SEQUENCE IF EXISTS {link.sequence} OWNED BY NONE"
    if link.kind == "foreign key":
        return (
            f"ALTER TABLE IF EXISTS {name(link.ref)} DROP CONSTRAINT IF EXISTS {ident(link.name)}"
        )
    body = (
        "BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_inherits AS i"
        f" WHERE i.inhrelid = pg_catalog.to_regclass({literal(name(link.ref))})"
        f" AND i.inhparent = pg_catalog.to_regclass({literal(link.of or '')})) THEN"
        f" ALTER TABLE {name(link.ref)} NO INHERIT {link.of}; END IF; END"
    )
    return f"DO {literal(body)}"


def restore(links: Sequence[Linked]) -> list[Step]:
    """What was undone, where the other table was not made anew after all."""
    steps = []
    for link in links:
        if link.kind == "foreign key":
            kind = FOREIGN_KEYS
            again = (
                f"ALTER TABLE {name(link.ref)} ADD CONSTRAINT {ident(link.name)} {link.definition}"
            )
            there = (
                f"SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conrelid = {link.oid}"
                f" AND k.conname = {literal(link.name)}"
            )
        elif link.kind == "inheritance":
            kind = INHERITANCE
            again = f"ALTER TABLE {name(link.ref)} INHERIT {link.of}"
            there = (
                f"SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = {link.oid}"
                f" AND i.inhparent = pg_catalog.to_regclass({literal(link.of or '')})"
            )
        else:
            continue
        body = (
            f"BEGIN IF pg_catalog.to_regclass({literal(name(link.ref))})::oid = {link.oid}"
            f" AND NOT EXISTS ({there}) THEN {again}; END IF; END"
        )
        steps.append(
            Step(
                f"restore {link.oid} {link.name}",
                f"link {link.ref} again",
                script([f"DO {literal(body)}"]),
                True,
                indexes.CHECK,
                instead=NotCopied(kind, link.name, f"{again};", str(link.ref), dropped=True),
            )
        )
    return steps
