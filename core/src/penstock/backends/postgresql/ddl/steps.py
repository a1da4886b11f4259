"""Steps around the load, and the ranks of those after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.postgresql.connection import TAKE_USERS_PATH
from penstock.backends.postgresql.ddl import completion
from penstock.backends.postgresql.session.statements import name
from penstock.model.plans import SWAP_STEP, LoadPlan, Step
from penstock.model.tables import NotCopied, TableRef
from penstock.spec.modes import Emptying

# A table's indexes are built in parallel, then constraints are added. Steps that change the table's
# own catalog row have ranks of their own.
LOGGED, BUILD, CONSTRAIN, ATTACH, COMPLETE, REFER, CHECK, LAST = range(8)

# Expressions were read under this search path, and are written under it.
FULL_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"
# A step that locks out readers and does not get its lock within this time lets others proceed, and
# tries again.
URGENT_LOCK_MS = 2000
# The same if one transaction locks many tables: readers of all of them wait for the last lock.
GROUP_LOCK_MS = 200
SET_LOGGED = "set logged"
"""The kind of steps after which a crash no longer empties the table."""
LINKED = "linked"
"""The kind of steps that also lock tables that reference theirs, or that theirs references."""
SWAP = SWAP_STEP
_EMPTYING: Mapping[Emptying, tuple[str, str]] = {
    Emptying.TRUNCATE: ("truncate", "TRUNCATE"),
}


def before(step_id: str, what: str, *statements: str) -> Step:
    """Return a step that is done before the first partition.

    Args:
        step_id: the step's id, unique in the plan.
        what: the step as the plan names it.
        *statements: the statements, executed in one transaction.
    """
    return Step(step_id, what, _script(statements))


def emptying(how: Emptying, table: TableRef, *, only: bool = False) -> list[Step]:
    """Return the step that empties a table; none if it keeps its rows.

    Args:
        how: the mode's answer.
        table: the table.
        only: whether tables that inherit from it keep theirs.
    """
    if how is Emptying.NOTHING:
        return []
    word, command = _EMPTYING[how]
    rows = f"ONLY {name(table)}" if only else name(table)
    # Triggers are fired under the user's path.
    script = (TAKE_USERS_PATH, f"{command} {rows}", FULL_NAMES)
    return [before(word, f"{word} {table}", *script)]


def after(
    step_id: str,
    what: str,
    rank: int,
    *statements: str,
    done: str = "",
    instead: NotCopied | None = None,
    urgent: bool = False,
) -> Step:
    """Return a step that is done after the last partition; see `Step`.

    Args:
        step_id: the step's id, unique in the plan.
        what: the step as the plan names it.
        rank: steps with lower ranks are done first.
        *statements: the statements, executed in one transaction.
        done: a boolean query for whether the step is done; empty if the step can be repeated.
        instead: the remark if the step fails and the run finishes without it.
        urgent: whether the step locks out readers.
    """
    text = _script(statements)
    return Step(step_id, what, text, True, rank, urgent, instead=instead, done=done)


def _script(statements: tuple[str, ...]) -> str:
    return ";\n".join((FULL_NAMES, *statements))


def set_logged(ref: TableRef, oid: int) -> Step:
    """Return the step that makes a table logged.

    It comes before the indexes, which its rewrite of the table would build twice.
    """
    alter = f"ALTER TABLE {name(ref)} SET LOGGED"
    step_id, done = f"{SET_LOGGED} {oid}", completion.is_logged(ref)
    step = after(step_id, f"set {ref} logged", LOGGED, alter, done=done)
    return replace(step, kind=SET_LOGGED)


def logged_by(load: LoadPlan) -> list[str]:
    """Return the ids of the steps of a load that make tables logged."""
    return [step.id for step in load.after if step.kind == SET_LOGGED]


def locks(modes: Mapping[TableRef, str]) -> list[str]:
    """Return LOCK statements in a fixed order, so that no two runs wait for each other."""
    return [f"LOCK TABLE ONLY {name(ref)} IN {mode} MODE" for ref, mode in sorted(modes.items())]
