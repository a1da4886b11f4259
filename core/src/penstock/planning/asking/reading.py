"""Reads the facts that planning starts from, for one table as for many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.nights import BuildsNights, FindsGone
from penstock.backends.api.source import SourceCatalog, VersionedSource
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import are_shared
from penstock.errors import (
    Interrupted,
    MissingTarget,
    PenstockError,
    PermanentError,
    PlanningError,
)
from penstock.model.nights import Horizon, SourceVersions, Watermark, is_behind
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, TableRef
from penstock.planning.asking.nights_before import NightsBefore
from penstock.planning.asking.steps_left import StepsLeft
from penstock.planning.facts import Fact, Facts, NightFacts, TargetTable, fact
from penstock.planning.incremental import may_move_watermark
from penstock.planning.nights import new_leaves
from penstock.planning.one_statement import expecting_one_statement
from penstock.planning.request import PlanRequest
from penstock.planning.steps_left import takes_steps_left
from penstock.planning.target_table import (
    check_taken_as_is,
    is_there,
    must_be_missing,
    wanted_table,
    without_mark,
)
from penstock.planning.where_words import of_where

T = TypeVar("T")


class TableReader:
    """Reads about one table, until the first error: a transaction that it has aborted must not be
    asked on.

    Parameters:
        steps_left, nights: about all tables that are planned together.
    """

    def __init__(
        self,
        request: PlanRequest,
        source: SourceCatalog,
        target: TargetCatalog,
        steps_left: StepsLeft,
        nights: NightsBefore,
    ) -> None:
        self._request = request
        self._spec = request.spec
        self._source = source
        self._target = target
        self._steps_left = steps_left
        self._nights = nights
        self._error: PenstockError | None = None
        self._columns: Fact[tuple[Column, ...]] = ()
        self._definition: Fact[TableDefinition | None] = None

    def _read(self, read: Callable[[], T]) -> Fact[T]:
        if self._error is None:
            try:
                return read()
            except Interrupted:
                raise
            except PenstockError as error:
                self._error = error
        return self._error

    def read_columns(self) -> TableDefinition | None:
        """
        Returns: how the source's table is defined, where the target's is made like it.
        """
        self._columns = self._read(self._source_columns)
        self._definition = self._read(self._wanted_definition)
        return None if isinstance(self._definition, PenstockError) else self._definition

    def read(self) -> Facts:
        """All facts, once the columns are read."""
        spec, source, target = self._spec, self._source, self._target
        table = self._read(self._target_table)
        heirs = self._read(
            lambda: () if spec.descendants == "exclude" else source.heirs(spec.relation)
        )
        return Facts(
            columns=self._columns,
            table=table,
            heirs=heirs,
            positions=self._read(
                lambda: (
                    source.positions(spec.relation)
                    if spec.sequences == "set" and not spec.schema_only
                    else None
                )
            ),
            is_same=self._read(self._is_same),
            steps_left=self._read(
                lambda: (
                    self._steps_left.on(spec.target_ref)
                    if takes_steps_left(spec, self._request.capabilities.target)
                    else ()
                )
            ),
            night=self._read(self._night),
            statistics=self._read(lambda: _statistics(self._request, source)),
            heirs_columns=self._read(lambda: {heir: source.columns(heir) for heir in fact(heirs)}),
            finds_gone=isinstance(target, FindsGone),
            builds_nights=isinstance(target, BuildsNights),
        )

    # Columns

    def _source_columns(self) -> tuple[Column, ...]:
        relation = self._spec.relation
        with expecting_one_statement(relation):
            columns = self._source.columns(relation)
        if are_shared(self._request.capabilities.formats):
            columns = self._source.in_arrow(relation, columns)
        return columns

    def _wanted_definition(self) -> TableDefinition | None:
        spec, target = self._spec, self._target
        if spec.data_only or not target.makes(spec.target_ref, spec.load_mode):
            return None
        if must_be_missing(spec) and self._is_there():
            raise is_there(spec)
        return self._source.definition(spec.relation, partitioning=spec.partitioning)

    def _is_there(self) -> bool:
        try:
            self._target.columns(self._spec.target_ref)
        except PlanningError:
            return False
        return True

    def _target_table(self) -> TargetTable:
        spec, target = self._spec, self._target
        definition = fact(self._definition)
        if definition is None:
            check_taken_as_is(spec)
            try:
                return TargetTable(without_mark(spec, target.columns(spec.target_ref)))
            except PlanningError as error:
                if target.identity(spec.target_ref):
                    raise
                raise MissingTarget(error.message, error.diagnosis) from error
        wanted = wanted_table(spec, fact(self._columns), definition)
        made = target.defined_columns(
            spec.target_ref, wanted.definition, wanted.columns, wanted.types
        )
        return TargetTable(made, wanted.definition)

    def _is_same(self) -> bool:
        identity = self._source.state(self._spec.relation).identity
        return bool(identity) and identity == self._target.identity(self._spec.target_ref)

    # Nights

    def _night(self) -> NightFacts | None:
        spec, source = self._spec, self._source
        asked = spec.incremental is not None
        if not asked and not may_move_watermark(spec, self._request.capabilities.target):
            return None
        if not isinstance(source, VersionedSource):
            assert not asked, "its capabilities say so"
            return None
        before = self._nights.of(spec)
        if asked:
            return self._versions(source, before)
        last = before.last(spec)
        if last is None:
            return None
        try:
            return self._versions(source, before)
        except PermanentError as error:
            return NightFacts(last=last, refused=error.message)

    def _versions(self, source: VersionedSource, before: NightsBefore) -> NightFacts:
        """
        Raises:
            PlanningError: the source's rows have no versions.
        """
        spec, relation = self._spec, self._spec.relation
        assert isinstance(relation, TableRef), "checked with the options"
        if spec.where is not None:
            source.check_fixed(spec.where)
        last = before.last(spec)
        now, versions = source.horizon(), source.versions(relation)
        ahead = self._ahead(source, last, versions, now)
        merges = spec.load_mode.merges_at_end and ahead is None
        since = last.horizon if last is not None else None
        return NightFacts(
            last=last,
            now=now,
            versions=versions,
            furthest=source.furthest,
            ahead=ahead,
            target=before.target_now(spec) if merges else None,
            changed=source.changed_since(since, new_leaves(versions, last))
            if merges and since is not None
            else "",
        )

    def _ahead(
        self,
        source: VersionedSource,
        last: Watermark | None,
        versions: SourceVersions,
        now: Horizon,
    ) -> Watermark | None:
        """What was read as of a later moment than the source is read now."""
        read = last
        if versions.standby and last is not None and last.horizon is None:
            # It may lag behind what was read before the watermark was reset, too.
            history = self._target.control.watermark_history(last.name)
            read = next((each for each in history if each.horizon), None)
        if read is None or read.horizon is None or not is_behind(read, versions, now):
            return None
        return read if versions.standby or source.has_reached(read.horizon) else None


def _statistics(request: PlanRequest, source: SourceCatalog) -> TableStatistics:
    with of_where(request.spec.where):
        return source.statistics(request.spec.relation, request.spec.where)


def read_source(request: PlanRequest, source: SourceCatalog) -> Facts:
    """The facts without a target.

    Raises:
        PenstockError: they cannot be read.
    """
    return Facts(
        columns=source.columns(request.spec.relation), statistics=_statistics(request, source)
    )
