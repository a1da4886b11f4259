"""Steps around a load: the columns and the old files before it, the manifest after it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.backends.api.execution.control import RunRow
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.fence import MANIFEST, Fence, replaces_files
from penstock.backends.parquet.load.manifest import EVERYTHING, Entry, Manifest, selections
from penstock.backends.parquet.load.names import (
    empty_name,
    folder_of,
    is_empty,
    partition_of,
    run_of,
)
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.states import Record
from penstock.backends.shared.attempts.refusals import not_committed
from penstock.backends.shared.values.arrow import schema_from_text
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import Step
from penstock.spec.modes import Mode, mode_of


def plan_steps(mode: Mode, place: str, leaving: str) -> tuple[Step, ...]:
    """Return the steps.

    Args:
        mode: the load mode.
        place: the dataset, as messages name it.
        leaving: a description of the files that the load replaces.
    """
    before = [Step("dataset", f"record the columns of {place}", "dataset")]
    clean = "remove leftovers"
    if mode.empties_before:
        before = [Step("empty", f"remove {leaving} from {place}", "empty")]
    elif replaces_files(mode):
        clean = f"remove replaced files ({leaving}) and leftovers"
    return (
        *before,
        Step(MANIFEST, "add the files to the manifest", MANIFEST, after=True, rank=0),
        Step("clean", clean, "clean", after=True, rank=1),
    )


class Steps:
    """The steps of one run. Each may be repeated, also by two processes at once."""

    def __init__(self, storage: Storage, runs: Runs, run: RunRow) -> None:
        self._storage = storage
        self._runs = runs
        self._records = runs.records(run.run_id)
        self._run_id = run.run_id
        self._run = run
        self._fence = Fence(storage, runs)
        self._schema = run.plan.load.schema
        self._selections = selections(run.spec, run.plan)
        self._replaces = replaces_files(mode_of(run.spec))
        self._partition_by = tuple(run.spec["partition_by"] or ())

    def do(self, step: Step) -> None:
        """Do a step.

        Raises:
            TransientError: some partitions are no longer committed.
            TargetChanged: see `LoadedTables.check`.
        """
        match step.statement:
            case "dataset":
                self._note_columns()
            case "empty":
                self._empty()
            case "manifest":
                self._switch()
            case "clean":
                self._committed()
                self._check_switched()
                self._clean()

    # Before the first partition

    def _note_columns(self) -> None:
        visible = self._storage.uploads.visible()
        has_other_rows = not self._replaces_all and any(
            run_of(path) not in ("", self._run_id) for path in visible
        )

        def noted(current: Manifest) -> Manifest:
            if self._is_prepared():
                return current
            if current.schema and (current.files or has_other_rows):
                self._check_same(current)
                return current
            return replace(current, schema=self._schema, partition_by=self._partition_by)

        manifest.change(self._storage.documents, noted)

    def _is_prepared(self) -> bool:
        """Whether another process has done the steps before the first partition.

        If so, other runs may rely on the result.
        """
        run = self._runs.find(self._run_id)
        return run is None or run.prepared_at is not None or run.generation != self._run.generation

    @property
    def _replaces_all(self) -> bool:
        return self._replaces and EVERYTHING in self._selections.values()

    def _check_same(self, current: Manifest) -> None:
        """Check the columns of an existing dataset.

        Raises:
            PermanentError: another run has created the dataset with other columns since this run
                was planned.
        """
        theirs, mine = schema_from_text(current.schema), schema_from_text(self._schema)
        if theirs == mine and current.partition_by == self._partition_by:
            return
        raise PermanentError(
            f"target: {self._storage}: another run has created the dataset since this run was "
            f"planned: expected columns {_shown(mine, self._partition_by)}, found "
            f"{_shown(theirs, current.partition_by)}; start a new run",
            Diagnosis(side="target"),
        )

    def _empty(self) -> None:
        other_files: list[str] = []

        def emptied(current: Manifest) -> Manifest:
            other_files.clear()
            if self._is_prepared():
                return current
            # Listed before anything is removed, so that files published from now on are not
            # included.
            visible = self._storage.uploads.visible()
            other_files.extend(path for path in visible if run_of(path) != self._run_id)
            own_entries = tuple(entry for entry in current.files if entry.run == self._run_id)
            leaving = _leaving(current, other_files, visible)
            return Manifest(
                own_entries, self._schema, self._partition_by, leaving, owner=self._run_id
            )

        manifest.change(self._storage.documents, emptied)
        self._fence.bury(self._run_id)
        self._storage.uploads.remove(other_files)
        manifest.removed(self._storage.documents, other_files)

    # After the last one

    def _switch(self) -> None:
        empty = self._empty_entry()
        put: list[str] = []

        def switched(current: Manifest) -> Manifest:
            run = self._runs.find(self._run_id)
            if run is not None and MANIFEST in run.steps:
                # by another process, maybe long ago: others may have added files since
                return current
            # Checked after the manifest was read: if a partition is copied again, or files are
            # removed, from now on, the manifest changes before anything is lost.
            mine = self._entries()
            run = self._runs.find(self._run_id)
            assert run is not None
            self._fence.check_owner(self._run_id, run)
            sizes = {entry.path: entry.bytes for entry in mine}
            visible = self._fence.check_there(self._run_id, sizes)
            other_entries = [entry for entry in current.files if entry.run != self._run_id]
            self._check_apart(other_entries)
            leaving_paths = self._replaced(other_entries, visible)
            remaining_entries = [
                entry for entry in other_entries if entry.path not in leaving_paths
            ]
            files = [*remaining_entries, *mine]
            if any(entry.partition for entry in files):
                # A file without rows recorded the columns while there was no other file.
                leaving_paths |= {entry.path for entry in files if not entry.partition}
                leaving_paths |= {empty.path} & visible.keys()
                files = [entry for entry in files if entry.partition]
            elif not files:
                if empty.path not in visible:
                    put.append(empty.path)
                    self._storage.uploads.put(empty.path, self._empty_file())
                files = [empty]
            if remaining_entries:
                self._check_same(current)
            else:  # the run's own columns, if there are no other files
                current = replace(current, schema=self._schema, partition_by=self._partition_by)
            files.sort(key=lambda entry: entry.path)
            listed = {entry.path for entry in files}
            leaving = [
                path for path in _leaving(current, leaving_paths, visible) if path not in listed
            ]
            owner = self._run_id if self._replaces else current.owner
            return replace(current, files=tuple(files), leaving=tuple(leaving), owner=owner)

        manifest.change(self._storage.documents, switched)
        if put:  # and maybe stopped then, while another process finished the run
            self._remove_unlisted(put)

    def _check_switched(self) -> None:
        """Check that the manifest is current before cleaning.

        Raises:
            TransientError: partitions were copied again, and the manifest does not list them yet;
                files that it will name as leaving would stay.
        """
        run = self._runs.find(self._run_id)
        if run is not None and MANIFEST not in run.steps:
            raise not_committed(self._run_id)

    def _remove_unlisted(self, paths: Collection[str]) -> None:
        """Remove files without rows that record the columns, if the manifest lists others now."""
        visible = self._storage.uploads.visible()
        listed = {entry.path for entry in manifest.read(self._storage.documents).files}
        self._storage.uploads.remove([p for p in paths if p in visible and p not in listed])

    def _committed(self) -> dict[str, Record]:
        run = self._runs.find(self._run_id)
        if run is not None:
            self._fence.check_open(self._run_id, run)
        records = self._records.publish_all(self._run.generation)
        is_same_generation = run is not None and run.generation == self._run.generation
        if not is_same_generation or len(records) < len(self._run.plan.partitions):
            raise not_committed(self._run_id)
        return records

    def _entries(self) -> list[Entry]:
        return [
            Entry(piece.name, piece.rows, piece.bytes, self._run_id, name, self._selections[name])
            for name, record in self._committed().items()
            for piece in record.pieces
        ]

    def _check_apart(self, other_entries: Sequence[Entry]) -> None:
        """Check for a run that loaded everything.

        Raises:
            TargetChanged: a run that selected everything has ended since this one, which replaces a
                part, was planned.
        """
        if not self._replaces or self._replaces_all:
            return
        for entry in other_entries:
            if entry.selection == EVERYTHING and entry.partition:
                what = "files of a run that selected everything were added"
                raise self._fence.loss_error(self._run_id, what, entry.run)

    def _replaced(self, other_entries: Sequence[Entry], visible: Mapping[str, int]) -> set[str]:
        """Return the files that this run's files replace."""
        if not self._replaces:
            return set()
        listed = {entry.path for entry in other_entries}
        unknown = {path for path in visible if path not in listed and run_of(path) != self._run_id}
        if self._replaces_all:
            return listed | unknown
        mine = list(self._selections.values())
        replaced = {entry.path for entry in other_entries if entry.selection in mine}
        return replaced | {path for path in unknown if self._selection_of(path) in mine}

    def _selection_of(self, path: str) -> Mapping[str, Any] | None:
        """Return the selection of a file of an unfinished run; None if no run has written it."""
        run_id = run_of(path)
        run = self._runs.find(run_id) if run_id else None
        if run is None:
            return None
        planned = self._runs.planned(run)
        return selections(planned.spec, planned.parsed).get(partition_of(path, run_id))

    def _empty_entry(self) -> Entry:
        folder = folder_of(self._partition_by, [None] * len(self._partition_by))
        selection = {**EVERYTHING, "where": self._run.spec["where"]}
        return Entry(
            folder + empty_name(self._run_id, self._storage.format.suffix),
            0,
            0,
            self._run_id,
            "",
            selection,
        )

    def _empty_file(self) -> bytes:
        schema = stored_schema(schema_from_text(self._schema), self._partition_by)
        return self._storage.format.empty(schema)

    def _clean(self) -> None:
        self._fence.bury(self._run_id)
        # Whatever wrote them, they will not be listed again.
        leaving = manifest.read(self._storage.documents).leaving
        self._storage.uploads.remove(leaving)
        manifest.removed(self._storage.documents, leaving)
        self._remove_unlisted(
            [
                path
                for path in self._storage.uploads.visible()
                if is_empty(path) and not self._fence.is_loading(run_of(path))
            ]
        )
        self._storage.documents.tidy(f"runs/{self._run_id}")
        self._abandon()

    def _abandon(self) -> None:
        """End uploads that no record names.

        Those of a partition that is being copied again are left alone: its record was taken back,
        or is not published yet.
        """
        uploads = self._storage.uploads
        pending = uploads.pending(self._run_id)
        # Read after the uploads were listed: no attempt that began before can commit any more.
        records = self._records.read_all(self._run.generation)
        done = {name for name, (record, _) in records.items() if record.is_published}
        unpublished = [each for each in pending if partition_of(each[0], self._run_id) in done]
        uploads.abandon(self._run_id, unpublished)


def _leaving(
    current: Manifest, paths: Collection[str], visible: Mapping[str, int]
) -> tuple[str, ...]:
    """Return the files that leave the dataset, including earlier ones not removed yet."""
    return tuple(sorted({*current.leaving, *paths} & visible.keys()))


def stored_schema(schema: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """Return the schema of the files, without the columns that name folders."""
    return pa.schema([field for field in schema if field.name not in partition_by])


def _shown(schema: pa.Schema, partition_by: Sequence[str]) -> str:
    columns = json.dumps([f"{field.name} {field.type}" for field in schema])
    return columns + (f" in folders by {', '.join(partition_by)}" if partition_by else "")
