"""The tables of a batch: found by patterns and sections, each with its own options."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

from penstock.backends.api.facts import Siblings
from penstock.backends.api.optional.described import describing
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import NotCopied, Relation, TableRef
from penstock.planning.asking.search_path import lacks_schema, with_any_schema, with_searched
from penstock.run.connections import Connections
from penstock.run.table_requests import TableRequest
from penstock.spec.batch_spec import BatchSpec, run_id_of
from penstock.spec.copy_spec import CopySpec
from penstock.spec.masks import meets

Found = tuple[Sequence[TableRequest], tuple[NotCopied, ...]]
"""The tables of a batch, and what it leaves out besides."""


class BatchTables:
    """Finds the tables of a batch.

    Parameters:
        source, target: where to look for them.
    """

    def __init__(
        self, batch: BatchSpec, ends: Connections, source: SourceCatalog, target: TargetCatalog
    ) -> None:
        self._batch = batch
        self._ends = ends
        self._source = source
        self._target = target
        self._with_schema: dict[str, tuple[str, ...]] = {}

    def requests(self, batch_id: str) -> Found:
        """One for every table, even for one that does not exist.

        Raises:
            UsageError: a pattern matches nothing, or two tables go into one.
            PlanningError: no table has a column that is masked, or left out.
        """
        batch = self._batch
        specs = batch.specs(self._match_patterns(), self._with_schemas, self._searched)
        if not specs:
            raise UsageError(
                f"{batch.origin}: the sections leave no table to copy: each one that they match "
                "is left out by skip, by exclude or by --tables"
            )
        tables = {spec.relation for spec in specs}
        with describing(self._source, [spec.relation for spec in specs]):
            requests = [self._request(batch_id, spec, tables) for spec in specs]
            self._check_columns(specs)
        return requests, self._not_copied(specs)

    def _request(
        self, batch_id: str, asked: CopySpec, tables: Collection[Relation]
    ) -> TableRequest:
        missing: list[TableRef] = []
        spec = self._without_copied_heirs(asked, tables, missing)
        error = partial_inheritance(spec, missing) if missing else None
        return TableRequest(spec=replace(spec, run_id=run_id_of(batch_id, spec)), error=error)

    def _check_columns(self, specs: Sequence[CopySpec]) -> None:
        """A column that is masked in many tables need not be in each, but in one of them: what is
        mistyped would be copied as it is."""
        rules: dict[tuple[str, str], bool] = {}
        for spec in specs:
            route = spec.route
            asked = [("--mask", rule) for rule in route.masks]
            asked += [("--exclude-columns", rule) for rule in route.exclude_columns or ()]
            if not asked:
                continue
            try:
                names = [column.name for column in self._source.columns(route.relation)]
            except PlanningError:
                return  # planning will report it, and nobody knows what that table has
            for flag, rule in asked:
                found = any(meets(name, rule) for name in names)
                rules[flag, rule] = found or rules.get((flag, rule), False)
        for (flag, rule), found in rules.items():
            if not found:
                raise PlanningError(f"{flag}: no table of the batch has a column {rule!r}")

    def _not_copied(self, specs: Sequence[CopySpec]) -> tuple[NotCopied, ...]:
        """What the patterns match besides tables, if the target's tables are recreated."""
        if not any(spec.load_mode.recreates for spec in specs):
            return ()
        named = {spec.source_name for spec in specs}
        others = self._source.others(*self._patterns())
        return tuple(item for item in others if item.name not in named)

    def _without_copied_heirs(
        self, spec: CopySpec, tables: Collection[Relation], missing: list[TableRef]
    ) -> CopySpec:
        """The spec without the rows of inheriting tables, if the batch copies those by themselves.

        Parameters:
            tables: all of the batch.
            missing: receives the inheriting tables that are not copied, if others are.
        """
        if spec.table is None or spec.descendants is not None or lacks_schema(spec):
            return spec
        heirs: tuple[TableRef, ...] = ()
        with suppress(PlanningError):  # planning will report it
            heirs = self._source.heirs(spec.relation)
        if not any(heir in tables for heir in heirs):
            return spec
        missing += [heir for heir in heirs if heir not in tables]
        return replace(spec, descendants="exclude")

    def _match_patterns(self) -> Sequence[TableRef]:
        """
        Raises:
            UsageError: a pattern matches nothing, or every match is excluded.
        """
        batch = self._batch
        if not batch.tables and not batch.sections:
            return ()
        for place, pattern in self._asked():
            searched = self._searched(pattern)
            if not searched or not self._source.tables(searched, ()):
                where = ""
                if "." not in pattern:
                    path = ", ".join(self._source.schemas()) or "empty"
                    where = f", whose search path is {path}"
                raise UsageError(f"{place} matches no table of the source{where}")
        found = self._source.tables(*self._patterns())
        if batch.tables and batch.sections:
            asked = self._source.tables(with_searched(batch.tables, self._source), ())
            return [table for table in found if table in asked]
        if not found and not batch.entries and not batch.sections:
            raise UsageError(
                f"--exclude: {', '.join(batch.exclude)} leaves out every table that --tables "
                f"{', '.join(batch.tables)} matches"
            )
        return found

    def _asked(self) -> Iterator[tuple[str, str]]:
        """The patterns of which each has to match a table, with where they are written."""
        queries = [section.pattern for section in self._batch.sections if section.is_query]
        for pattern in self._batch.tables:
            if not any(fnmatchcase(name, pattern) for name in queries):
                yield f"--tables: {pattern!r}", pattern
        for section in self._batch.sections:
            if not section.is_query:
                yield section.place, section.pattern

    def _searched(self, pattern: str) -> tuple[str, ...]:
        """The pattern, with a schema."""
        if pattern not in self._with_schema:
            self._with_schema[pattern] = with_searched((pattern,), self._source)
        return self._with_schema[pattern]

    def _patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What to copy and what to leave out, each with a schema."""
        batch = self._batch
        asked = [section.pattern for section in batch.sections if not section.is_query]
        include = tuple(
            searched
            for pattern in (asked if batch.sections else batch.tables)
            for searched in self._searched(pattern)
        )
        return include, with_any_schema(batch.exclude)

    def _with_schemas(self, spec: CopySpec) -> CopySpec:
        """Unchanged if there is no such table; planning will report that."""
        if lacks_schema(spec):
            with suppress(PlanningError):
                found, _ = self._ends.with_schemas(spec, self._source, self._target)
                return found
        return spec


def partial_inheritance(spec: CopySpec, missing: Sequence[TableRef]) -> PlanningError:
    return PlanningError(
        f"the batch copies some of the tables that inherit from {spec.source_name}, but not "
        f"{', '.join(map(str, missing))}: copy all of them or none, or use --descendants to "
        "include or exclude their rows"
    )


def check_many(ends: Connections) -> None:
    """
    Raises:
        UsageError: one of the ends is files, which are one table.
    """
    for flag, backend in (("--source", ends.source_backend), ("--target", ends.target_backend)):
        if backend.located:
            raise UsageError(
                f"{flag}: copying many tables needs a database; this URL leads to files, which are "
                "one table: copy each table by itself, with its own URL"
            )


def siblings_of(specs: Sequence[CopySpec]) -> Siblings:
    """The tables of a batch, as the plan of each sees them."""
    return Siblings(
        {spec.table_ref: spec.target_ref for spec in specs if spec.table is not None},
        frozenset(spec.target_ref for spec in specs if spec.load_mode.recreates),
        frozenset(spec.target_ref for spec in specs if spec.data_only),
    )
