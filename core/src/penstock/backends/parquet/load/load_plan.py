"""Whether a dataset accepts a load in a mode, with which columns, and the steps around it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from penstock.backends.api.facts import LoadRequest
from penstock.backends.parquet.files.column_types import (
    NOTATION,
    parse_type,
    shown,
)
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.fence import replaces_files
from penstock.backends.parquet.load.file_format import PARQUET, FileFormat
from penstock.backends.parquet.load.manifest import EVERYTHING, Manifest
from penstock.backends.parquet.load.names import run_of
from penstock.backends.parquet.load.steps import plan_steps
from penstock.backends.parquet.location import FILE
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.shared.values.arrow import (
    TRAIT,
    arrow_type,
    schema_from_text,
    schema_of,
    schema_to_text,
)
from penstock.errors import PlanningError, TargetBusy
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, NotCopied


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of a schema, with the trait `TRAIT`."""
    return tuple(
        Column(field.name, shown(field.type), field.nullable, traits={TRAIT: field.type})
        for field in schema
    )


def defined_columns(
    columns: Sequence[Column], types: Mapping[str, str], format: FileFormat = PARQUET
) -> tuple[Column, ...]:
    """Return the columns to create; see `TargetCatalog.defined_columns`.

    Args:
        columns: the source's columns, with the trait `TRAIT`.
        types: the types that the user specified, by column.
        format: the format of the files.

    Raises:
        PlanningError: types do not exist, or the format does not support them; names all of them.
    """
    fields = []
    wrong = []
    for column in columns:
        text = types.get(column.name)
        try:
            kind = arrow_type(column) if text is None else parse_type(text)
        except ValueError:
            wrong.append(f"{column.name}: expected a type such as {NOTATION}; found {text!r}")
            continue
        try:
            fields.append(pa.field(column.name, format.stored_as(kind), column.nullable))
        except ValueError as error:
            wrong.append(f"{column.name} ({column.type}): {error}")
    if wrong:
        raise PlanningError("target: these columns cannot be created:\n  " + "\n  ".join(wrong))
    return columns_of(pa.schema(fields))


def plan_load(storage: Storage, request: LoadRequest) -> LoadPlan:
    """Plan the load of a dataset.

    Raises:
        PlanningError: see `TargetCatalog.plan_load`.
    """
    check_writable(storage)
    current = manifest.read(storage.documents)
    if request.definition is not None:
        schema = schema_of(request.new_columns)
    else:
        schema = schema_from_text(current.schema)
        _check_left_out(storage, schema, request)
    partition_by = tuple(request.writing.get("partition_by") or ())
    _check_folders(schema, partition_by)
    if not request.mode.empties_before and current.files:
        _check_same_folders(storage, current, partition_by)
    leaving, warnings = _check_content(storage, current, request)
    return LoadPlan(
        request.target,
        plan_steps(request.mode, str(storage), leaving),
        warnings=tuple(warnings),
        schema=schema_to_text(schema),
        not_copied=tuple(_not_copied(request)),
    )


def _not_copied(request: LoadRequest) -> Iterator[NotCopied]:
    """Yield a single entry, since files have nothing but columns."""
    if request.definition is None:
        return
    names = [column.name for column in request.new_columns]
    items = [*request.definition.model.only(names).unmade(), *request.definition.others]
    counted = Counter(item.kind for item in items)
    if counted:
        listed = ", ".join(f"{kind} ({count:,})" for kind, count in counted.items())
        yield NotCopied("parts that files do not have", listed, table=str(request.target))


def check_writable(storage: Storage) -> None:
    """Check that a local folder is writable. On S3, writing the first document does.

    Raises:
        PlanningError: the path is not a folder, or not writable.
    """
    if storage.location.scheme != FILE:
        return
    path = storage.location.path
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise PlanningError(f"target: {storage}: expected a folder, found that {path} is a file")
    if not os.access(path, os.W_OK | os.X_OK):
        raise PlanningError(f"target: no permission to write to {path}")


def _check_left_out(storage: Storage, schema: pa.Schema, request: LoadRequest) -> None:
    """Check columns that are not copied.

    Raises:
        PlanningError: such a column does not allow NULL.
    """
    copied = {pair.target for pair in request.pairs}
    needed = [field.name for field in schema if field.name not in copied and not field.nullable]
    if needed:
        raise PlanningError(
            f"target: {storage}: {', '.join(needed)} cannot be NULL, but nothing is copied into "
            "them; add them to --columns"
        )


