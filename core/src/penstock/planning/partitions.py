"""The partitions of a plan: those the caller defines, or those that follow from the strategy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.optional.children import Windows
from penstock.errors import PlanningError
from penstock.model.extents import Key
from penstock.model.plans import Partition
from penstock.planning import partition_extents
from penstock.planning.answers import KnownAnswers, evaluate_together
from penstock.planning.choice import Aims, Choice, choose
from penstock.planning.named_partitions import resolve_partitions
from penstock.planning.partition_extents import Partitioning, number
from penstock.planning.questions import Bounds, KeyFacts, KeyHashes, Order, TimeWindows, Values
from penstock.planning.request import PlanRequest
from penstock.planning.skew import find_skew, without_key
from penstock.spec.degrees import Streams
from penstock.spec.groups.partitioning import PartitionOptions
from penstock.spec.groups.route import Route
from penstock.spec.masks import mentions
from penstock.spec.modes import Entry, Mode
from penstock.spec.strategies import HASH, NAMED, NTILE, RANGE, TIME, VALUES


@dataclass(frozen=True, slots=True)
class PlannedPartitions:
    """The partitions of a plan, and how the planner arrived at them."""

    choice: Choice
    partitioning: Partitioning
    """The extents, with remarks."""
    partitions: tuple[Partition, ...]
    skew: str = ""
    """A warning that one partition is far larger than the others; empty if none is."""


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
        PlanningError: the table cannot be partitioned as requested.
    """
    route, options, mode = request.route, request.partitioning, request.loading.load_mode
    source = request.capabilities.source
    if request.partitions:
        resolved = resolve_partitions(
            route, mode, options.key, request.partitions, answers, columns
        )
        remarks = Partitioning((), resolved.reasons, resolved.warnings)
        return PlannedPartitions(Choice(NAMED, (), options.key), remarks, resolved.partitions)
    aims = Aims(request.streams, source.block_strategy, request.capabilities.target.least_rows)
    chosen = partial(choose, table=statistics, aims=aims)
    choice = chosen(options, few=few)
    key = _key(options, choice, columns)
    if key is not None and not choice.how.hashes:
        by_condition = deletes_by_condition(mode, request.capabilities.target)
        shared_with = route.target_ref if by_condition else None
        key = replace(key, collation=answers[Order(route.relation, key, shared_with)])
    planned, disorder = _partition(route, options, choice, statistics, key, answers)
    if disorder:
        assert key is not None
        choice = _in_disorder(options, choice, request.streams, source, disorder)
        planned = partition_extents.by_hash(replace(key, collation=""), choice.count)
    skew = find_skew(planned, statistics, shows_values=_shows_values(route, choice.key, columns))
    if skew is None:
        return PlannedPartitions(choice, planned, number(planned.extents, statistics))
    keyless = None if _needs_key(request) else without_key(options, chosen)
    automatic = options.partition_strategy.chooses and choice.how is RANGE and route.where is None
    if keyless is not None and automatic and skew.by_one_value:
        why = f"{keyless.strategy}: not range by key {choice.key}, since {skew.reason}"
        choice = replace(keyless, reasons=(why, *keyless.reasons))
        planned, _ = _partition(route, options, choice, statistics, None, answers)
        return PlannedPartitions(choice, planned, number(planned.extents, statistics))
    partitions = number(planned.extents, statistics)
    largest = partitions[skew.place]
    way = "" if keyless is None else keyless.strategy
    warning = skew.warning(largest.id, str(largest.extent), way)
    return PlannedPartitions(choice, planned, partitions, warning)


def _needs_key(request: PlanRequest) -> bool:
    """Whether the mode works only with partitions by a key."""
    mode = request.loading.load_mode
    by_condition = deletes_by_condition(mode, request.capabilities.target)
    return by_condition or mode.entry is Entry.ATTACH


def _shows_values(route: Route, key: str | None, columns: set[str]) -> bool:
    """Whether messages may show values of a key."""
    if key is None:
        return False
    hidden = [name for name in columns if route.mask_of(name) or route.excludes(name)]
    return not mentions(key, hidden)


