"""Steps around the load, and the ranks of those after it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.backends.postgresql.ddl import done
from penstock.backends.postgresql.session.statements import name
from penstock.model.plans import SWAP_STEP, Step
from penstock.model.tables import NotCopied, TableRef

# Indexes of one table are built side by side, then constraints are put on them. What changes the
# table's own row in the catalog has a rank apart from what else does.
LOGGED, BUILD, CONSTRAIN, ATTACH, DRESS, REFER, CHECK, LAST = range(8)

# Expressions were written with the names of this path, and are read with them.
FULL_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"
# What locks readers out, and cannot have its lock within this, lets readers and writers go on, and
# tries again.
URGENT_LOCK_MS = 2000
# What the ids of steps begin with after which a crash no longer empties the table.
SET_LOGGED = "set logged "
SWAP = SWAP_STEP


def before(step_id: str, what: str, *statements: str) -> Step:
    return Step(step_id, what, _script(statements))


def after(
    step_id: str,
    what: str,
    rank: int,
    *statements: str,
    done: str = "",
    instead: NotCopied | None = None,
    urgent: bool = False,
) -> Step:
    """See `Step`."""
    text = _script(statements)
    return Step(step_id, what, text, True, rank, urgent, instead=instead, done=done)


def _script(statements: tuple[str, ...]) -> str:
    return ";\n".join((FULL_NAMES, *statements))


def set_logged(ref: TableRef, oid: int) -> Step:
    """Before its indexes are built: the table is rewritten, and they would be built twice."""
    alter = f"ALTER TABLE {name(ref)} SET LOGGED"
    step_id = f"{SET_LOGGED}{oid}"
    return after(step_id, f"set {ref} logged", LOGGED, alter, done=done.is_logged(ref))


def locks(modes: Mapping[TableRef, str]) -> list[str]:
    """All in one order, whoever takes them: so no two runs wait for each other."""
    return [f"LOCK TABLE ONLY {name(ref)} IN {mode} MODE" for ref, mode in sorted(modes.items())]