def _check_folders(schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Check the columns that name folders.

    Raises:
        PlanningError: their values cannot be names of folders.
    """
    if not partition_by:
        return
    unknown = [name for name in partition_by if name not in schema.names]
    if unknown:
        raise PlanningError(
            f"--partition-by: expected copied columns, found {', '.join(map(repr, unknown))}; the "
            f"copied columns are {', '.join(schema.names)}"
        )
    if len(partition_by) == len(schema.names):
        raise PlanningError(
            "--partition-by: expected at least one column that stays in the files, found all "
            "columns"
        )
    hidden = [name for name in partition_by if name.startswith(("_", "."))]
    if hidden:
        raise PlanningError(
            "--partition-by: expected column names without _ or . at the beginning, since readers "
            f"ignore such folders; found {', '.join(hidden)}"
        )
    wrong = [
        f"{name} ({shown(schema.field(name).type)})"
        for name in partition_by
        if not _names_folders(schema.field(name).type)
    ]
    if wrong:
        raise PlanningError(
            "--partition-by: expected columns of integers, texts, dates, times of day, timestamps "
            f"without a time zone or booleans; found {', '.join(wrong)}"
        )


def _names_folders(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_boolean(kind)
        or (types.is_timestamp(kind) and kind.tz is None)
    )


def _check_same_folders(storage: Storage, current: Manifest, partition_by: Sequence[str]) -> None:
    if current.partition_by != tuple(partition_by):
        raise PlanningError(
            f"--partition-by: expected {','.join(current.partition_by) or 'none'}, as in the "
            f"existing files of {storage}; found {','.join(partition_by) or 'none'}"
        )


def _check_content(
    storage: Storage, current: Manifest, request: LoadRequest
) -> tuple[str, list[str]]:
    """Check the existing content; return a description of the files to be removed, and warnings.

    Raises:
        PlanningError: the existing content is incompatible with the load.
    """
    visible = storage.uploads.visible()
    listed = {entry.path for entry in current.files}
    unknown = [path for path in visible if path not in listed]
    foreign = [path for path in unknown if not run_of(path)]
    everything = request.where is None and not request.has_given_partitions
    if request.mode.empties_before or (replaces_files(request.mode) and everything):
        return _files(storage, len(visible)), [
            f"{_files(storage, len(foreign))} not written by Penstock will be removed, such as "
            f"{path}"
            for path in foreign[:1]
        ]
    if foreign:
        raise PlanningError(
            f"--mode {request.mode}: {storage} holds {_files(storage, len(foreign))} not written "
            f"by Penstock, such as {foreign[0]}, whose rows are unknown; use another folder, or "
            "remove the files with --mode truncate, recreate, or replace without a condition"
        )
    if not replaces_files(request.mode):
        _check_unfinished(storage, unknown, request)
        return "", []
    if any(entry.selection == EVERYTHING and entry.partition for entry in current.files):
        raise PlanningError(
            f"--mode {request.mode}: {storage} holds files of a run that selected everything, and "
            "files can only be replaced as a whole; use --mode replace without a condition, or "
            "another folder"
        )
    leaving = "the files of the same partitions"
    if not request.has_given_partitions:
        mine = {**EVERYTHING, "where": request.where}
        leaving = _files(storage, sum(entry.selection == mine for entry in current.files))
    stay = {str(entry.selection["where"]) for entry in current.files if entry.partition}
    stay.discard(str(request.where))
    if stay and not request.has_given_partitions:
        return leaving, [
            f"only files of runs with exactly this --where are replaced; files of {len(stay):,} "
            f"other conditions stay, such as {min(stay)!r}, so these must select other rows"
        ]
    return leaving, []


def _files(storage: Storage, count: int) -> str:
    return f"{count:,} {storage.format.noun} file{'' if count == 1 else 's'}"


def _check_unfinished(storage: Storage, unknown: Sequence[str], request: LoadRequest) -> None:
    """Check for unfinished runs.

    Raises:
        TargetBusy: a run is loading now.
        PlanningError: a run has begun to load and not finished.
    """
    if request.has_given_partitions:
        return  # runs of partitions defined by the caller are meant to run at the same time
    runs, entered = Runs(storage.documents, storage.uploads), storage.presence()
    executed = entered.executed() if entered else set()
    for run_id in sorted({run_of(path) for path in unknown} - {request.run_id}):
        run = runs.find(run_id)
        if run_id in executed:
            raise TargetBusy(
                f"--mode {request.mode}: {storage} holds files of run {run_id}, which is loading "
                "right now, so nothing was changed; try again once it has ended, or stop it first"
            )
        if run is None or run.status != "done":
            status = run.status if run else "unknown"
            raise PlanningError(
                f"--mode {request.mode}: {storage} holds files of run {run_id}, which is not done "
                f"({status}); resume it, or remove its files with --mode truncate"
            )
