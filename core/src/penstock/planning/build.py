"""Ask the source what a strategy needs to know, and have `planning` cut the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import cast

from penstock.backends.api.capabilities import Capabilities, SourceCapabilities, TargetCapabilities
from penstock.backends.api.children import (
    AttachesChildren,
    ChildRequest,
    PlannedChildren,
    Windows,
)
from penstock.backends.api.described import MakesMany
from penstock.backends.api.facts import LoadRequest, Siblings, TableStatistics
from penstock.backends.api.nights import FindsGone
from penstock.backends.api.source import CutsFiner, SourceCatalog, VersionedSource
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import are_shared, compared_pairs
from penstock.errors import MissingTarget, PermanentError, PlanningError, TransientError
from penstock.model.extents import Bound, Crossing, Key, Whole
from penstock.model.nights import Horizon, Night, SourceVersions, Watermark, is_behind
from penstock.model.plans import MERGE_STEP, LoadPlan, Partition, PartitionPlan
from penstock.model.table_model import ENUM, JSON, TableDefinition, TableModel
from penstock.model.tables import Column, ColumnPair, TableRef
from penstock.planning import cuts as planning
from penstock.planning.built_nights import built, within_limit
from penstock.planning.choice import Choice, choose
from penstock.planning.column_pairs import ColumnMapping, chosen_columns, map_columns
from penstock.planning.cuts import Cut
from penstock.planning.named_partitions import resolve_partitions
from penstock.planning.nights import (
    explained,
    explained_full_load,
    new_leaves,
    plan_full_load,
    plan_night,
    setting_watermark,
)
from penstock.planning.nights_before import NightsBefore
from penstock.planning.one_statement import expecting_one_statement
from penstock.planning.orders import compared_key, disorder
from penstock.planning.steps_left import StepsLeft, with_steps_left
from penstock.planning.support import check_supported
from penstock.planning.where_words import of_where
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import Streams
from penstock.spec.modes import MERGE, MODES
from penstock.spec.strategies import HASH, NAMED, NTILE, RANGE, TIME, VALUES


def build_plan(
    spec: CopySpec,
    streams: Streams,
    run_id: str,
    source: SourceCatalog,
    target: TargetCatalog,
    capabilities: Capabilities,
    given: Sequence[Partition] = (),
    series: str = "",
    siblings: Siblings | None = None,
    steps_left: StepsLeft | None = None,
    nights: NightsBefore | None = None,
) -> PartitionPlan:
    """Plan a copy and check that the target can take it. Changes nothing.

    Parameters:
        capabilities: of both ends.
        given: partitions that the caller names; by default the strategy makes them.
        series: see `PartitionPlan`.
        siblings: the tables of the batch that it is copied in.
        steps_left: on the tables that are planned together with this one.
        nights: before those of these tables.

    Raises:
        PlanningError: the plan cannot be made, or the target cannot take it; says everything
            that is in the way of the columns at once.
        UsageError: what is asked for is wrong, whatever the tables are; see `check_supported`.
    """
    check_supported(spec, capabilities.source, capabilities.target)
    formats = capabilities.formats
    relation = spec.relation
    with expecting_one_statement(relation):
        columns = source.columns(relation)
    if are_shared(formats):
        columns = source.in_arrow(relation, columns)
    table = _target_table(spec, columns, source, target)
    mapping = match_columns(spec, columns, table.columns, source, target, formats)
    _check_both_sides(spec, table, mapping, source, target)
    heirs = () if spec.descendants == "exclude" else source.heirs(relation)
    request = LoadRequest(
        run_id=run_id,
        source=relation,
        target=spec.target_ref,
        mode=spec.load_mode,
        pairs=mapping.pairs,
        conflict_columns=spec.conflict_columns,
        indexes=spec.indexes,
        unlogged=spec.unlogged,
        definition=table.definition,
        made=table.made,
        where=spec.where,
        given=bool(given),
        extents=tuple((partition.id, partition.extent) for partition in given),
        writing=spec.writing,
        heirs=heirs,
        siblings=siblings or Siblings(),
        deletes=spec.gone,
        merges_together=spec.atomic == "batch" and siblings is not None,
        counted=source.positions(relation)
        if spec.sequences == "set" and not spec.schema_only
        else None,
    )
    load = target.plan_load(request)
    if _is_there_by_now(spec, table, target):
        return build_plan(
            spec,
            streams,
            run_id,
            source,
            target,
            capabilities,
            given,
            series,
            siblings,
            steps_left,
            nights,
        )
    steps_left = steps_left or StepsLeft(target, [spec])
    load, left = with_steps_left(spec, load, steps_left, capabilities.target)
    if spec.gone.found:
        _check_gone(spec, mapping, load, target, is_there=table.definition is None)
    nights = (nights or NightsBefore(target, [])).of(spec)
    night, selection, night_reasons = _night(
        spec, mapping.pairs, source, target, nights, capabilities
    )
    with of_where(spec.where):
        statistics = source.statistics(relation, spec.where)
    if night is not None and spec.load_mode.merges_at_end:
        planned = night
        night, may_merge = within_limit(spec, night, selection, source, statistics)
        if night is not planned:
            selection, night_reasons = "", explained(night, ())
        if night.full:
            load, said = built(
                spec, request, load, target, table.columns, statistics, may_merge=may_merge
            )
            night_reasons = (*night_reasons, *said)
    if night is not None and load.night_step != MERGE_STEP:
        with_swap = capabilities.target.steps_with_records
        load = setting_watermark(load, night.name, with_swap=with_swap)
    names = {column.name for column in columns}
    partitions: tuple[Partition, ...]
    choice, cut, partitions = _partitions(
        spec,
        streams,
        given,
        statistics,
        source,
        target,
        capabilities,
        names,
    )
    if spec.schema_only:
        partitions = ()
    if _deletes_by_condition(spec, capabilities.target):
        _check_conditions(spec, choice, partitions, mapping, table, target)
    children = PlannedChildren(partitions)
    if spec.load_mode.attaches:
        assert choice.key is not None
        children = cast("AttachesChildren", target).plan_children(
            ChildRequest(
                table=load.table,
                key=choice.key,
                pairs=mapping.pairs,
                partitions=partitions,
                selective=spec.where is not None,
                windows=cut.windows,
            )
        )
    return PartitionPlan(
        strategy=choice.strategy,
        reasons=(
            *choice.reasons,
            *statistics.notes,
            *cut.reasons,
            *mapping.reasons,
            *children.reasons,
            *_made_columns(table.made, formats),
            *left,
            *night_reasons,
        ),
        warnings=(
            *cut.warnings,
            *mapping.warnings,
            *load.warnings,
            *_made_there(spec, table, load),
            *children.warnings,
            *_lost_columns(spec, heirs, columns, source),
        ),
        partitions=_unknown_sizes(children.partitions) if selection else children.partitions,
        columns=mapping.columns,
        pairs=mapping.pairs,
        format=mapping.format,
        load=load,
        rows=None
        if statistics.rows is None or given or selection
        else round(statistics.rows * statistics.selected),
        bytes=None if given or selection else round(statistics.bytes * statistics.selected),
        series=series,
        night=night,
        selection=selection,
    )


def _check_gone(
    spec: CopySpec,
    mapping: ColumnMapping,
    load: LoadPlan,
    target: TargetCatalog,
    *,
    is_there: bool,
) -> None:
    """
    Raises:
        PlanningError: keys cannot be compared, or the target cannot select the run's rows.
    """
    flag = f"--deletes {spec.deletes}"
    if not isinstance(target, FindsGone):
        raise PlanningError(f"{flag}: this target cannot look for rows that are gone")
    pairs = {pair.target: pair for pair in mapping.pairs}
    for name in load.conflict_columns:
        pair = pairs[name]
        if pair.source in mapping.changed or name in mapping.changed:
            raise PlanningError(
                f"{flag}: keys are compared with the source's, so their values have to arrive as "
                f"they are, but those of {name} may change on the way"
            )
        if are_shared((mapping.format,)) and not pair.canonical:
            raise PlanningError(
                f"{flag}: the two systems write values of {name}, which is part of the key, "
                "differently, so its rows cannot be compared; expected a key of whole numbers, "
                "texts, dates or UUIDs"
            )
    if spec.where is not None and is_there:
        target.check_condition(spec.target_ref, spec.where, Whole())


def _unknown_sizes(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """For a night: how many of their rows have changed shows when they are read."""
    return tuple(replace(partition, rows=None, bytes=None) for partition in partitions)


def _night(
    spec: CopySpec,
    pairs: tuple[ColumnPair, ...],
    source: SourceCatalog,
    target: TargetCatalog,
    before: NightsBefore,
    capabilities: Capabilities,
) -> tuple[Night | None, str, tuple[str, ...]]:
    """What an incremental load continues, the condition for the rows that it reads, and why.

    Raises:
        PlanningError: the source's rows have no versions.
        TransientError: the source is read as of an earlier moment than the last night.
    """
    if spec.incremental is None:
        return _unasked_night(spec, pairs, source, target, before, capabilities)
    assert isinstance(source, VersionedSource), "its capabilities say so"
    relation = spec.relation
    assert isinstance(relation, TableRef), "checked with the options"
    if spec.where is not None:
        source.check_fixed(spec.where)
    last = before.last(spec)
    now, versions = source.horizon(), source.versions(relation)
    if behind := _behind(spec, source, target, last, versions, now):
        raise TransientError(behind)
    if not spec.load_mode.merges_at_end:
        night = plan_full_load(spec, pairs, last, versions)
        return night, "", explained_full_load(night)
    there = before.target_now(spec)
    night = plan_night(spec, pairs, last, versions, now, source.furthest, there)
    new = new_leaves(night, last) if night.since else ()
    condition = source.changed_since(night.since, new) if night.since else ""
    return night, condition, explained(night, new)


def _unasked_night(
    spec: CopySpec,
    pairs: tuple[ColumnPair, ...],
    source: SourceCatalog,
    target: TargetCatalog,
    before: NightsBefore,
    capabilities: Capabilities,
) -> tuple[Night | None, str, tuple[str, ...]]:
    """A load of all rows sets the watermark of its name where there is one, though it is not asked
    to: the next night would find a table that it does not know, and read everything."""
    mode, relation = spec.load_mode, spec.relation
    if (
        not mode.starts_empty
        or mode.merges_at_end
        or MERGE not in capabilities.target.modes
        or spec.snapshot == "none"
        or spec.schema_only
        or not (isinstance(source, VersionedSource) and isinstance(relation, TableRef))
    ):
        return None, "", ()
    last = before.last(spec)
    if last is None:
        return None, "", ()
    try:
        if spec.where is not None:
            source.check_fixed(spec.where)
        now, versions = source.horizon(), source.versions(relation)
        why = _behind(spec, source, target, last, versions, now)
    except PermanentError as error:
        why = error.message
    else:
        if not why:
            night = plan_full_load(spec, pairs, last, versions)
            return night, "", explained_full_load(night)
    stays = f"watermark {last.name}: stays as it is, so the next night reads all rows, since {why}"
    return None, "", (stays,)


def _behind(
    spec: CopySpec,
    source: VersionedSource,
    target: TargetCatalog,
    last: Watermark | None,
    versions: SourceVersions,
    now: Horizon,
) -> str:
    """How a source is read as of an earlier moment than the last night; empty where it is not."""
    read = last
    if versions.standby and last is not None and last.horizon is None:
        # It may lag behind what was read before the watermark was reset, too.
        history = target.control.watermark_history(last.name)
        read = next((each for each in history if each.horizon), None)
    if read is None or read.horizon is None or not is_behind(read, versions, now):
        return ""
    if not versions.standby and not source.has_reached(read.horizon):
        return ""
    return (
        f"source: {spec.source_name} is read as of an earlier moment than the last night, run "
        f"{read.run_id}, which has read it as of {read.moment}; try again"
        + (" once the standby has caught up" if versions.standby else "")
    )


def expect_tables(specs: Sequence[CopySpec], source: SourceCatalog, target: TargetCatalog) -> None:
    """Tell the target of all tables that it is to make, before the first of many plans is built:
    it may have to try whether it can make them."""
    if not isinstance(target, MakesMany):
        return
    found = {}
    for spec in specs:
        # What is wrong with one is said where that one is planned.
        with suppress(PlanningError, PermanentError):
            if target.makes(spec.target_ref, spec.load_mode):
                found[spec.target_ref] = source.definition(
                    spec.relation, partitioning=spec.partitioning
                )
    target.expect(found)


def build_source_plan(
    spec: CopySpec, streams: Streams, source: SourceCatalog, capabilities: Capabilities
) -> PartitionPlan:
    """How a source would be cut, whatever its target is."""
    columns = tuple(chosen_columns(spec, source.columns(spec.relation)))
    statistics = source.statistics(spec.relation, spec.where)
    names = {column.name for column in columns}
    choice, cut, partitions = _partitions(
        spec, streams, (), statistics, source, None, capabilities, names
    )
    rows = statistics.rows
    return PartitionPlan(
        strategy=choice.strategy,
        reasons=(*choice.reasons, *statistics.notes, *cut.reasons),
        warnings=cut.warnings,
        partitions=partitions,
        columns=columns,
        pairs=(),
        format="",
        load=LoadPlan(spec.target_ref),
        rows=None if rows is None else round(rows * statistics.selected),
        bytes=round(statistics.bytes * statistics.selected),
    )


@dataclass(frozen=True, slots=True)
class _TargetTable:
    """The table that rows go into: one that exists, or one that the run makes."""

    columns: Sequence[Column]
    definition: TableDefinition | None = None
    """What it is made by; None where it is there."""
    made: tuple[Column, ...] = ()


def _target_table(
    spec: CopySpec, columns: Sequence[Column], source: SourceCatalog, target: TargetCatalog
) -> _TargetTable:
    """
    Raises:
        PlanningError: types of columns, or an order by some, are asked for that cannot be.
    """
    if spec.data_only or not target.makes(spec.target_ref, spec.load_mode):
        if asked := "--types" if spec.types else "--order-by" if spec.order_by else "":
            raise PlanningError(
                f"{asked}: {spec.target_name} is there, and mode {spec.mode} takes it as it is; "
                "expected --mode recreate, or a target that does not exist"
            )
        try:
            return _TargetTable(_without_mark(spec, target.columns(spec.target_ref)))
        except PlanningError as error:
            if target.identity(spec.target_ref):
                raise
            raise MissingTarget(error.message, error.diagnosis) from error
    if spec.schema_only and not MODES[spec.mode].recreates:
        _check_missing(spec, target)
    definition = source.definition(spec.relation, partitioning=spec.partitioning)
    copied = chosen_columns(spec, columns)
    if spec.columns is not None:
        definition = replace(definition, model=definition.model.with_values())
    _check_types(spec, copied)
    ordered = _never_null(spec, copied)
    types = asked_types(spec.column_types, copied, definition.model)
    if spec.enums == "text":
        definition = replace(definition, model=definition.model.with_texts())
    definition = replace(definition, arrays=spec.arrays, enums=spec.enums)
    made = target.defined_columns(spec.target_ref, definition, ordered, types)
    return _TargetTable(made, definition, made)


def _check_missing(spec: CopySpec, target: TargetCatalog) -> None:
    """
    Raises:
        PlanningError: the target's table is there.
    """
    try:
        target.columns(spec.target_ref)
    except PlanningError:
        return
    raise PlanningError(
        f"--schema-only: {spec.target_name} is there; expected no such table, or --mode recreate, "
        "which drops it with its rows"
    )


def _without_mark(spec: CopySpec, columns: Sequence[Column]) -> Sequence[Column]:
    """The columns that rows are loaded into: all but the one that says when a row was gone.

    Raises:
        PlanningError: there is no such column.
    """
    mark = spec.gone.column
    left = [column for column in columns if column.name != mark]
    if mark and len(left) == len(columns):
        raise PlanningError(
            f"--deletes {spec.deletes}: expected a column {mark!r} of {spec.target_name}, for the "
            "time when a row was found to be gone; found none: add one that may be NULL, or name "
            "another with soft:COLUMN"
        )
    return left


def _is_there_by_now(spec: CopySpec, table: _TargetTable, target: TargetCatalog) -> bool:
    """Whether another run has made the table while this one was planned to."""
    if table.definition is None or spec.load_mode.loads_new_table:
        return False
    return not target.makes(spec.target_ref, spec.load_mode)


def _never_null(spec: CopySpec, copied: Sequence[Column]) -> Sequence[Column]:
    """With those that the table is ordered by as columns without NULL.

    Raises:
        PlanningError: it is to be ordered by another one.
    """
    by = spec.order_by or ()
    for name in set(by).difference(column.name for column in copied):
        known = ", ".join(column.name for column in copied)
        raise PlanningError(f"--order-by: expected some of the columns {known}; found {name}")
    return [replace(each, nullable=each.nullable and each.name not in by) for each in copied]


def _check_both_sides(
    spec: CopySpec,
    table: _TargetTable,
    mapping: ColumnMapping,
    source: SourceCatalog,
    target: TargetCatalog,
) -> None:
    """
    Raises:
        PlanningError: the target cannot be written, is the source, or cannot be compared.
    """
    is_there = table.definition is None
    if is_there:
        written = [pair.target for pair in mapping.pairs]
        target.check_writable(spec.target_ref, spec.load_mode, written)
    _check_apart(spec, source, target)
    if spec.verify == "checksums":
        # Over no rows: checksums that cannot be computed are found before anything is copied.
        pairs = compared_pairs(mapping.pairs, mapping.format)
        source.checksum(spec.relation, "1 = 0", Whole(), pairs)
        if is_there:
            target.checksum(spec.target_ref, "1 = 0", Whole(), pairs)


def _partitions(
    spec: CopySpec,
    streams: Streams,
    given: Sequence[Partition],
    statistics: TableStatistics,
    source: SourceCatalog,
    target: TargetCatalog | None,
    capabilities: Capabilities,
    columns: set[str],
    *,
    moves_few: bool = False,
) -> tuple[Choice, Cut, tuple[Partition, ...]]:
    """Those that are given, or those that the strategy makes.

    Parameters:
        target: None where its table is missing, so that nothing can be deleted there.
    """
    if given:
        assert target is not None
        resolved = resolve_partitions(spec, given, source, target, columns)
        cut = Cut((), resolved.reasons, resolved.warnings)
        return Choice(NAMED, (), spec.key), cut, resolved.partitions
    blocks = capabilities.source.block_strategy
    choice = choose(spec, statistics, streams, blocks, moves_few=moves_few)
    key = _key(spec, choice, columns)
    if key is not None and not choice.how.hashes:
        by_condition = _deletes_by_condition(spec, capabilities.target)
        key = compared_key(spec, key, source, target if by_condition else None)
    cut = _cut(spec, choice, statistics, source, key)
    if found := disorder(spec, source, (extent for extent, _ in cut.extents)):
        assert key is not None
        choice = _in_disorder(spec, choice, streams, capabilities.source, found)
        cut = planning.cut_hash(replace(key, collation=""), choice.count)
    return choice, cut, planning.number(cut.extents, statistics)


def _key(spec: CopySpec, choice: Choice, columns: set[str]) -> Key | None:
    if choice.key is None:
        return None
    key = Key(choice.key, expression=choice.key not in columns)
    if key.expression and not (choice.how.hashes or choice.how is VALUES):
        raise PlanningError(
            f"--key {key.text}: no such column in {spec.source_name}; "
            f"--strategy {choice.strategy} cuts by a column; it has {', '.join(sorted(columns))}"
        )
    return key


def _in_disorder(
    spec: CopySpec, choice: Choice, streams: Streams, source: SourceCapabilities, found: str
) -> Choice:
    """What needs no order, in place of a strategy whose bounds are in none.

    Raises:
        PlanningError: somebody has asked for that strategy.
    """
    if spec.cut_strategy.chooses and choice.how in (RANGE, NTILE) and HASH in source.strategies:
        why = f"hash: not {choice.how}, since {found}"
        return Choice(HASH, (*choice.reasons, why), choice.key, streams.usual)
    raise PlanningError(
        f"--strategy {choice.strategy}: --key {choice.key}: expected bounds that the source "
        f"tells apart, and orders, so that each row is in one partition; found that {found}; cut "
        "by another column, or by --strategy hash"
    )


def _deletes_by_condition(spec: CopySpec, target: TargetCapabilities) -> bool:
    return spec.load_mode.deletes_by_partition and target.replaces_by_condition


def _check_conditions(
    spec: CopySpec,
    choice: Choice,
    partitions: Sequence[Partition],
    mapping: ColumnMapping,
    table: _TargetTable,
    target: TargetCatalog,
) -> None:
    """
    Raises:
        PlanningError: the target may select other rows by a partition's condition.
    """
    _check_same_names(mapping.pairs)
    if choice.key is None:
        raise PlanningError("--mode replace: expected a key strategy and --key; found none")
    if choice.how.hashes:
        _check_hashed_alike(mapping.columns, table.columns)
    for key in {choice.key, *_crossed_keys(partitions)}:
        _check_key_unchanged(key, mapping)
    for each in {type(partition.extent): partition for partition in partitions}.values():
        target.check_condition(spec.target_ref, spec.where, each.extent)


def _crossed_keys(partitions: Sequence[Partition]) -> set[str]:
    crossings = (each.extent for each in partitions if isinstance(each.extent, Crossing))
    return {key.text for crossing in crossings for key in crossing.keys}


def _made_there(spec: CopySpec, table: _TargetTable, load: LoadPlan) -> tuple[str, ...]:
    """Named, since what is mistyped is not there either."""
    schemas = ", ".join(step.makes_schema for step in load.before if step.makes_schema)
    made = [f"schema {schemas}"] if schemas else []
    if table.definition is not None and not spec.load_mode.loads_new_table:
        made.append(f"table {spec.target_name}")
    return (f"not there, and made in the target: {' and '.join(made)}",) if made else ()


def _made_columns(made: Sequence[Column], formats: Sequence[str]) -> tuple[str, ...]:
    """What columns a table gets; between like systems those that the source has."""
    if not made or not are_shared(formats):
        return ()
    return (f"columns that are made: {', '.join(f'{item.name} {item.type}' for item in made)}",)


def _lost_columns(
    spec: CopySpec, heirs: Sequence[TableRef], columns: Sequence[Column], source: SourceCatalog
) -> list[str]:
    """A warning of each table whose rows come without some of its columns."""
    mine = {column.name for column in columns}
    warnings = []
    for heir in heirs:
        more = [column.name for column in source.columns(heir) if column.name not in mine]
        if more:
            warnings.append(
                f"rows of {heir}, which inherits from {spec.source_name}, come without its own "
                f"columns ({', '.join(more)}); copy it by itself, and this one with "
                "--descendants exclude, as copy-all does"
            )
    return warnings


def match_columns(
    spec: CopySpec,
    mine: Sequence[Column],
    theirs: Sequence[Column],
    source: SourceCatalog,
    target: TargetCatalog,
    formats: Sequence[str],
) -> ColumnMapping:
    """Pair the columns, with what both catalogs know.

    Raises:
        PlanningError: see `map_columns`.
    """
    if are_shared(formats):
        mine = source.in_arrow(spec.relation, mine)
    return map_columns(
        spec,
        mine,
        theirs,
        fit=target.fit,
        castable=lambda wanted: source.castable(spec.relation, wanted),
        formats=formats,
    )


_OF_TYPE = "source:"


_NAMELESS = (JSON, ENUM)
"""Kinds of types that a source may have without a type of that name: JSON may be a text with a
check there, and each enum type may have a name of its own."""


def asked_types(
    rules: Mapping[str, str], columns: Sequence[Column], model: TableModel | None = None
) -> dict[str, str]:
    """The types asked for, by column: what is said of the column itself, else the first rule that
    it meets.

    Parameters:
        rules: see `CopySpec.column_types`.
        model: of the source's table, where there is one.
    """
    types = model.types if model is not None else {}
    kinds = {name: type_.kind for name, type_ in types.items() if type_.kind in _NAMELESS}
    found = {}
    for column in columns:
        kind = kinds.get(column.name, "")
        meeting = [rule for rule in rules if _meets(column, rule, kind)]
        names = [column.name] if column.name in rules else meeting
        if names:
            found[column.name] = rules[names[0]]
    return found


def _is_rule(name: str) -> bool:
    return name.startswith(_OF_TYPE) or "*" in name


def _meets(column: Column, rule: str, kind: str) -> bool:
    if rule.startswith(_OF_TYPE):
        wanted, found = rule.removeprefix(_OF_TYPE).strip().lower(), column.type.lower()
        return bool(wanted) and wanted in (found, found.partition("(")[0].strip(), kind)
    return _is_rule(rule) and fnmatchcase(column.name, rule)


def _check_types(spec: CopySpec, columns: Sequence[Column]) -> None:
    names = {column.name for column in columns}
    rules = [name for name in spec.column_types if _is_rule(name)]
    unknown = [name for name in spec.column_types if name not in names and name not in rules]
    if unknown:
        raise PlanningError(
            f"--types: expected columns that are copied, found {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(column.name for column in columns)}"
        )


def _check_apart(spec: CopySpec, source: SourceCatalog, target: TargetCatalog) -> None:
    identity = source.state(spec.relation).identity
    if identity and identity == target.identity(spec.target_ref):
        raise PlanningError(
            f"source and target are the same: one table ({spec.source_name}), or one file, which "
            "cannot be written while it is read; choose another target"
        )


def _check_same_names(pairs: Sequence[ColumnPair]) -> None:
    """The partitions' condition is evaluated on both sides: a name must mean the same there."""
    differing = [
        f"{pair.source} into {pair.target}" for pair in pairs if pair.source != pair.target
    ]
    if differing:
        raise PlanningError(
            "--mode replace deletes in the target by the condition that selects in the source: "
            f"expected the same column names on both sides, found {', '.join(differing)}"
        )


