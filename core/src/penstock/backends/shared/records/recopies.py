"""Requests to copy partitions again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.backends.api.execution.records import Hold, Kind, RecordStore
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.model.tables import TableRef


class Recopies:
    """See `api.execution.control.Recopies`."""

    def __init__(self, ledger: Ledger[Any], hooks: LoadHooks[Any]) -> None:
        self._ledger = ledger
        self._store: RecordStore = ledger.store
        self._runs = ledger.runs
        self._hooks = hooks
        self.check = hooks.check_recopy

    def of(self, run_id: str, request: str) -> frozenset[str]:
        where = {"run_id": run_id, "request": request}
        rows = self._store.read(Kind.RECOPY, where, ("partition_id",))
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
            recopied = self.of(run_id, request)
            new = tuple(name for name in names if name not in recopied)
            row = {"run_id": run_id, "request": request}
            self._store.add(Kind.RECOPY, [{**row, "partition_id": name} for name in new])
            theirs = {"run_id": run_id, "partition_id": new}
            commits, run = (
                self._ledger.commits.of_partitions(run_id, new),
                self._runs.find(run_id),
            )
            if not commits or run is None:
                return frozenset()
            self.check(run_id)
            self._hooks.take_back(run, commits, rows_of)
            self._store.delete(Kind.COMMIT, theirs)
            self._runs.change(run_id, {"status": "running", "finished_at": None})
            return frozenset(record.partition_id for record in commits)

        with self._store.exclusive(run_id):
            return self._store.transact(run_id, take_back, Hold.RECOPY, names, patience)
