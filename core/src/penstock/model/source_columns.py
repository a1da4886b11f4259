"""The columns of a source as a run or a night found them, and which of them it still has.

A name alone does not identify a column: it may have been given to another one since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.model.codec import OMITTED, JsonForm
from penstock.model.tables import Column

_LENGTHS = re.compile(r"\(.*\)")


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source, as a run or a night found it."""

    json_form = JsonForm(defaults=True)

    name: str
    type: str
    nullable: bool = field(default=True, metadata=OMITTED)
    identity: str = field(default="", metadata=OMITTED)
    """See `Column`, as for the next ones."""
    place: int = field(default=0, metadata=OMITTED)
    collation: str = field(default="", metadata=OMITTED)
    formula: str = field(default="", metadata=OMITTED)
    generated: bool = field(default=False, metadata=OMITTED)
    stored_type: str = field(default="", metadata=OMITTED)
    """The type that it has in the source, if it is copied with another one."""
    hidden: str = field(default="", metadata=OMITTED)
    """The name under which nights have masked it, set it, or left it out; empty if none has."""
    mask: str = field(default="", metadata=OMITTED)
    """Its mask; empty without one."""
    target_formula: str = field(default="", metadata=OMITTED)
    """The expression by which the target computes it; empty if it does not."""

    @classmethod
    def of(cls, column: Column) -> SourceColumn:
        """Return what is remembered of a column."""
        return cls(
            column.name,
            column.type,
            column.nullable,
            column.identity,
            column.place,
            column.collation,
            column.formula,
            column.generated,
        )


@dataclass(frozen=True, slots=True)
class Matching:
    """The columns that a source has now, matched with those that it had."""

    same: Mapping[str, SourceColumn]
    """The column as it was, by its present name."""
    unsure: frozenset[str]
    """Present names that may belong to other columns than before: this source cannot tell."""
    unmatched: tuple[SourceColumn, ...]
    """The earlier columns that are no longer there, or may have another name."""

    def candidates(self, column: SourceColumn) -> tuple[SourceColumn, ...]:
        """Return the earlier columns that a present one may be.

        A column that was not recognised is assumed to have kept its type, but for its length.
        """
        if column.name in self.same:
            return (self.same[column.name],)
        kind = _LENGTHS.sub("", column.type)
        return tuple(
            each
            for each in self.unmatched
            if _LENGTHS.sub("", each.stored_type or each.type) == kind
        )


def match_earlier(before: Sequence[SourceColumn], now: Sequence[SourceColumn]) -> Matching:
    """Match the columns that a source has now with those that it had.

    They are matched by their ids. Without ids, a name stands for the same column as long as it is
    in the same order with all others that are there before and now.

    Args:
        before: the columns as they were.
        now: the columns as they are.
    """
    by_identity = {each.identity: each for each in before if each.identity}
    has_ids = by_identity and any(each.identity for each in now)
    if has_ids and not _are_of_other_tables(before, now):
        same = {
            each.name: by_identity[each.identity] for each in now if each.identity in by_identity
        }
        # A column without its id no longer exists; one that never had an id is known by its name.
        named = {each.name: each for each in before if not each.identity}
        same |= {
            each.name: named[each.name] for each in now if not each.identity and each.name in named
        }
        return Matching(same, frozenset(), ())
    known = {each.name: each for each in before}
    unsure = _out_of_order(before, now)
    same = {each.name: known[each.name] for each in now if each.name in known.keys() - unsure}
    unmatched = tuple(each for each in before if each.name not in same)
    return Matching(same, unsure, unmatched)


def _out_of_order(before: Sequence[SourceColumn], now: Sequence[SourceColumn]) -> frozenset[str]:
    """Return the names of columns that have changed places with others."""
    places = {each.name: each.place for each in now if each.place}
    common = sorted(
        (each.place, places[each.name], each.name)
        for each in before
        if each.place and each.name in places
    )
    moved: set[str] = set()
    greatest = 0
    for _, place, name in common:  # behind one that was in front of it
        if place < greatest:
            moved.add(name)
        greatest = max(greatest, place)
    least = max(places.values(), default=0) + 1
    for _, place, name in reversed(common):
        if place > least:
            moved.add(name)
        least = min(least, place)
    return frozenset(moved)


