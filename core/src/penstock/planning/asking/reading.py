"""Reading of the facts that planning starts from, for one table or for many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.optional.cursors import ReadsByColumn, ReadsByFile
from penstock.backends.api.optional.nights import BuildsNights, FindsDeletedRows
from penstock.backends.api.source import SourceCatalog, VersionedSource
from penstock.backends.api.target import TargetCatalog, WithSchemas
from penstock.backends.api.worker import are_shared
from penstock.errors import (
    Interrupted,
    MissingTarget,
    PenstockError,
    PermanentError,
    PlanningError,
    did_you_mean,
)
from penstock.model.extents import Bound
from penstock.model.nights import Horizon, SourceVersions, Watermark, is_behind
from penstock.model.plans import MOST_NAMED
from penstock.model.source_columns import SourceColumn
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, TableRef
from penstock.planning.asking.drift import is_elsewhere, read_drift
from penstock.planning.asking.earlier_runs import NightsBefore, PendingSteps
from penstock.planning.asking.selected_columns import read_selected, selected_definition
from penstock.planning.cursors import is_comparable
from penstock.planning.facts import Fact, Facts, NightFacts, TargetTable, fact
from penstock.planning.incremental import may_move_watermark
from penstock.planning.nights import new_leaves
from penstock.planning.pending_steps import takes_pending_steps
from penstock.planning.request import PlanRequest
from penstock.planning.seen_files import seen_digests
from penstock.planning.statement_errors import expecting_one_statement, wrap_condition_errors
from penstock.planning.target_table import (
    check_existing_table,
    existing_table_error,
    must_be_missing,
    new_table,
    without_mark,
)
from penstock.spec.modes import Ending, Table
from penstock.spec.night_kinds import FILES

T = TypeVar("T")


class TableReader:
    """A reader of facts about one table.

    It stops at the first error, because a transaction that the error has aborted must not be used
    again.

    Args:
        pending_steps, nights: shared by all tables that are planned together.
    """

    def __init__(
        self,
        request: PlanRequest,
        source: SourceCatalog,
        target: TargetCatalog,
        pending_steps: PendingSteps,
        nights: NightsBefore,
    ) -> None:
        self._request = request
        self._route = request.route
        self._loading = request.loading
        self._source = source
        self._target = target
        self._pending_steps = pending_steps
        self._nights = nights
        self._error: PenstockError | None = None
        self._columns: Fact[tuple[Column, ...]] = ()
        self._selected: Fact[tuple[Column, ...]] = ()
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
        """Read the columns of both sides.

        Returns:
            the definition of the source's table, if the target's is created from it.
        """
        self._columns = self._read(self._source_columns)
        self._selected = self._read(self._selected_columns)
        self._definition = self._read(self._wanted_definition)
        return None if isinstance(self._definition, PenstockError) else self._definition

    def read(self) -> Facts:
        """Read all facts; the columns must have been read."""
        route, loading = self._route, self._loading
        source, target = self._source, self._target
        table = self._read(self._target_table)
        heirs = self._read(
            lambda: () if route.descendants == "exclude" else source.heirs(route.relation)
        )
        return Facts(
            columns=self._columns,
            selected=self._selected,
            table=table,
            heirs=heirs,
            positions=self._read(
                lambda: (
                    source.positions(route.relation)
                    if loading.sequences == "set" and not loading.schema_only
                    else None
                )
            ),
            is_same=self._read(self._is_same),
            pending_steps=self._read(
                lambda: (
                    self._pending_steps.of_table(route.target_ref)
                    if takes_pending_steps(loading, self._request.capabilities.target)
                    else ()
                )
            ),
            night=(night := self._read(self._night)),
            columns_before=self._read(lambda: self._columns_before(fact(night))),
            drift=self._read(
                lambda: read_drift(
                    self._request,
                    target,
                    fact(self._selected),
                    fact(self._columns),
                    fact(table),
                    fact(night),
                    self._source_definition,
                )
            ),
            statistics=self._read(lambda: _statistics(self._request, source)),
            heirs_columns=self._read(lambda: {heir: source.columns(heir) for heir in fact(heirs)}),
            finds_deleted=isinstance(target, FindsDeletedRows),
            builds_nights=isinstance(target, BuildsNights),
        )

    # Columns

    def _source_columns(self) -> tuple[Column, ...]:
        relation = self._route.relation
        with expecting_one_statement(relation):
            columns = self._source.columns(relation)
        if are_shared(self._request.capabilities.formats):
            columns = self._source.in_arrow(relation, columns)
        return columns

    def _selected_columns(self) -> tuple[Column, ...]:
        return read_selected(
            self._route,
            self._source,
            fact(self._columns),
            in_arrow=are_shared(self._request.capabilities.formats),
            one_of_many=self._request.siblings is not None,
            before=self._columns_of_last_night,
        )

    def _columns_of_last_night(self) -> tuple[SourceColumn, ...]:
        last = self._nights.last(self._request)
        return last.columns if last is not None else ()

    def _wanted_definition(self) -> TableDefinition | None:
        route, loading, target = self._route, self._loading, self._target
        if loading.data_only or not target.creates_table(route.target_ref, loading.load_mode):
            return None
        if must_be_missing(loading) and self._is_there():
            raise existing_table_error(route)
        return self._source_definition(partitioning=loading.partitioning)

    def _source_definition(self, *, partitioning: bool = False) -> TableDefinition:
        """Return the definition of the source's table with the columns that are copied."""
        definition = self._source.definition(self._route.relation, partitioning=partitioning)
        return selected_definition(
            self._source, definition, fact(self._columns), fact(self._selected)
        )

    def _is_there(self) -> bool:
        try:
            self._target.columns(self._route.target_ref)
        except PlanningError:
            return False
        return True

    def _target_table(self) -> TargetTable:
        route, loading, target = self._route, self._loading, self._target
        definition = fact(self._definition)
        if definition is None:
            check_existing_table(route, loading)
            try:
                return TargetTable(without_mark(route, loading, target.columns(route.target_ref)))
            except PlanningError as error:
                if target.identity(route.target_ref):
                    raise
                raise MissingTarget(error.message, error.diagnosis) from error
        if not loading.create and loading.load_mode.table is not Table.RECREATED:
            self._check_schema(route.target_ref)
        created = new_table(route, loading, fact(self._selected), definition)
        columns = target.defined_columns(
            route.target_ref, created.definition, created.columns, created.types
        )
        return TargetTable(columns, created.definition)

    def _check_schema(self, table: TableRef) -> None:
        """Check that a table's schema exists: its name may be mistyped.

        Raises:
            PlanningError: the target has no such schema.
        """
        target = self._target
        if not isinstance(target, WithSchemas) or (names := target.schemas_beside(table)) is None:
            return
        there_are = f"; there are {', '.join(names[:MOST_NAMED])}."
        raise PlanningError(
            f"target: schema {table.schema!r} does not exist"
            f"{did_you_mean(table.schema, names) or there_are} To create it, pass --create (in a "
            "file: create = true)"
        )

    def _is_same(self) -> bool:
        identity = self._source.state(self._route.relation).identity
        return bool(identity) and identity == self._target.identity(self._route.target_ref)

    # Nights

    def _night(self) -> NightFacts | None:
        source, able = self._source, self._request.capabilities.target
        is_night = self._loading.incremental is not None
        if not is_night and not may_move_watermark(self._route, self._loading, able):
            return None
        if self._loading.night_by == FILES:
            return self._by_file()
        if self._loading.cursor_columns:
            return self._by_column(self._loading.cursor_columns)
        last = None if is_night else self._nights.last(self._request)
        if last is not None and (last.cursor or last.files):
            try:
                if last.cursor is None:
                    return self._by_file()
                return self._by_column(last.cursor.columns)
            except PermanentError as error:
                return NightFacts(last=last, refused=error.message)
        if not isinstance(source, VersionedSource):
            assert not is_night, "its capabilities say so"
            return None
        if is_night:
            return self._versions(source)
        last = self._nights.last(self._request)
        if last is None:
            return None
        try:
            return self._versions(source)
        except PermanentError as error:
            return NightFacts(last=last, refused=error.message)

    def _columns_before(self, night: NightFacts | None) -> tuple[SourceColumn, ...]:
        """Return the columns as the last night found them, if it may have read the same source.

        A load that moves no watermark must not reveal a column that nights hide.
        """
        route = self._route
        if night is None and not (route.exclude_columns or route.masks or route.expressions):
            return ()
        last = self._nights.last(self._request) if night is None else night.last
        if last is None or (night is not None and is_elsewhere(night)):
            return ()
        return last.columns

    def _versions(self, source: VersionedSource) -> NightFacts:
        """Read the facts of a night by row versions.

        Raises:
            PlanningError: the source's rows have no versions.
        """
        request, before = self._request, self._nights
        relation, where = self._route.relation, self._route.where
        assert isinstance(relation, TableRef), "checked with the options"
        if where is not None:
            source.check_fixed(where)
        last = before.last(request)
        now, versions = source.horizon(), source.versions(relation)
        ahead = self._later_watermark(source, last, versions, now)
        merges = self._loading.load_mode.ending is Ending.MERGE and ahead is None
        since = last.horizon if last is not None else None
        return NightFacts(
            last=last,
            now=now,
            versions=versions,
            max_transaction_distance=source.max_transaction_distance,
            ahead=ahead,
            target=before.target_now(request) if merges else None,
            changed=source.changed_rows_condition(since, new_leaves(versions, last))
            if merges and since is not None
            else "",
        )

    def _by_file(self) -> NightFacts:
        """Read the facts of a night by files.

        Raises:
            PlanningError: the source does not consist of files.
        """
        source, request = self._source, self._request
        if not isinstance(source, ReadsByFile):
            raise PlanningError(
                f"--incremental: {self._route.source_name} does not consist of files"
            )
        last = self._nights.last(request)
        history = self._target.control.watermarks.history(last.name) if last is not None else ()
        merges = self._loading.load_mode.ending is Ending.MERGE
        return NightFacts(
            last=last,
            target=self._nights.target_now(request) if merges else None,
            files=source.source_files(self._route.relation),
            known_digests=seen_digests(history),
        )

    def _by_column(self, columns: Sequence[str]) -> NightFacts:
        """Read the facts of a night by column.

        Raises:
            PlanningError: the source lacks a column, or its values cannot be compared.
        """
        source, request, nightly = self._source, self._request, self._loading
        relation, where = self._route.relation, self._route.where
        if not isinstance(source, ReadsByColumn):
            raise PlanningError(
                f"--incremental: {self._route.source_name} cannot be read by a column"
            )
        last = self._nights.last(request)
        now = source.cursor(relation, where, columns, nightly.max_ahead)
        row = ""
        if now.ahead:
            key = self._loading.conflict_columns or self._default_key()
            key = key if not any(map(self._route.mask_of, key)) else ()
            value = Bound(now.type, now.ahead)
            row = source.keys_at(relation, where, columns, value, key) if key else ""
        versions = horizon = ahead = None
        if isinstance(source, VersionedSource) and not now.source:
            assert isinstance(relation, TableRef), "checked with the options"
            horizon, versions = source.horizon(), source.versions(relation)
            ahead = self._later_watermark(source, last, versions, horizon)
        merges = self._loading.load_mode.ending is Ending.MERGE and ahead is None
        new_rows = range_of = selected = None
        since = last.cursor if last is not None else None
        if merges and since is not None and since.text and is_comparable(since, now):
            nulls = nightly.null_cursor == "include"
            assert nightly.lookback is not None, "checked with the options"
            new_rows = source.cursor_range(relation, since, now, nightly.lookback, nulls=nulls)
            new = () if versions is None else new_leaves(versions, last)
            condition = new_rows.condition
            if new and isinstance(source, VersionedSource):
                condition = source.or_in_tables(condition, new)
            range_of = replace(new_rows, condition=condition)
            if now.indexed:
                both = condition if where is None else f"({where}\n) AND {condition}"
                selected = source.statistics(relation, both)
        return NightFacts(
            last=last,
            now=horizon,
            versions=versions,
            ahead=ahead,
            target=self._nights.target_now(request) if merges else None,
            cursor=now,
            range=range_of,
            row_ahead=row,
            selected=selected,
        )

    def _default_key(self) -> tuple[str, ...]:
        """Return the columns that identify a row; empty if the source has none."""
        key = self._source.statistics(self._route.relation, self._route.where).default_key
        return () if key is None else (key,)

    def _later_watermark(
        self,
        source: VersionedSource,
        last: Watermark | None,
        versions: SourceVersions,
        now: Horizon,
    ) -> Watermark | None:
        """Return the watermark of a later moment than the one at which the source is read now."""
        read = last
        if versions.standby and last is not None and last.horizon is None:
            # The source may also lag behind what was read before the watermark was reset.
            history = self._target.control.watermarks.history(last.name)
            read = next((each for each in history if each.horizon), None)
        if read is None or read.horizon is None or not is_behind(read, versions, now):
            return None
        return read if versions.standby or source.has_reached(read.horizon) else None


def _statistics(request: PlanRequest, source: SourceCatalog) -> TableStatistics:
    with wrap_condition_errors(request.route.where):
        return source.statistics(request.route.relation, request.route.where)


def read_source(request: PlanRequest, source: SourceCatalog) -> Facts:
    """Read the facts without a target.

    Raises:
        PenstockError: the facts cannot be read.
    """
    columns = source.columns(request.route.relation)
    return Facts(
        columns=columns,
        selected=read_selected(
            request.route,
            source,
            columns,
            in_arrow=False,
            one_of_many=request.siblings is not None,
        ),
        statistics=_statistics(request, source),
    )
