"""Planning of many tables together: the catalogs answer their questions round by round."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.backends.api.optional.bulk_catalogs import MakesMany
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import Interrupted, PenstockError, TableReplaced
from penstock.model.plans import PartitionPlan
from penstock.model.table_model import TableDefinition
from penstock.planning.answers import Outdated, Question, Questions
from penstock.planning.asking.catalogs import Catalogs
from penstock.planning.asking.earlier_runs import NightsBefore, PendingSteps
from penstock.planning.asking.reading import TableReader, read_source
from penstock.planning.facts import Facts
from penstock.planning.request import PlanRequest
from penstock.planning.step import source_step, step

# How often a table is read again because it was replaced in the meantime.
MOST_REPLACEMENTS = 3


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """The outcome of planning a table."""

    result: PartitionPlan | PenstockError
    seconds: float

    @property
    def plan(self) -> PartitionPlan:
        """The plan.

        Raises:
            PenstockError: the table could not be planned.
        """
        if isinstance(self.result, PenstockError):
            raise self.result
        return self.result


def plan_tables(
    requests: Sequence[PlanRequest],
    source: SourceCatalog,
    target: TargetCatalog,
    *,
    enter: Callable[[PlanRequest], object] = lambda request: None,
    between: Callable[[], object] = lambda: None,
) -> Iterator[PlannedTable]:
    """Plan tables together, each as far as possible. Changes nothing.

    Yields each table in order, as soon as those before it are planned, and keeps none.

    Args:
        requests: the requests, in order.
        source: the catalog of the source.
        target: the catalog of the target.
        enter: called before questions about a table; an error from it counts as the table's.
        between: called after them; an error from it ends planning.
    """
    pending_steps, nights = PendingSteps(target, requests), NightsBefore(target, requests)

    def reader(request: PlanRequest) -> TableReader:
        return TableReader(request, source, target, pending_steps, nights)

    catalogs = Catalogs(source, target)
    queue = deque(_Table(request, reader, catalogs, enter) for request in requests)

    def turns(turn: Callable[[_Table], object]) -> Iterator[PlannedTable]:
        ahead = len(queue)
        while ahead := min(ahead, len(queue)):
            table = queue[-ahead]
            ahead -= 1
            if table.result is None:
                table.take(turn)
                between()
            while queue and queue[0].result is not None:
                yield queue.popleft().planned

    yield from turns(_Table.read_columns)
    if isinstance(target, MakesMany):
        definitions = {each.request.route.target_ref: each.defined for each in queue}
        target.expect(
            {table: definition for table, definition in definitions.items() if definition}
        )
    yield from turns(_Table.read)
    while queue:
        yield from turns(_Table.go_on)


def plan_table(request: PlanRequest, source: SourceCatalog, target: TargetCatalog) -> PartitionPlan:
    """Plan one table; see `plan_tables`.

    Args:
        request: the request.
        source: the catalog of the source.
        target: the catalog of the target.

    Raises:
        PlanningError: no plan is possible, or the target cannot take it; the message lists every
            problem with the columns at once.
    """
    (planned,) = plan_tables([request], source, target)
    return planned.plan


def plan_source(request: PlanRequest, source: SourceCatalog) -> PartitionPlan:
    """Plan how to partition a source, whatever the target.

    Raises:
        PlanningError: the source cannot be partitioned as requested.
    """
    facts, catalogs = read_source(request, source), Catalogs(source, None)
    answers: dict[Question[Any], object] = {}
    while isinstance(result := source_step(request, facts, answers), Questions):
        _ask(result.questions, catalogs, answers)
    return result


def _ask(
    questions: Iterable[Question[Any]], catalogs: Catalogs, answers: dict[Question[Any], object]
) -> None:
    """Ask questions until one fails.

    Planning would not reach those after it, and its transaction may be aborted.
    """
    for question in questions:
        try:
            answers[question] = catalogs.answer(question)
        except Interrupted:
            raise
        except PenstockError as error:
            answers[question] = error
            return


class _Table:
    """A table in planning."""

    def __init__(
        self,
        request: PlanRequest,
        reader: Callable[[PlanRequest], TableReader],
        catalogs: Catalogs,
        enter: Callable[[PlanRequest], object],
    ) -> None:
        self.request = request
        self.defined: TableDefinition | None = None
        """The definition from which the target's table is created."""
        self.result: PartitionPlan | PenstockError | None = None
        self._seconds = 0.0
        self._replacements = 0
        self._new_reader = reader
        self._reader = reader(request)
        self._catalogs = catalogs
        self._enter = enter
        self._facts: Facts | None = None
        self._answers: dict[Question[Any], object] = {}

    @property
    def planned(self) -> PlannedTable:
        assert self.result is not None
        return PlannedTable(self.result, self._seconds)

    def take(self, turn: Callable[[_Table], object]) -> None:
        started = time.monotonic()
        try:
            self._take_again_if_replaced(turn)
        except Interrupted:
            raise
        except PenstockError as error:
            self.result = error
        self._seconds += time.monotonic() - started

    def _take_again_if_replaced(self, turn: Callable[[_Table], object]) -> None:
        try:
            turn(self)
        except TableReplaced:
            self._replacements += 1
            if self._replacements > MOST_REPLACEMENTS:
                raise
            self._take_again_if_replaced(_Table._read_again)

    def read_columns(self) -> None:
        self._enter(self.request)
        self.defined = self._reader.read_columns()

    def read(self) -> None:
        self._enter(self.request)
        self._facts = self._reader.read()

    def go_on(self) -> None:
        assert self._facts is not None
        try:
            result = step(self.request, self._facts, self._answers)
        except Outdated:
            self._read_again()
            return
        if isinstance(result, Questions):
            self._enter(self.request)
            _ask(result.questions, self._catalogs, self._answers)
        else:
            self.result = result

    def _read_again(self) -> None:
        self._answers.clear()
        self._reader = self._new_reader(self.request)
        self.read_columns()
        self.read()
