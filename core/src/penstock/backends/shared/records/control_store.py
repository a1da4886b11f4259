"""The control store over a store of records: what is kept of runs, whatever the database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from penstock.backends.api.execution.control import Loss, RunningAttempt, RunRow
from penstock.backends.api.execution.records import Hold, Kind
from penstock.backends.shared.records.lasting_rows import Lasting, Seen, all_lasting, loss_of
from penstock.backends.shared.records.step_records import StepRecords
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef


class RecordedRuns(StepRecords):
    """`ControlStore`, except for what only a backend knows about the loaded table."""

    shows_before_last_steps = True
    """Whether a run's rows are in its table, for all to see, before its last steps."""

    # Added by a backend, besides what it adds to `StepRecords`

    @abstractmethod
    def check_recopy(self, run_id: str) -> None: ...

    @abstractmethod
    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]: ...

    @abstractmethod
    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        """Delete the rows of partitions, within its transaction; see `ControlStore.forget`.

        Args:
            run: the run.
            records: the commit records of the partitions.
            rows_of: the table from which the rows are deleted; None to leave them.
        """

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        """Look at the tables of runs that are complete; see `ControlStore.losses`.

        Args:
            runs: the runs, with what to look for.

        Returns:
            what is there, by run; nothing for runs about which nothing can be told.
        """
        return {}

    def losses(self, run_ids: Sequence[str], *, counted: bool) -> dict[str, Loss]:
        runs = self._last_nights(self.load_runs(run_ids))
        if not self.shows_before_last_steps:
            runs = {run_id: run for run_id, run in runs.items() if run.status == "done"}
        lasting = all_lasting(runs, self.committed_of(list(runs)), counted=counted)
        seen = self.see_again(lasting) if lasting else {}
        found = [run for run in lasting if run.run_id in seen]
        losses = {run.run_id: loss_of(run, seen[run.run_id]) for run in found}
        return {run_id: loss for run_id, loss in losses.items() if loss is not None}

    def _last_nights(self, runs: Mapping[str, RunRow]) -> dict[str, RunRow]:
        """Return runs without nights after which others have merged, and may have deleted rows."""
        names = {night.name for run in runs.values() if (night := run.plan.night) is not None}
        latest = self.watermarks.latest(sorted(names)) if names else {}
        return {
            run_id: run
            for run_id, run in runs.items()
            if run.plan.night is None
            or run.plan.night.name not in latest
            or latest[run.plan.night.name].run_id == run_id
        }

    # Requests to copy partitions again

    def recopied_partitions(self, run_id: str, request: str) -> frozenset[str]:
        where = {"run_id": run_id, "request": request}
        rows = self._records.read(Kind.RECOPY, where, ("partition_id",))
        return frozenset(row["partition_id"] for row in rows)

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        names = sorted(set(partition_ids))

        def take_back() -> frozenset[str]:
            recopied = self.recopied_partitions(run_id, request)
            new = tuple(name for name in names if name not in recopied)
            row = {"run_id": run_id, "request": request}
            self._records.add(Kind.RECOPY, [{**row, "partition_id": name} for name in new])
            theirs = {"run_id": run_id, "partition_id": new}
            commits, run = self._commit_records(theirs), self.load_run(run_id)
            if not commits or run is None:
                return frozenset()
            self.check_recopy(run_id)
            self.take_back(run, commits, rows_of)
            self._records.delete(Kind.COMMIT, theirs)
            self._change(run_id, {"status": "running", "finished_at": None})
            return frozenset(record.partition_id for record in commits)

        with self._records.exclusive(run_id):
            return self._records.transact(run_id, take_back, Hold.RECOPY, names, patience)
