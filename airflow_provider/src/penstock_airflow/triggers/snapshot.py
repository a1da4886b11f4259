"""The trigger that holds a run's snapshot in the triggerer, where it needs no worker slot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from asgiref.sync import sync_to_async

import penstock
from penstock import PenstockError, SnapshotLost, as_arguments, narrate
from penstock_airflow.arguments.endpoint import ARGUMENTS, Endpoint
from penstock_airflow.arguments.options import overrides
from penstock_airflow.runs.task_states import Tasks

POLL_INTERVAL = 0.25
"""Seconds between two checks of the holder's thread."""
JOIN_TIMEOUT = 5.0
"""Seconds to wait for the thread to end when the trigger is cancelled."""
READERS_INTERVAL = 10.0
"""Seconds between two requests to Airflow for the states of the readers."""
NO_READERS = "no remaining task reads with the snapshot, so it is released"


class HolderThread:
    """A thread that runs `penstock.hold`, which would block the triggerer.

    Args:
        run_id: the id of the run.
        arguments: further arguments of `penstock.hold`.
    """

    def __init__(self, run_id: str, **arguments: Any) -> None:
        self.lines: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self.error: PenstockError | None = None
        self.started = threading.Event()
        """Set once the snapshot is taken, or cannot be taken."""
        self._stop = threading.Event()
        self._events = penstock.hold(run_id, stop=self._stop, **arguments)
        self._thread = threading.Thread(target=self._run, name=f"penstock {run_id}", daemon=True)
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Release the snapshot."""
        self._stop.set()
        self._thread.join(JOIN_TIMEOUT)

    def _put(self, level: int, line: str) -> None:
        self.lines.put((level, line))

    def _run(self) -> None:
        try:
            put = [
                partial(self._put, level)
                for level in (logging.INFO, logging.WARNING, logging.ERROR)
            ]
            for _ in narrate(self._events, put[0], warn=put[1], fail=put[2]):
                self.started.set()
        except PenstockError as error:
            self.error = error
        finally:
            self._events.close()
            self.started.set()


class HoldSnapshotTrigger(BaseTrigger):
    """Holds a run's snapshot until no task needs it, or it is lost permanently.

    However the trigger ends, it releases the snapshot. A restarted triggerer runs the trigger
    again; the run's `on_snapshot_lost` then decides how to handle the lost snapshot.

    Args:
        run_id: the id of the run.
        source_conn_id, source, source_aws_conn_id, target_conn_id, target, target_aws_conn_id: as
            in an operator. Connections are looked up in the triggerer; no secret is stored.
        control_schema: the schema of Penstock's own tables in the target.
        on_snapshot_lost: overrides the run's own option; None keeps it.
        readers: the tasks that read with the snapshot, from `Tasks.as_json`; the snapshot is
            released once all of them have ended. None if unknown.
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
        self._checked_at = time.monotonic()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the classpath and the arguments, as Airflow stores them."""
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
        """Hold the snapshot, and yield an event when that ends."""
        try:
            urls = {side: await self._url(side) for side in ("source", "target")}
        except PenstockError as error:
            yield _failed(error)
            return
        holder = HolderThread(
            self.run_id,
            control_schema=self.control_schema,
            **urls,
            **overrides(self.on_snapshot_lost),
        )
        if self.trigger_id is None:
            # There is no triggerer: `dag.test()` runs this in its own process, and waits for an
            # event before the next task. The thread keeps running beside the other tasks.
            await asyncio.to_thread(holder.started.wait)
            self._log_lines(holder)
            if holder.error is not None:
                yield _failed(holder.error)
            else:
                yield _event(
                    status="held",
                    message="this process holds the snapshot until the run ends",
                )
            return
        try:
            while not holder.finished and not await self._readers_finished(urls["target"]):
                self._log_lines(holder)
                await asyncio.sleep(POLL_INTERVAL)
            self._log_lines(holder)
        finally:
            await asyncio.to_thread(holder.stop)
        if holder.error is not None:
            yield _failed(holder.error)
        else:
            # End the task here. Resuming it would take a worker slot, and Airflow 3.3 may mistake a
            # task that resumes within seconds of deferring for a killed one.
            yield TaskSuccessEvent()

    async def _url(self, side: str) -> str:
        endpoint = Endpoint.of(side, self)
        if self.trigger_id is None:
            # `dag.test()` answers only synchronous requests for connections in Airflow's database.
            return await asyncio.to_thread(endpoint.connect)
        return await endpoint.connect_async()

    async def _readers_finished(self, target: str) -> bool:
        """Whether no remaining task reads with the snapshot, which is then released."""
        readers = Tasks.stored(self.readers)
        if readers is None or time.monotonic() - self._checked_at < READERS_INTERVAL:
            return False
        self._checked_at = time.monotonic()
        try:
            # Airflow 3 answers only from threads of this kind.
            finished = await sync_to_async(readers.are_finished)()
        except Exception as error:
            self.log.warning("cannot read the states of %s: %s", readers.task_ids, error)
            return False
        if finished:
            self.log.info(NO_READERS)
            with contextlib.suppress(PenstockError):
                await asyncio.to_thread(
                    penstock.release,
                    self.run_id,
                    target=target,
                    control_schema=self.control_schema,
                )
        return finished

    def _log_lines(self, holder: HolderThread) -> None:
        # Log here, not in the thread: Airflow finds the log of a line by its context.
        while not holder.lines.empty():
            level, line = holder.lines.get()
            self.log.log(level, "%s", as_arguments(line))


def _failed(error: PenstockError) -> TriggerEvent:
    status = "lost" if isinstance(error, SnapshotLost) else "failed"
    return _event(status=status, message=as_arguments(error.message), transient=error.transient)


def _event(**payload: Any) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
