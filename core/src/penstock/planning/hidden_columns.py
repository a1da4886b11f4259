"""Columns that nights have masked, computed or left out: known under every name. Pure.

Options name columns, so a column that gets another name is no longer covered by its option. The
watermark remembers it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.errors import Drifted
from penstock.model.source_columns import SourceColumn, match_earlier
from penstock.model.tables import Column
from penstock.spec.groups.route import Route


def check_hidden(
    route: Route, columns: Sequence[Column], copied: Collection[str], before: Sequence[SourceColumn]
) -> None:
    """Check that no column is copied that was hidden under another name, or by another mask.

    A user who drops or changes the option for a name has decided about it; one whose column was
    renamed has not.

    Args:
        route: the options that hide columns.
        columns: the source's columns.
        copied: the names of those that are copied.
        before: the columns as the last night found them.

    Raises:
        Drifted: a column would arrive as it never should have.
    """
    if not any(each.hidden for each in before):
        return
    now = tuple(map(SourceColumn.of, columns))
    matching = match_earlier(before, now)
    known = {each.name: each for each in before}
    lines, names = [], []
    for column in now:
        name = column.name
        if name not in copied:
            continue
        for then in matching.candidates(column):
            if not then.hidden or then.hidden == name or not route.hides(then.hidden):
                continue
            why = _exposure(route, name, then, known.get(name))
            if why:
                certain = name in matching.same
                is_what = "is what was" if certain else "may be what was"
                lines.append(f"{name} {is_what} {then.hidden}, which {why}")
                names.append(name)
                break
    if lines:
        raise Drifted(_message(route, lines, names))


def _exposure(route: Route, name: str, then: SourceColumn, had_name: SourceColumn | None) -> str:
    """Return how a column was hidden, if it no longer is; empty if it is, or if the user says so.

    Args:
        route: the options that hide columns.
        name: the column's present name.
        then: the column as it was.
        had_name: the column that had this name.
    """
    mask = route.mask_of(name)
    if name in route.expressions or route.excludes(name):
        return ""
    if mask is None:
        return f"is masked ({then.mask})" if then.mask else "is left out or computed"
    # With another mask than the name had before, the user has chosen.
    is_unchanged = had_name is not None and had_name.mask == str(mask)
    if then.mask and then.mask != str(mask) and is_unchanged:
        return f"was masked by {then.mask}, not by {mask}"
    return ""


def _message(route: Route, lines: Sequence[str], names: Sequence[str]) -> str:
    if all(route.mask_of(name) is not None for name in names):
        ways = "give each column the mask that its values need (--mask)"
    else:
        plain = ", ".join(f"--set {name}={name}" for name in names)
        ways = (
            f"mask {', '.join(names)} or leave it out (--mask, --exclude-columns); if the values "
            f"may arrive as they are, say so: {plain}"
        )
    listed = "".join(f"\n  {line}" for line in lines)
    return (
        f"{route.source_name}: columns have other names than in the last night, so their values "
        f"would arrive in {route.target_name} as they never have:{listed}\n{ways}"
    )


def remember_hidden(
    route: Route, column: SourceColumn, candidates: Sequence[SourceColumn]
) -> SourceColumn:
    """Return a column with the name and the mask under which it is hidden, now or before.

    Args:
        route: the options that hide columns.
        column: the column as it is.
        candidates: the earlier columns that it may be.
    """
    name = column.name
    mask = route.mask_of(name)
    said = name in route.expressions
    before = next((each for each in candidates if each.hidden), None)
    if before is not None and (said or not route.hides(name)) and route.hides(before.hidden):
        return replace(column, hidden=before.hidden, mask=before.mask)
    if not route.hides(name):
        return column
    return replace(column, hidden=name, mask="" if mask is None else str(mask))