def deletes_by_condition(mode: Mode, target: TargetCapabilities) -> bool:
    """Whether the target uses the partitions' conditions to decide what to delete."""
    return mode.entry is Entry.REPLACE and target.replaces_by_condition


def _key(options: PartitionOptions, choice: Choice, columns: set[str]) -> Key | None:
    if choice.key is None:
        return None
    key = Key(choice.key, expression=choice.key not in columns)
    if key.expression and not (choice.how.hashes or choice.how is VALUES):
        raise PlanningError(
            f"--key {key.text}: no such column in {options.source_name}, and "
            f"--strategy {choice.strategy} needs a column; it has {', '.join(sorted(columns))}"
        )
    return key


def _in_disorder(
    options: PartitionOptions,
    choice: Choice,
    streams: Streams,
    source: SourceCapabilities,
    disorder: str,
) -> Choice:
    """Return a choice that needs no order, in place of a strategy whose bounds are out of order.

    Raises:
        PlanningError: the user requested the strategy, or no other one works.
    """
    if (
        options.partition_strategy.chooses
        and choice.how in (RANGE, NTILE)
        and HASH in source.strategies
    ):
        why = f"hash: not {choice.how}, since {disorder}"
        return Choice(HASH, (*choice.reasons, why), choice.key, streams.usual)
    raise PlanningError(
        f"--strategy {choice.strategy}: --key {choice.key}: expected bounds in the source's own "
        f"order, so that each row is in one partition, but {disorder}; partition by another "
        "column, or use --strategy hash"
    )


def _partition(
    route: Route,
    options: PartitionOptions,
    choice: Choice,
    statistics: TableStatistics,
    key: Key | None,
    answers: KnownAnswers,
) -> tuple[Partitioning, str]:
    """Partition the table by the chosen strategy.

    Returns:
        the options, and how it is out of order; see `KeyBounds`.
    """
    how, count = choice.how, choice.count
    if how.by_blocks:
        return partition_extents.by_blocks(statistics.blocks or 0, count), ""
    if how.by_files:
        return partition_extents.by_files(statistics.files, count), ""
    if how.by_children:
        as_asked = options.partition_strategy.by_children
        by = partition_extents.by_children if as_asked else partition_extents.by_tables
        return by(statistics.children, count), ""
    if how.leaves_whole:
        return partition_extents.as_whole(), ""
    assert key is not None
    if how.hashes:
        known = answers[KeyHashes(route.relation, key)]  # reports an error in the expression now
        if route.where is not None and mentions(route.where, [key.text]):
            known = partition_extents.EVENLY  # it may exclude the common values
        return partition_extents.by_hash(key, count, known), ""
    if how is VALUES:
        return _by_values(route, options.values_query, key, answers)
    if how is TIME:
        return _by_windows(route, options.interval, key, count, answers)
    bounds = answers[Bounds(route.relation, key, route.where, count, by_rows=how is NTILE)]
    return partition_extents.by_range(bounds.statistics, count), bounds.disorder


def _by_values(
    route: Route, query: str | None, key: Key, answers: KnownAnswers
) -> tuple[Partitioning, str]:
    listed, (nullable, _) = evaluate_together(
        lambda: answers[Values(route.relation, key, route.where, query)],
        lambda: answers[KeyFacts(route.relation, key)],
    )
    return partition_extents.by_values(listed.values, key, nullable=nullable), listed.disorder


def _by_windows(
    route: Route, interval: str | None, key: Key, count: int, answers: KnownAnswers
) -> tuple[Partitioning, str]:
    """Return windows of the requested interval, or of one that fits."""
    intervals = partition_extents.INTERVALS if interval is None else (interval,)
    key_windows, (nullable, indexed) = evaluate_together(
        lambda: answers[TimeWindows(route.relation, key, route.where, tuple(intervals), count)],
        lambda: answers[KeyFacts(route.relation, key)],
    )
    starts, origin = key_windows.starts, key_windows.origin
    if interval is None:
        origin = f"{origin}, each of {key_windows.interval}"
    found = partition_extents.by_windows(
        starts, key, nullable=nullable, indexed=indexed, origin=origin
    )
    windows = Windows(starts[0], key_windows.interval) if starts else None
    return replace(found, windows=windows), key_windows.disorder
