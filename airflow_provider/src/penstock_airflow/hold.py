"""The tasks around a run's snapshot: one holds it, one releases it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from threading import Event as Flag
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
)

import penstock
from penstock import PenstockError, SnapshotLost, as_arguments, narrate
from penstock_airflow.base import PenstockOperator, TargetOperator, as_airflow
from penstock_airflow.ends import ARGUMENTS, TARGET_ARGUMENTS
from penstock_airflow.identity import clearings
from penstock_airflow.options import overrides
from penstock_airflow.trigger import HoldSnapshotTrigger

PRIORITY = 1_000


class HoldSnapshotOperator(PenstockOperator):
    """Holds the snapshot that all mapped tasks of a run read with.

    A run of one partition, with nothing to compare, needs no holder: this task ends at once, and
    the partition's task takes its own snapshot. Otherwise it runs beside the mapped tasks until the
    snapshot is no longer needed: when the last partition is committed, or `ReleaseSnapshotOperator`
    has run.

    Losing the snapshot for good does not fail this task: the copies that need it fail, and once
    they have been cleared and have succeeded, no failed task is left in the DAG run.

    Clearing this task makes it hold a snapshot again: the old one if somebody still holds it,
    otherwise one of the source as it is now.

    Parameters:
        run_id: the output of `PrepareCopyOperator`.
        deferrable: hold it in the triggerer, which takes no worker slot; otherwise in this task.
        on_snapshot_lost: replaces the run's own option, until this task is cleared.
    """

    template_fields: Sequence[str] = ("run_id", *ARGUMENTS)

    def __init__(
        self,
        *,
        run_id: Any,
        deferrable: bool = True,
        on_snapshot_lost: str | None = None,
        **kwargs: Any,
    ) -> None:
        # Ahead of the copies: it needs a slot only for a moment, while theirs wait for it.
        kwargs.setdefault("priority_weight", PRIORITY)
        super().__init__(**kwargs)
        self.run_id = run_id
        self.deferrable = deferrable
        self.on_snapshot_lost = on_snapshot_lost
        self._stop = Flag()

    def execute(self, context: Any) -> None:
        ends = self._ends()
        lost = self.on_snapshot_lost
        if clearings(context["ti"]):
            lost = "accept"
            # Only when cleared: a holder that starts late must not outlive a released run.
            try:
                penstock.require_snapshot(
                    self.run_id, target=ends["target"], control_schema=self.control_schema
                )
            except PenstockError as error:
                raise as_airflow(error) from None
        elif self._is_released(ends["target"]):
            self.log.info("run %s needs no shared snapshot", self.run_id)
            return
        if self.deferrable:
            self.defer(
                trigger=HoldSnapshotTrigger(
                    run_id=self.run_id,
                    **{name: getattr(self, name) for name in ARGUMENTS},
                    control_schema=self.control_schema,
                    on_snapshot_lost=lost,
                ),
                method_name="execute_complete",
            )
        events = penstock.hold(
            self.run_id,
            **ends,
            control_schema=self.control_schema,
            stop=self._stop,
            **overrides(lost),
        )
        try:
            with closing(events):
                for _ in narrate(events, self._say, warn=self._warn):
                    pass
        except SnapshotLost as error:
            self._say_lost(as_arguments(error.message))
        except PenstockError as error:
            raise as_airflow(error) from None
        self._check_not_killed()

    def _is_released(self, target: str) -> bool:
        try:
            status = penstock.status(self.run_id, target=target, control_schema=self.control_schema)
        except PenstockError as error:
            raise as_airflow(error) from None
        return status.run.released_at is not None

    def execute_complete(self, context: Any, event: dict[str, Any]) -> None:
        """
        Parameters:
            event: the trigger's last event.

        Raises:
            AirflowFailException, AirflowException: the snapshot could not be taken.
        """
        if event["status"] == "lost":
            self._say_lost(event["message"])
        elif event["status"] == "failed":
            kind = AirflowException if event["transient"] else AirflowFailException
            raise kind(event["message"])
        else:
            self.log.info("%s", event["message"])

    def _say_lost(self, message: str) -> None:
        self.log.error(
            "%s\nThe snapshot is no longer held: copies that need it will fail.", message
        )

    def on_kill(self) -> None:
        super().on_kill()
        self._stop.set()


class ReleaseSnapshotOperator(TargetOperator):
    """Releases a run's snapshot, however the copies ended.

    Parameters:
        run_id: the output of `PrepareCopyOperator`; without a run, nothing is done.
    """

    template_fields: Sequence[str] = ("run_id", *TARGET_ARGUMENTS)

    def __init__(self, *, run_id: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id

    def execute(self, context: Any) -> None:
        if not self.run_id:
            self.log.info("there is no run to release")
            return
        try:
            penstock.release(
                self.run_id,
                target=self._target.connect(),
                control_schema=self.control_schema,
            )
        except PenstockError as error:
            raise as_airflow(error) from None
