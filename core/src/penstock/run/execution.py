"""One execution of a run: prepare, supervise, replace what is lost, finish, report."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from penstock.errors import (
    Interrupted,
    LoadLost,
    PenstockError,
    SnapshotLost,
    TransientError,
    is_cancellation,
)
from penstock.events import Event
from penstock.run.control_link import ControlLink
from penstock.run.final_steps import Finishing
from penstock.run.state import RunState
from penstock.workers.process import Nursery
from penstock.workers.supervisor import Supervisor

# Seconds. Who cancels does not want to wait for a server that does not answer.
BRIEFLY = 2.0


class Execution:
    """Copies the partitions of one run that are not committed.

    Parameters:
        nursery: starts the workers; None where every partition is committed.
    """

    def __init__(
        self, state: RunState, *, degree: int, nursery: Nursery | None, link: ControlLink
    ) -> None:
        self._state = state
        self._degree = degree
        self._streams = degree
        """As many as there were: no more than partitions."""
        self._nursery = nursery
        self._link = link

    def run(self, *, seconds: float) -> Iterator[Event]:
        """
        Parameters:
            seconds: what planning took.

        Raises:
            RunFailed, RunFailedTransiently: after the `Finished` event.
        """
        state = self._state
        try:
            yield state.planned(self._degree, seconds)
            yield from state.prepare()
            try:
                yield from self._copy()
                yield from self._finish()
            except Interrupted:
                yield state.finished("interrupted", self._streams)
                raise
            except PenstockError as error:
                # The snapshot is lost for good, or a server stays away.
                state.failed(error)
                yield state.finished("failed", self._streams)
                raise
            finished = state.conclude(self._streams)
            yield finished
        except BaseException as error:
            # Whatever ended this: the target should say so, if it can be told.
            cancelled = is_cancellation(error)
            briefly(lambda: self._tell_end(cancelled=cancelled))
            raise
        if finished.status == "failed":
            state.raise_failure()

    def _tell_end(self, *, cancelled: bool) -> None:
        if cancelled:
            # A statement may still run on that connection, and hold the run's row.
            self._link.cancel()
        self._state.set_status("interrupted" if cancelled else "failed")

    def _copy(self) -> Iterator[Event]:
        state = self._state
        while works := state.works():
            if self._nursery is None:
                raise TransientError(
                    f"another process started run {state.run_id} over at this moment; try again"
                )
            asked = max(1, min(self._degree, len(works)))
            supervisor = Supervisor(
                nursery=self._nursery,
                degree=asked,
                is_committed=self._link.is_committed,
                watch=state.view.watch,
            )
            try:
                for event in supervisor.run(works):
                    state.add(event)
                    yield event
                if not (supervisor.failures and state.is_superseded()):
                    return
                yield from state.replace_view()
            except SnapshotLost as error:
                yield state.view.lost(error.message)
                yield from state.replace_view()
            except LoadLost as error:
                yield from state.load_again(error)
            finally:
                self._streams = supervisor.degree
                if supervisor.degree < asked:  # a server had no connection left
                    self._degree = supervisor.degree
                state.take_failures(supervisor)

    def _finish(self) -> Iterator[Event]:
        state = self._state
        if not state.finishes:
            return
        if not state.is_intact():
            yield from state.load_again(LoadLost("a crash of the target has emptied the table"))
            yield from self._copy()
        yield from state.verify()
        with contextlib.ExitStack() as stack:
            steps = state.due(lambda: stack.enter_context(contextlib.closing(state.view.open())))
        if not steps:
            return
        finishing = Finishing(
            {state.run_id: steps},
            self._link.reconnect,
            degree=self._degree,
            attempts=state.spec.attempts,
        )
        yield from finishing.run()
        yield from state.leave(finishing.left.get(state.run_id, ()))
        for error in finishing.failures.values():
            if isinstance(error, LoadLost):
                yield from state.load_again(error)
                yield from self._copy()
                yield from self._finish()
            else:
                state.failed(error)


def briefly(call: Callable[[], None]) -> None:
    """Try something for a moment, on a thread that may be left behind."""

    def attempt() -> None:
        with contextlib.suppress(PenstockError):
            call()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(BRIEFLY)
