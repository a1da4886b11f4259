"""The end of runs that several executions have copied: one of them finishes each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from penstock.backends.api.execution.control import Outlook
from penstock.engine.control_link import ControlLink
from penstock.engine.others import Others
from penstock.engine.preparation import follow
from penstock.engine.report import WHOLE_RUN
from penstock.engine.run_status import steps_due
from penstock.engine.state import RunState
from penstock.errors import PermanentError, RunFailed
from penstock.events import Event, TurnTaken
from penstock.model.journal import FINISHING

# Seconds between two looks at runs that others finish, at first and after a while.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
Do = Callable[[Sequence[RunState]], Iterator[Event]]
"""Does something with runs, as if no others were executed."""


class SharedEnd:
    """The end of runs, in this execution.

    A run is finished by the execution that has its turn, which only one process has at a time, as
    long as it lives. The others wait until the run is done: an execution that ended earlier would
    tell its scheduler that no other needs to be started.

    Args:
        link: the link to the target's control store.
        watch: called between two looks; yields events, or raises to end everything.
        finish: compares both sides, and does the steps after the last partition.
        copy: copies what is left.
        others: tells whom this execution waits for.
    """

    def __init__(
        self,
        link: ControlLink,
        watch: Callable[[], Iterator[Event]],
        finish: Do,
        copy: Do,
        others: Others,
    ) -> None:
        self._others = others
        self._link = link
        self._watch = watch
        self._finish = finish
        self._copy = copy

    def finish(self, runs: Sequence[RunState]) -> Iterator[Event]:
        """Finish runs, or wait until others have finished them.

        Args:
            runs: the runs, each with every partition committed.

        Raises:
            PenstockError: as the end of an execution by itself.
        """
        left, pause = list(runs), FIRST_PAUSE
        while left:
            left = yield from self._look(left)
            turns = self._turns(left)
            if mine := [run for run in left if run.run_id in turns]:
                # The one that had the turn before may have finished the run.
                mine = yield from self._look(mine)
                yield from self._begin(mine)
                yield from self._finish(mine)
                # If that has failed, another may try, also while this execution goes on.
                self._end(turns)
                left = [run for run in left if run.run_id not in turns]
                pause = FIRST_PAUSE
            elif left:
                time.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 1.5)
                yield from self._watch()
                yield from self._others.have_turn([run.run_id for run in left])

    def _begin(self, runs: Sequence[RunState]) -> Iterator[Event]:
        """Tell that this execution finishes runs; others may wait for that."""
        self._others.stop()
        if runs:
            run_ids = tuple(run.run_id for run in runs)
            yield TurnTaken(run_id=run_ids[0], what=FINISHING, run_ids=run_ids)

    def _has_failed(self, run: RunState, outlook: Outlook) -> bool:
        """Whether another execution has finished the run in vain since this one began.

        An error of its comparison or of a step would come again. What ended an execution before,
        such as a lost snapshot, is no matter of the others.
        """
        if outlook.status != "failed":
            return False
        stored = self._link.call(lambda control: control.runs.find(run.run_id))
        if stored is None or stored.finished_at == run.ended_before:
            return False
        errors = [each["error"] for each in stored.failures if each.get("label") == WHOLE_RUN]
        final = [each for each in errors if each.get("error") == PermanentError.__name__]
        if not final:
            return False
        run.finished_elsewhere = True
        run.fail(
            RunFailed(
                f"another process has finished run {run.run_id} of {run.spec.source_name}, which "
                f"failed: {final[-1]['message']}"
            )
        )
        return True

    def await_links(self, runs: Sequence[RunState]) -> Generator[Event, None, bool]:
        """Wait until it is this execution's turn to link the tables of a batch to each other.

        Args:
            runs: runs of the batch, each with its other steps done.

        Returns: whether it is; if not, another execution has done it.
        """
        turn, pause = f"{self._link.batch_id}:links", FIRST_PAUSE
        while True:
            mine = self._link.call(lambda control: control.presence.take_turns([turn]))
            outlooks = self._outlooks(runs)
            states = {
                run: outlooks[run.run_id].status if run.run_id in outlooks else "" for run in runs
            }
            if all(status == "done" for status in states.values()):
                for run in runs:
                    run.end_elsewhere()
                return False
            if mine:
                for run, status in states.items():
                    if status == "failed" and not run.is_mismatched:
                        run.fail(
                            RunFailed(
                                f"run {run.run_id} of {run.spec.source_name} has failed in another "
                                f"process: see penstock status {run.run_id} --target URL"
                            )
                        )
                yield from self._begin(runs)
                return True
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 1.5)
            yield from self._watch()
            yield from self._others.have_turn([run.run_id for run in runs])

    def _outlooks(self, runs: Sequence[RunState]) -> Mapping[str, Outlook]:
        names = [run.run_id for run in runs]
        return self._link.call(lambda control: control.runs.outlooks(names))

    def _turns(self, runs: Sequence[RunState]) -> frozenset[str]:
        names = [run.run_id for run in runs]
        return self._link.call(lambda control: control.presence.take_turns(names))

    def _end(self, turns: frozenset[str]) -> None:
        self._link.call(lambda control: control.presence.end_turns(list(turns)))

    def _look(self, runs: Sequence[RunState]) -> Generator[Event, None, list[RunState]]:
        """Return the runs that are still to be finished; copies again what was lost since."""
        left = []
        outlooks = self._outlooks(runs) if runs else {}
        due = steps_due([run for run in runs if run.planned_links()], self._link)
        for run in runs:
            outlook = outlooks.get(run.run_id)
            if outlook is not None and outlook.status == "done":
                run.end_elsewhere()
                continue
            if outlook is not None and self._has_failed(run, outlook):
                continue
            if outlook is None or (
                outlook.generation == run.view.generation and not outlook.pending
            ):
                # The run of a table that is linked to others is done once the whole batch is.
                if due.get(run.run_id, True):
                    left.append(run)
                continue
            left.append(run)
            # Its snapshot or its rows were lost, and another execution has started it over.
            if outlook.generation != run.view.generation:
                yield from follow(run, self._link)
            yield from self._copy([run])
        return [run for run in left if run.error is None and run.all_committed]
