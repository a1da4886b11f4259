"""The rows of complete runs, looked for again: with few statements for all of their tables."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.shared.bisection import halved, is_no_interruption
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.sql.catalog.relations import read_relations_anew
from penstock.backends.sql.rows.conditions import TRUE, condition
from penstock.backends.sql.session import Session
from penstock.errors import PenstockError, PlanningError
from penstock.model.extents import Whole

# Tables per statement.
AT_ONCE = 100


def see_again(session: Session, runs: Sequence[Lasting]) -> dict[str, Seen]:
    """Return what is there of complete runs; see `LoadHooks.see_again`."""
    relations = read_relations_anew(session)
    seen: dict[str, Seen] = {}
    tables: list[Lasting] = []
    for run in runs:
        is_view = relations.get(run.table)
        if is_view is None:
            seen[run.run_id] = Seen(0, "was dropped", emptied=True)
        elif is_view:
            seen[run.run_id] = Seen(None, "is a view now")
        else:
            tables.append(run)
    for first in range(0, len(tables), AT_ONCE):
        seen |= _rows(session, tables[first : first + AT_ONCE])
    return seen


def _rows(session: Session, runs: Sequence[Lasting]) -> dict[str, Seen]:
    """Return the rows of those tables that the user may read."""

    def ask(places: Sequence[int]) -> dict[int, Seen]:
        query = " UNION ALL ".join(
            f"SELECT {place}, {_count(session, runs[place])}" for place in places
        )
        return {int(place): Seen(int(count)) for place, count in session.fetch(query, "tables")}

    seen, _ = halved(range(len(runs)), ask, PenstockError, is_no_interruption)
    return {runs[place].run_id: rows for place, rows in seen.items()}


def _count(session: Session, run: Lasting) -> str:
    rows = f"FROM {session.table(run.table)} WHERE {_condition(session, run)}"
    if run.counted:
        return f"(SELECT count(*) {rows})"
    return f"CASE WHEN EXISTS (SELECT 1 {rows}) THEN 1 ELSE 0 END"


def _condition(session: Session, run: Lasting) -> str:
    extents = run.extents or [Whole()]
    try:
        parts = [condition(session.dialect, run.where, extent) for extent in extents]
    except PlanningError:
        return TRUE
    return " OR ".join(f"({part})" for part in parts)
