"""The step that empties a table before the first partition."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.backends.postgresql.connection import TAKE_USERS_PATH
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.session.statements import name
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.spec.modes import Emptying

_COMMANDS: Mapping[Emptying, tuple[str, str]] = {
    Emptying.TRUNCATE: ("truncate", "TRUNCATE"),
}


def emptying_steps(emptying: Emptying, table: TableRef, *, only: bool = False) -> list[Step]:
    """Return the step that empties a table; none if it keeps its rows.

    Args:
        emptying: the mode's answer.
        table: the table.
        only: whether tables that inherit from it keep theirs.
    """
    if emptying is Emptying.NOTHING:
        return []
    word, command = _COMMANDS[emptying]
    rows = f"ONLY {name(table)}" if only else name(table)
    # Triggers are fired under the user's path.
    script = (TAKE_USERS_PATH, f"{command} {rows}", steps.FULL_NAMES)
    return [steps.before(word, f"{word} {table}", *script)]
