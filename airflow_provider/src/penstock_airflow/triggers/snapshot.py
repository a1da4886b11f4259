"""A trigger that holds a run's snapshot in the triggerer, where it needs no worker slot."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from asgiref.sync import sync_to_async

import penstock
from penstock import PenstockError, SnapshotLost, as_arguments, narrate
from penstock_airflow.arguments.endpoint import ARGUMENTS, End
from penstock_airflow.arguments.options import overrides
from penstock_airflow.runs.task_states import Tasks

LOOK_EVERY = 0.25
"""Seconds between two checks of the trigger's thread."""
END_WITHIN = 5.0
"""Seconds to wait for the thread when the trigger is cancelled."""
ASK_EVERY = 10.0
"""Seconds between two requests to Airflow whether a remaining task reads with the snapshot."""
NOBODY_READS = "no task is left that would read with the snapshot: it is released"


class Holding:
    """A thread that runs `penstock.hold`, which blocks, as a triggerer must not."""

    def __init__(self, run_id: str, **arguments: Any) -> None:
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.error: PenstockError | None = None
        self.begun = threading.Event()
        """Set once the snapshot is taken, or could not be taken."""
        self._stop = threading.Event()
        self._events = penstock.hold(run_id, stop=self._stop, **arguments)
        self._thread = threading.Thread(target=self._run, name=f"penstock {run_id}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Release the snapshot."""
        self._stop.set()
        self._thread.join(END_WITHIN)

    def _run(self) -> None:
        try:
            for _ in narrate(self._events, self.lines.put):
                self.begun.set()
        except PenstockError as error:
            self.error = error
        finally:
            self._events.close()
            self.begun.set()


class HoldSnapshotTrigger(BaseTrigger):
    """Ends when no task needs the run's snapshot any more, or when it is lost permanently.

    However the trigger ends, it releases the snapshot. A restarted triggerer runs the trigger
    again; the run's `on_snapshot_lost` then decides how to handle the lost snapshot.

    Parameters:
        source_conn_id, target_conn_id ...: as in an operator. Connections are looked up in the
            triggerer; no secret is stored.
        readers: `Tasks` as JSON: once all of them have ended, the snapshot is no longer needed.
    """

    def __init__(
        self,
        run_id: str,
        source_conn_id: str | None = None,
        target_conn_id: str | None = None,
        control_schema: str = "penstock",
        on_snapshot_lost: str | None = None,
        *,
        source: str | None = None,
        source_aws_conn_id: str | None = None,
        target: str | None = None,
        target_aws_conn_id: str | None = None,
        readers: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.run_id = run_id
        self.source_conn_id = source_conn_id
        self.source = source
        self.source_aws_conn_id = source_aws_conn_id
        self.target_conn_id = target_conn_id
        self.target = target
        self.target_aws_conn_id = target_aws_conn_id
        self.control_schema = control_schema
        self.on_snapshot_lost = on_snapshot_lost
        self.readers = readers
        self._asked = time.monotonic()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "run_id": self.run_id,
                **{name: getattr(self, name) for name in ARGUMENTS},
                "control_schema": self.control_schema,
                "on_snapshot_lost": self.on_snapshot_lost,
                "readers": self.readers,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            urls = {side: await End.of(side, self).connect_async() for side in ("source", "target")}
        except PenstockError as error:
            yield _failed(error)
            return
        holding = Holding(
            self.run_id,
            control_schema=self.control_schema,
            **urls,
            **overrides(self.on_snapshot_lost),
        )
        if self.trigger_id is None:
            # Not in a triggerer: `dag.test()` runs this in its own process, and waits for an event
            # before the next task. The thread keeps running beside the other tasks.
            await asyncio.to_thread(holding.begun.wait)
            self._say(holding)
            if holding.error is not None:
                yield _failed(holding.error)
            else:
                yield _event(
                    status="held",
                    message="this process holds the snapshot until the run ends",
                )
            return
        try:
            while not holding.ended and not await self._is_unread(urls["target"]):
                self._say(holding)
                await asyncio.sleep(LOOK_EVERY)
            self._say(holding)
        finally:
            await asyncio.to_thread(holding.stop)
        if holding.error is not None:
            yield _failed(holding.error)
        else:
            # End the task here. Resuming it would take a worker slot, and Airflow 3.3 may mistake a
            # task that resumes within seconds of deferring for a killed one.
            yield TaskSuccessEvent()

    async def _is_unread(self, target: str) -> bool:
        """Whether no remaining task reads with the snapshot, which is then released."""
        readers = Tasks.stored(self.readers)
        if readers is None or time.monotonic() - self._asked < ASK_EVERY:
            return False
        self._asked = time.monotonic()
        try:
            # Airflow 3 answers only threads of this kind.
            finished = await sync_to_async(readers.are_finished)()
        except Exception as error:
            self.log.warning("Airflow does not say how %s stand: %s", readers.task_ids, error)
            return False
        if finished:
            self.log.info(NOBODY_READS)
            with contextlib.suppress(PenstockError):
                await asyncio.to_thread(
                    penstock.release,
                    self.run_id,
                    target=target,
                    control_schema=self.control_schema,
                )
        return finished

    def _say(self, holding: Holding) -> None:
        # Log here and not in the thread: Airflow finds a line's log by the context.
        while not holding.lines.empty():
            self.log.info("%s", as_arguments(holding.lines.get()))


def _failed(error: PenstockError) -> TriggerEvent:
    status = "lost" if isinstance(error, SnapshotLost) else "failed"
    return _event(status=status, message=as_arguments(error.message), transient=error.transient)


def _event(**payload: Any) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
