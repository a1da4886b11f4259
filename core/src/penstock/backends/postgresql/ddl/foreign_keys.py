"""Foreign keys: added without checking the rows, then validated while others can write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.backends.postgresql.ddl import completion, steps
from penstock.backends.postgresql.ddl.text import constraint_comment
from penstock.backends.postgresql.session.statements import ident, name
from penstock.model.plans import Step
from penstock.model.tables import NotCopied, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import ConstraintPart, TablePart

FOREIGN_KEYS = "foreign keys"


def foreign_key_steps(
    table: TablePart, constraint: ConstraintPart, ref: TableRef, referenced: TableRef | None
) -> list[Step]:
    """Return the steps that add a foreign key.

    Args:
        table: the definition of the table.
        constraint: the foreign key, from that definition.
        ref: the name of the table.
        referenced: the referenced table, if another run may link the two at the same time. Both are
            then locked, and if the key cannot be added, the run finishes without it.
    """
    label = constraint["name"]
    add = foreign_key(constraint, ref, referenced)
    checked = constraint["validated"] and "NOT ENFORCED" not in constraint["definition"]
    # A partitioned table accepts only valid ones.
    validates_later = checked and table["partition_key"] is None
    modes = {ref: "SHARE ROW EXCLUSIVE", referenced: "SHARE ROW EXCLUSIVE"} if referenced else {}
    planned = [
        steps.after(
            f"reference {table['oid']} {label}",
            f"add foreign key {label} to {ref}",
            steps.REFER,
            *steps.locks(modes),
            f"{add} NOT VALID" if validates_later else add,
            *constraint_comment(ref, label, constraint["comment"]),
            instead=not_copied(constraint, ref, referenced) if referenced else None,
            done=completion.has_constraint(ref, label),
        )
    ]
    if validates_later:
        validate = f"ALTER TABLE {name(ref)} VALIDATE CONSTRAINT {ident(label)}"
        instead = NotCopied(FOREIGN_KEYS, label, f"{validate};", str(ref)) if referenced else None
        planned.append(
            steps.after(
                f"validate {table['oid']} {label}",
                f"validate foreign key {label} of {ref}",
                steps.CHECK,
                validate,
                instead=instead,
                done=completion.is_valid(ref, label),
            )
        )
    return planned


def not_copied(constraint: ConstraintPart, ref: TableRef, referenced: TableRef | None) -> NotCopied:
    """Return the remark that a foreign key is not created, with the statement that creates it.

    Args:
        constraint: the foreign key.
        ref: the name of the table.
        referenced: the referenced table, if it has another name in the target.
    """
    remedy = f"{foreign_key(constraint, ref, referenced)};"
    return NotCopied(FOREIGN_KEYS, constraint["name"], remedy, str(ref))


def foreign_key(
    constraint: ConstraintPart, ref: TableRef, referenced: TableRef | None = None
) -> str:
    """Return the statement that adds a foreign key to a table under another name.

    The key may reference the table itself.

    Args:
        constraint: the foreign key.
        ref: the name of the table.
        referenced: the referenced table, if that has another name too.
    """
    definition = constraint["definition"]
    referenced = ref if constraint["references_itself"] else referenced
    if referenced is not None:
        start = definition.index(" REFERENCES ", definition.index("(")) + len(" REFERENCES ")
        head = f"FOREIGN KEY ({constraint['columns']}) REFERENCES "
        if definition.startswith(head):
            start = len(head)
        reference = definition[start:]
        definition = definition[:start] + name(referenced) + reference[_name_end(reference) :]
    return f"ALTER TABLE {name(ref)} ADD CONSTRAINT {ident(constraint['name'])} {definition}"


def referenced_table(constraint: ConstraintPart) -> TableRef:
    """Return the table that a foreign key references, by its name in the source."""
    assert constraint["references"] is not None
    schema, table = constraint["references"]
    return TableRef(schema, table)


def _name_end(text: str) -> int:
    """Return the end of the table name, quoted or not, that a text begins with."""
    inside = False
    for index, character in enumerate(text):
        if character == '"':
            inside = not inside
        elif character == "(" and not inside:
            return index
    return len(text)
