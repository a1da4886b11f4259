"""Runs that are loading a dataset, and those whose files another run removes.

The manifest names its owner: the run that last emptied the dataset or replaced files in it. A run
that began with an empty dataset can finish while it is the owner; any other, while its files exist.
A run that removes them shuts the other out: its commit records are voided, so that none of its
attempts can commit, and its commits are taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.names import is_empty, run_of
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.runs import RunDocument, Runs
from penstock.errors import Diagnosis, TargetChanged
from penstock.spec.modes import Entry, Mode, Table, mode_of

MANIFEST = "manifest"
"""The step from which on the files belong to the dataset."""
EMPTIED = "the dataset was emptied, or files in it were replaced"
FOLDER = "loading"
"""The folder with a document for each run that is prepared, or being prepared, and has not done
that step.
"""


def replaces_files(mode: Mode) -> bool:
    """Whether a run's files replace others when it ends."""
    return mode.entry is Entry.REPLACE or mode.table is Table.BESIDE


class Fence:
    """The checks that keep runs from losing each other's files."""

    def __init__(self, storage: Storage, runs: Runs) -> None:
        self._storage = storage
        self._runs = runs

    @staticmethod
    def _name(run_id: str) -> str:
        return f"{FOLDER}/{run_id}.json"

    def begin(self, run_id: str) -> None:
        """Register a run before it changes anything."""
        self._storage.documents.create(self._name(run_id), b"{}")

    def end(self, run_id: str) -> None:
        """Remove a run's registration, once its files belong to the dataset."""
        self._storage.documents.delete([self._name(run_id)])

    def is_loading(self, run_id: str) -> bool:
        """Whether a run has begun, and its files do not belong to the dataset yet."""
        return self._storage.documents.get(self._name(run_id)) is not None

    def owner(self, run: RunRow) -> str:
        """Return the owner of the dataset as prepared by a run."""
        if mode_of(run.spec).empties_before:
            return run.run_id
        return manifest.read(self._storage.documents).owner

    def check(self, run_id: str) -> None:
        """Check that a run can finish.

        Raises:
            TargetChanged: as in `LoadedTables.check`.
        """
        run = self._runs.find(run_id)
        if run is None or not _is_loading(run):
            return
        self.check_open(run_id, run)
        self.check_owner(run_id, run)
        self.check_there(run_id, self.committed_files(run_id, run))

    def committed_files(self, run_id: str, run: RunDocument) -> dict[str, int]:
        """Return the sizes of the files that a run has committed."""
        records = self._runs.records(run_id).publish_all(run.generation)
        return {piece.name: piece.bytes for record in records.values() for piece in record.pieces}

    def check_owner(self, run_id: str, run: RunDocument) -> None:
        """Check that the run still owns the dataset.

        Raises:
            TargetChanged: another run has emptied the dataset since, or replaced files in it.
        """
        if self._empties(run) and self._is_lost(run_id, run):
            raise self.loss_error(run_id, EMPTIED)

    def check_loaded_since(self, run_id: str) -> None:
        """Check for rows loaded by others, before the dataset is emptied again.

        Raises:
            TargetChanged: another run has loaded rows since this one emptied the dataset, which
                would be lost.
        """
        run = self._runs.find(run_id)
        if run is None or not _is_loading(run) or not self._empties(run):
            return
        current = manifest.read(self._storage.documents)
        other_runs = {entry.run for entry in current.files if entry.partition} - {run_id}
        if other_runs:
            raise TargetChanged(
                f"target: run {min(other_runs)} has loaded rows into {self._storage} since run "
                f"{run_id} was prepared, and they would be lost; start a new run to replace them",
                Diagnosis(side="target"),
            )

    def check_open(self, run_id: str, run: RunDocument) -> None:
        """Check that the run was not shut out.

        Raises:
            TargetChanged: the run was shut out.
        """
        if run.disturbed_by:
            self._runs.carry_out(run_id, run)
            raise self._changed(run_id, EMPTIED, run.disturbed_by)

    def check_there(self, run_id: str, files: Mapping[str, int]) -> Mapping[str, int]:
        """Check that a run's files exist.

        Args:
            run_id: the run.
            files: the run's files with their sizes.

        Returns:
            The sizes of all existing files.

        Raises:
            TargetChanged: files were removed, are about to be, or have changed.
        """
        visible = self._storage.uploads.visible()
        leaving = set(manifest.read(self._storage.documents).leaving)
        missing = [
            path for path, size in files.items() if path in leaving or visible.get(path) != size
        ]
        if not missing:
            return visible
        what = (
            f"{len(missing):,} of the {len(files):,} files that run {run_id} has committed are "
            f"missing or changed, such as {missing[0]}"
        )
        raise self.loss_error(run_id, what)

    def loss_error(self, run_id: str, change: str, cause_run: str = "") -> TargetChanged:
        """Return the error for a run that cannot finish.

        If another run is the cause, its commits are taken back, so that readers of the folder do
        not take them for rows.

        Args:
            run_id: the run that cannot finish.
            change: what was changed, for the message.
            cause_run: the other run; if empty, it is looked up.
        """
        run = self._runs.find(run_id)
        owner = manifest.read(self._storage.documents).owner
        if not cause_run and run is not None and owner not in (run_id, run.owner):
            cause_run = owner
        if cause_run:
            marked = self._runs.change(
                run_id,
                lambda now_is: (
                    replace(now_is, disturbed_by=cause_run) if _is_loading(now_is) else None
                ),
            )
            if marked is not None:
                self._runs.carry_out(run_id, marked)
        return self._changed(run_id, change, cause_run)

    def bury(self, run_id: str) -> None:
        """Shut out the runs that can no longer finish, since the manifest was changed.

        Args:
            run_id: the run that does this.
        """
        names = self._storage.documents.stamps(FOLDER)
        for run in sorted(name.removeprefix(f"{FOLDER}/").removesuffix(".json") for name in names):
            if run != run_id:
                self._shut_out(run)

    def _shut_out(self, run_id: str) -> None:
        def disturbed(run: RunDocument) -> RunDocument | None:
            owner = manifest.read(self._storage.documents).owner
            # A prepared run owned the dataset earlier, so a run that took it since is the current
            # owner.
            if not _is_loading(run) or not self._is_lost(run_id, run):
                return None
            return replace(run, disturbed_by=run.disturbed_by or owner or "another run")

        run = self._runs.change(run_id, disturbed)
        if run is not None:
            self._runs.carry_out(run_id, run)
            self.end(run_id)

    def _empties(self, run: RunDocument) -> bool:
        return mode_of(self._runs.planned(run).spec).empties_before

    def _is_lost(self, run_id: str, run: RunDocument) -> bool:
        current = manifest.read(self._storage.documents)
        if run.disturbed_by:
            return True
        if self._empties(run):
            return current.owner != run.owner
        return any(run_of(path) == run_id and not is_empty(path) for path in current.leaving)

    def _changed(self, run_id: str, change: str, cause_run: str) -> TargetChanged:
        whom = f"run {cause_run}" if cause_run else "another program"
        return TargetChanged(
            f"target: {self._storage}: {change}, by {whom}, since run {run_id} began to load; "
            "start a new run",
            Diagnosis(side="target"),
        )


def _is_loading(run: RunDocument) -> bool:
    return run.prepared_at is not None and MANIFEST not in run.steps
