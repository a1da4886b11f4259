"""Runs that add rows to a table, and what happens to them when another run replaces it.

Each announces itself in a document before it checks the table for the last time. A run that
replaces the table first renames it, so that it cannot be found any more, then shuts out the
announced runs: they can no longer commit, and what they have committed and not moved is never
moved. So a run is in the new table with all of its rows, or with none.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.execution.roll_forward import RecordDocuments
from penstock.backends.roll_forward.runs import RunDocument, Runs
from penstock.errors import Diagnosis, TargetChanged
from penstock.spec.modes import mode_of

CLEAN = "clean"
"""The step after which a run adds no rows."""


def _folder(uuid: str) -> str:
    return f"adding/{uuid}"


def start_appending(documents: RecordDocuments, uuid: str, run_id: str) -> None:
    """Announce that a run adds rows to a table.

    Args:
        documents: the documents of the control database.
        uuid: the table's UUID, which stays when the table is renamed.
        run_id: the run.
    """
    documents.create(f"{_folder(uuid)}/{run_id}.json", b"{}")


def stop_appending(documents: RecordDocuments, uuid: str, run_id: str) -> None:
    """Withdraw a run's announcement, once it adds no more rows.

    Args:
        documents: the documents of the control database.
        uuid: the table's UUID.
        run_id: the run.
    """
    documents.delete([f"{_folder(uuid)}/{run_id}.json"])


def shut_out(documents: RecordDocuments, runs: Runs, uuid: str, by: str) -> None:
    """Shut out the runs that add rows to a table which has been renamed away.

    Args:
        documents: the documents of the control database.
        runs: the runs in these documents.
        uuid: the UUID of the table that was renamed away.
        by: the run that replaces the table.
    """

    def disturbed(run: RunDocument) -> RunDocument | None:
        only_adds = mode_of(runs.planned(run).spec).only_adds
        if CLEAN in run.steps or not only_adds:
            return None
        return replace(run, disturbed_by=run.disturbed_by or by)

    for name in documents.read_all(_folder(uuid)):
        run_id = name.rpartition("/")[2].removesuffix(".json")
        document = runs.change(run_id, disturbed)
        if document is not None:
            runs.carry_out(run_id, document)


def check_not_shut_out(run_id: str, run: RunDocument) -> None:
    """Check that a run was not shut out.

    Raises:
        TargetChanged: the run was shut out.
    """
    if run.disturbed_by:
        raise TargetChanged(
            f"target: run {run.disturbed_by} has replaced the table that run {run_id} adds to, "
            "along with the rows that it has loaded; start a new run",
            Diagnosis(side="target"),
        )