def _check_key_unchanged(key: str, mapping: ColumnMapping) -> None:
    """A row whose key is rounded may stand in another partition, which would delete it."""
    names = {column.name for column in mapping.columns}
    changed = [name for name in mapping.changed if name == key or key not in names]
    if changed:
        raise PlanningError(
            f"--mode replace deletes by --key {key}, so its values have to arrive as they are, but "
            f"they may change on the way: {'; '.join(mapping.warnings)}"
        )


def _check_hashed_alike(mine: Sequence[Column], theirs: Sequence[Column]) -> None:
    """Values are hashed by their text, which 1.0 and 1.00 do not share."""
    types = {column.name: column.type for column in theirs}
    differing = [
        f"{column.name} ({column.type}, {types[column.name]})"
        for column in mine
        if types[column.name] != column.type
    ]
    if differing:
        raise PlanningError(
            "--mode replace with --strategy hash: expected the very same column types on both "
            f"sides, so that both hash alike; found {', '.join(differing)}; use --strategy range"
        )


def _cut(
    spec: CopySpec,
    choice: Choice,
    statistics: TableStatistics,
    source: SourceCatalog,
    key: Key | None,
) -> Cut:
    relation = spec.relation
    how = choice.how
    if how.cuts_blocks:
        return planning.cut_blocks(statistics.blocks or 0, choice.count)
    if how.cuts_files:
        return planning.cut_files(statistics.files, choice.count)
    if how.cuts_children:
        as_asked = spec.cut_strategy.cuts_children
        cut = planning.cut_children if as_asked else planning.cut_tables
        return cut(statistics.children, choice.count)
    if how.leaves_whole:
        return planning.cut_whole()
    assert key is not None
    if choice.how.hashes:
        source.key_type(relation, key)  # an error in the expression is found now
        return planning.cut_hash(key, choice.count)
    if how is VALUES:
        values = source.distinct(
            relation, key, spec.where, spec.values_query, planning.MOST_PARTITIONS
        )
        nullable, _ = source.key_facts(relation, key)
        return planning.cut_values(values, key, nullable=nullable)
    if how is TIME:
        starts, origin, interval = _windows(spec, choice, source, key)
        nullable, indexed = source.key_facts(relation, key)
        made = planning.cut_windows(starts, key, nullable=nullable, indexed=indexed, origin=origin)
        return replace(made, windows=Windows(starts[0], interval)) if starts else made
    if how is NTILE:
        known = source.ntile(relation, key, spec.where, choice.count)
        return planning.cut_range(known, choice.count)
    known = source.key_statistics(relation, key, spec.where)
    if isinstance(source, CutsFiner):
        known = source.finer_statistics(relation, spec.where, known, choice.count)
    return planning.cut_range(known, choice.count)


def _windows(
    spec: CopySpec, choice: Choice, source: SourceCatalog, key: Key
) -> tuple[tuple[Bound, ...], str, str]:
    """Starts of windows, as wide as asked for or as fits, their origin, and their width."""
    most = planning.MOST_PARTITIONS
    if spec.interval is not None:
        found = source.windows(spec.relation, key, spec.interval, spec.where, most)
        return (*found, spec.interval)
    widest, *narrower = planning.INTERVALS
    starts, origin = source.windows(spec.relation, key, widest, spec.where, most)
    chosen = widest
    for interval in narrower:
        # Without a first value there are no windows, however narrow.
        if not starts or len(starts) >= choice.count:
            break
        try:
            starts, origin = source.windows(spec.relation, key, interval, spec.where, most)
        except PlanningError:
            break  # too many
        chosen = interval
    return starts, f"{origin}, each of {chosen}", chosen
