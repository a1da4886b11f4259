"""The partitions of a plan: those the caller defines, or those the strategy cuts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.optional.children import Windows
from penstock.errors import PlanningError
from penstock.model.extents import Key
from penstock.model.plans import Partition
from penstock.planning import cuts
from penstock.planning.answers import KnownAnswers, evaluate_together
from penstock.planning.choice import Choice, choose
from penstock.planning.cuts import Cut
from penstock.planning.named_partitions import resolve_partitions
from penstock.planning.questions import Bounds, KeyFacts, KeyType, Order, TimeWindows, Values
from penstock.planning.request import PlanRequest
from penstock.spec.degrees import Streams
from penstock.spec.groups.cutting import Cutting
from penstock.spec.groups.route import Route
from penstock.spec.modes import Entry, Mode
from penstock.spec.strategies import HASH, NAMED, NTILE, RANGE, TIME, VALUES


@dataclass(frozen=True, slots=True)
class PlannedPartitions:
    """The partitions of a plan, and how the planner arrived at them."""

    choice: Choice
    cut: Cut
    """The cut, with remarks."""
    partitions: tuple[Partition, ...]


def plan_partitions(
    request: PlanRequest,
    statistics: TableStatistics,
    columns: set[str],
    answers: KnownAnswers,
    few: TableStatistics | None = None,
) -> PlannedPartitions:
    """Plan the partitions of a table.

    Args:
        request: the request.
        statistics: statistics of the table.
        columns: the names of the source's columns.
        answers: the answers so far.
        few: statistics of the rows that are read, if an index finds them; None if a scan does.

    Raises:
        PlanningError: the table cannot be cut as requested.
    """
    route, cutting, mode = request.route, request.cutting, request.loading.load_mode
    source = request.capabilities.source
    if request.partitions:
        resolved = resolve_partitions(
            route, mode, cutting.key, request.partitions, answers, columns
        )
        remarks = Cut((), resolved.reasons, resolved.warnings)
        return PlannedPartitions(Choice(NAMED, (), cutting.key), remarks, resolved.partitions)
    choice = choose(cutting, statistics, request.streams, source.block_strategy, few)
    key = _key(cutting, choice, columns)
    if key is not None and not choice.how.hashes:
        by_condition = deletes_by_condition(mode, request.capabilities.target)
        shared_with = route.target_ref if by_condition else None
        key = replace(key, collation=answers[Order(route.relation, key, shared_with)])
    cut, disorder = _cut(route, cutting, choice, statistics, key, answers)
    if disorder:
        assert key is not None
        choice = _in_disorder(cutting, choice, request.streams, source, disorder)
        cut = cuts.cut_hash(replace(key, collation=""), choice.count)
    return PlannedPartitions(choice, cut, cuts.number(cut.extents, statistics))


def deletes_by_condition(mode: Mode, target: TargetCapabilities) -> bool:
    """Whether the target uses the partitions' conditions to decide what to delete."""
    return mode.entry is Entry.REPLACE and target.replaces_by_condition


def _key(cutting: Cutting, choice: Choice, columns: set[str]) -> Key | None:
    if choice.key is None:
        return None
    key = Key(choice.key, expression=choice.key not in columns)
    if key.expression and not (choice.how.hashes or choice.how is VALUES):
        raise PlanningError(
            f"--key {key.text}: no such column in {cutting.source_name}, and "
            f"--strategy {choice.strategy} needs a column; it has {', '.join(sorted(columns))}"
        )
    return key


def _in_disorder(
    cutting: Cutting, choice: Choice, streams: Streams, source: SourceCapabilities, disorder: str
) -> Choice:
    """Return a choice that needs no order, in place of a strategy whose bounds are out of order.

    Raises:
        PlanningError: the user requested the strategy, or no other one works.
    """
    if cutting.cut_strategy.chooses and choice.how in (RANGE, NTILE) and HASH in source.strategies:
        why = f"hash: not {choice.how}, since {disorder}"
        return Choice(HASH, (*choice.reasons, why), choice.key, streams.usual)
    raise PlanningError(
        f"--strategy {choice.strategy}: --key {choice.key}: expected bounds in the source's own "
        f"order, so that each row is in one partition, but {disorder}; cut by another column, or "
        "use --strategy hash"
    )


def _cut(
    route: Route,
    cutting: Cutting,
    choice: Choice,
    statistics: TableStatistics,
    key: Key | None,
    answers: KnownAnswers,
) -> tuple[Cut, str]:
    """Cut the table by the chosen strategy.

    Returns:
        the cut, and how it is out of order; see `KeyBounds`.
    """
    how, count = choice.how, choice.count
    if how.cuts_blocks:
        return cuts.cut_blocks(statistics.blocks or 0, count), ""
    if how.cuts_files:
        return cuts.cut_files(statistics.files, count), ""
    if how.cuts_children:
        as_asked = cutting.cut_strategy.cuts_children
        cut = cuts.cut_children if as_asked else cuts.cut_tables
        return cut(statistics.children, count), ""
    if how.leaves_whole:
        return cuts.cut_whole(), ""
    assert key is not None
    if how.hashes:
        answers[KeyType(route.relation, key)]  # reports an error in the expression now
        return cuts.cut_hash(key, count), ""
    if how is VALUES:
        return _cut_values(route, cutting.values_query, key, answers)
    if how is TIME:
        return _cut_windows(route, cutting.interval, key, count, answers)
    bounds = answers[Bounds(route.relation, key, route.where, count, by_rows=how is NTILE)]
    return cuts.cut_range(bounds.statistics, count), bounds.disorder


def _cut_values(
    route: Route, query: str | None, key: Key, answers: KnownAnswers
) -> tuple[Cut, str]:
    listed, (nullable, _) = evaluate_together(
        lambda: answers[Values(route.relation, key, route.where, query)],
        lambda: answers[KeyFacts(route.relation, key)],
    )
    return cuts.cut_values(listed.values, key, nullable=nullable), listed.disorder


def _cut_windows(
    route: Route, interval: str | None, key: Key, count: int, answers: KnownAnswers
) -> tuple[Cut, str]:
    """Cut windows of the requested interval, or of one that fits."""
    intervals = cuts.INTERVALS if interval is None else (interval,)
    key_windows, (nullable, indexed) = evaluate_together(
        lambda: answers[TimeWindows(route.relation, key, route.where, tuple(intervals), count)],
        lambda: answers[KeyFacts(route.relation, key)],
    )
    starts, origin = key_windows.starts, key_windows.origin
    if interval is None:
        origin = f"{origin}, each of {key_windows.interval}"
    cut = cuts.cut_windows(starts, key, nullable=nullable, indexed=indexed, origin=origin)
    windows = Windows(starts[0], key_windows.interval) if starts else None
    return replace(cut, windows=windows), key_windows.disorder