def changed_meaning(
    before: Sequence[SourceColumn], now: Sequence[SourceColumn], names: Collection[str]
) -> tuple[str, ...]:
    """Return those names that stand, or may stand, for other values than before in unchanged rows.

    Args:
        before: the columns as they were.
        now: the columns as they are.
        names: the names to look at.
    """
    known = {each.name: each for each in before}
    same = match_earlier(before, now).same
    return tuple(
        each.name
        for each in now
        if each.name in names
        if (then := known.get(each.name)) is not None
        if same.get(each.name) is not then or then.formula != each.formula
    )


def other_columns(
    before: Sequence[SourceColumn], now: Sequence[SourceColumn], is_used: Callable[[str], bool]
) -> list[str]:
    """Describe which names now stand for other columns, or for none.

    Args:
        before: the columns as they were.
        now: the columns as they are.
        is_used: whether a column, by its earlier name, is looked at.
    """
    matching = match_earlier(before, now)
    present = {each.name: each for each in now}
    names_now = {id(then): name for name, then in matching.same.items()}
    lines = []
    for then in before:
        if not is_used(then.name):
            continue
        what, new_name = f"column {then.name!r}", names_now.get(id(then))
        if new_name not in (None, then.name):
            lines.append(f"{what} is now called {new_name!r}")
        elif then.name not in present:
            lines.append(f"{what} was dropped")
        elif then.name in matching.unsure:
            lines.append(f"{what} is in another place, and may be another column")
        elif new_name is None:
            lines.append(f"{what} was dropped, and another one has its name now")
        elif then.formula != (formula := present[then.name].formula):
            lines.append(f"{what} was {_computed(then.formula)} and is now {_computed(formula)}")
    return lines


def shape_changes(
    before: Sequence[SourceColumn],
    now: Sequence[SourceColumn],
    is_used: Callable[[str], bool],
    *,
    all_used: bool,
) -> list[str]:
    """Describe the changes after which the plan of a run no longer holds.

    Args:
        before: the columns as they were; empty if unknown.
        now: the columns as they are.
        is_used: whether the run reads a column, or a condition of it does.
        all_used: whether the run reads all columns, so that it would have read added ones, too.
    """
    if not before:
        return []
    if _are_of_other_tables(before, now):
        return ["the table was recreated, or it is another one of that name"]
    lines = other_columns(before, now, is_used)
    same, known = match_earlier(before, now).same, {each.name for each in before}
    for each in filter(lambda column: is_used(column.name), now):
        then = same.get(each.name)
        if then is not None and then.name == each.name:
            lines += _altered(then, each)
        elif then is None and all_used and not each.generated and each.name not in known:
            lines.append(f"column {each.name!r} was added")
    return lines


def _are_of_other_tables(before: Sequence[SourceColumn], now: Sequence[SourceColumn]) -> bool:
    """Whether columns with ids are those of other tables."""
    tables = {_table(each.identity) for each in before if each.identity}
    here = {_table(each.identity) for each in now if each.identity}
    return bool(tables and here) and tables.isdisjoint(here)


def _table(identity: str) -> str:
    return identity.rpartition(".")[0]


def _altered(then: SourceColumn, now: SourceColumn) -> Iterable[str]:
    what = f"column {then.name!r}"
    if then.type != now.type:
        yield f"{what} was {then.type} and is now {now.type}"
    if then.collation != now.collation:
        usual = "the usual one of its type"
        yield (
            f"{what} had the collation {then.collation or usual} and has now "
            f"{now.collation or usual}"
        )
    if then.formula != now.formula:
        yield (f"{what} was {_computed(then.formula)} and is now {_computed(now.formula)}")


def _computed(formula: str) -> str:
    return f"computed as {formula}" if formula else "not computed"
