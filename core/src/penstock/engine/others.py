"""Whom an execution waits for, among those that take partitions of the same runs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.engine.control_link import ControlLink
from penstock.errors import Interrupted, PenstockError
from penstock.events import OtherProcess, Waiting
from penstock.model.journal import COPYING, FINISHING, RUNNING, Journal
from penstock.workers.sharing import Key

# Seconds until a wait is told, and between two looks at what others do, at first and after a while.
FIRST_LOOK, LONGEST_PAUSE = 2.0, 15.0
# Vain looks at what others do, before a wait is told that is for an unknown process.
VAIN_LOOKS = 2
# Runs of a batch of whose many waits a person sees some.
MOST_RUNS = 20


class Others:
    """Tells whom this execution waits for: once, and again when that changes.

    It reads that in their journals. A killed execution leaves its journal behind; the one that took
    over from it started later, so that one is named.

    Args:
        link: the link to the control store.
        execution_id: the id of this execution.
        table_of: returns the name of a run's table, if others are in the same batch.
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(
        self,
        link: ControlLink,
        execution_id: str,
        table_of: Callable[[str], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._id = execution_id
        self._table_of = table_of
        self._clock = clock
        self._due: float | None = None
        self._pause = 0.0
        self._looks = 0
        self._told: tuple[OtherProcess, ...] | None = None

    def copy(self, keys: Sequence[Key]) -> Iterator[Waiting]:
        """Tell of a wait for partitions that others are copying; no keys end the wait."""
        if not keys:
            self.stop()
        elif self._is_due():
            keys = keys[:MOST_RUNS]
            journals = self._journals({run_id for run_id, _ in keys})
            yield from self._tell(keys[0][0], _copying(keys, journals, self._table_of))

    def have_turn(self, run_ids: Sequence[str], turn: str = FINISHING) -> Iterator[Waiting]:
        """Tell of a wait for those that have a turn.

        Args:
            run_ids: the runs that they do something for; for plans of a batch, its id.
            turn: what they do.
        """
        if self._is_due():
            journals = self._journals(set(run_ids[:MOST_RUNS]))
            yield from self._tell(run_ids[0], _having_turn(turn, journals))

    def stop(self) -> None:
        """Note that this execution does something itself."""
        self._due = self._told = None

    def _is_due(self) -> bool:
        now = self._clock()
        if self._due is None:
            self._due, self._pause, self._looks = now + FIRST_LOOK, FIRST_LOOK, 0
        if now < self._due:
            return False
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        self._due = now + self._pause
        self._looks += 1
        return True

    def _journals(self, run_ids: set[str]) -> Mapping[str, Sequence[Journal]]:
        try:
            found = self._link.call(lambda control: control.journals.of(sorted(run_ids)))
        except Interrupted:
            raise
        except PenstockError:
            return {}  # it is only told
        return {
            run_id: [
                journal
                for journal in journals
                if journal.status == RUNNING and journal.execution_id != self._id
            ]
            for run_id, journals in found.items()
        }

    def _tell(self, run_id: str, others: tuple[OtherProcess, ...]) -> Iterator[Waiting]:
        if others != self._told and (others or self._looks >= VAIN_LOOKS):
            self._told = others
            yield Waiting(run_id=run_id, others=others)


def _copying(
    keys: Sequence[Key],
    journals: Mapping[str, Sequence[Journal]],
    table_of: Callable[[str], str],
) -> tuple[OtherProcess, ...]:
    """Return who is copying some partitions."""
    found: defaultdict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for run_id, partition_id in keys:
        opened = [
            (journal.moment(seconds), journal)
            for journal in journals.get(run_id, ())
            for name, seconds in zip(journal.open, journal.opened, strict=False)
            if name == partition_id
        ]
        if opened:
            since, last = max(opened, key=lambda each: each[0])
            name = " ".join(filter(None, (table_of(run_id), partition_id)))
            found[last.host, last.pid].append((since, name))
    return tuple(
        OtherProcess(
            host=host,
            pid=pid,
            what=COPYING,
            since=min(since for since, _ in parts),
            partition_ids=tuple(sorted(name for _, name in parts)),
        )
        for (host, pid), parts in sorted(found.items())
    )


def _having_turn(turn: str, journals: Mapping[str, Sequence[Journal]]) -> tuple[OtherProcess, ...]:
    """Return who has a turn: of several for one run, who has taken it last."""
    found: dict[tuple[str, int], str] = {}
    for executions in journals.values():
        begun = [
            (journal.moment(journal.turn_from), journal)
            for journal in executions
            if journal.turn == turn
        ]
        if begun:
            since, last = max(begun, key=lambda each: each[0])
            process = last.host, last.pid
            found[process] = min(since, found.get(process, since))
    return tuple(
        OtherProcess(host=host, pid=pid, what=turn, since=since)
        for (host, pid), since in sorted(found.items())
    )
