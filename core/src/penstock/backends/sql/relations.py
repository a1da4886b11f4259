"""Tables and views by their names, as far as every database finds them alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from penstock.errors import PlanningError
from penstock.model.tables import TableRef


def matching(
    known: Sequence[TableRef], include: Sequence[str], exclude: Sequence[str]
) -> tuple[TableRef, ...]:
    """Those whose ``schema.name`` one of the patterns matches and none of the others does."""

    def is_one(table: TableRef, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(f"{table.schema}.{table.name}", pattern) for pattern in patterns)

    return tuple(t for t in known if is_one(t, include) and not is_one(t, exclude))


def find_by_name(
    known: Collection[TableRef], search_path: Sequence[str], name: str
) -> TableRef | None:
    """The first table of that name along the search path."""
    refs = (TableRef(schema, name) for schema in search_path)
    return next((ref for ref in refs if ref in known), None)


def no_such(table: TableRef, known: Collection[TableRef], side: str) -> PlanningError:
    """Names tables that are there, those of similar names first."""
    names = [str(ref) for ref in known]
    near = get_close_matches(str(table), names, 3, 0.6) or [
        str(ref) for ref in known if ref.name == table.name
    ]
    found = f"; near names: {', '.join(near)}" if near else ""
    if not near and names:
        found = f"; there are {', '.join(names[:5])}" + (" and more" if len(names) > 5 else "")
    return PlanningError(f"{side}: expected table {table}, found no such table{found}")
