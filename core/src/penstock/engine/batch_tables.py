"""The tables of a batch: found by patterns and sections, each with its own options."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from penstock.backends.api.facts import Siblings
from penstock.backends.api.optional.bulk_catalogs import describing
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.connections import Connections
from penstock.engine.matched_tables import MatchedTables
from penstock.engine.table_requests import TableRequest
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import NotCopied, Relation, TableRef
from penstock.planning.asking.search_path import lacks_schema
from penstock.spec.batch_spec import BatchSpec, run_id_of
from penstock.spec.copy_spec import CopySpec
from penstock.spec.masks import meets
from penstock.spec.modes import Table
from penstock.spec.option import derived

Found = tuple[Sequence[TableRequest], tuple[NotCopied, ...]]
"""The tables of a batch, and the objects that it leaves out."""

# The ends of the kinds of objects that can be copied like tables.
_COPYABLE = ("views", "tables")


class BatchTables:
    """The search for the tables of a batch.

    Args:
        batch: the batch.
        ends: its connections.
        source: the source's catalog.
        target: the target's catalog.
    """

    def __init__(
        self, batch: BatchSpec, ends: Connections, source: SourceCatalog, target: TargetCatalog
    ) -> None:
        self._batch = batch
        self._ends = ends
        self._source = source
        self._target = target
        self._matched = MatchedTables(batch, source)

    def requests(self, batch_id: str) -> Found:
        """Return a request for every table, even one that does not exist.

        Raises:
            UsageError: a pattern matches nothing, or two tables would be loaded into one.
            PlanningError: no table has a column that is to be masked or left out.
        """
        batch, matched = self._batch, self._matched
        specs = batch.specs(matched.find(), self._with_schemas, matched.searched)
        if not specs:
            raise UsageError(
                f"{batch.origin}: expected tables to copy, found none: skip, exclude or --tables "
                "leaves out every table that the sections match"
            )
        tables = {spec.relation for spec in specs}
        checked = specs
        if batch.sections and (batch.tables or batch.exclude):
            # Part of a file's tables: masks are checked against all of them.
            unfiltered = replace(batch, tables=(), exclude=())
            checked = unfiltered.specs(matched.of_sections, self._with_schemas, matched.searched)
        with describing(self._source, [spec.relation for spec in checked]):
            requests = [self._request(batch_id, spec, tables) for spec in specs]
            self._check_columns(checked)
        return requests, self._not_copied(specs)

    def _request(
        self, batch_id: str, table_spec: CopySpec, tables: Collection[Relation]
    ) -> TableRequest:
        missing: list[TableRef] = []
        spec = self._without_copied_heirs(table_spec, tables, missing)
        error = partial_inheritance(spec, missing) if missing else None
        return TableRequest(spec=derived(spec, run_id=run_id_of(batch_id, spec)), error=error)

    def _check_columns(self, specs: Sequence[CopySpec]) -> None:
        """Check that each masked column is in at least one table.

        If a rule is misspelled, its column would be copied unmasked.
        """
        rules: dict[tuple[str, str], bool] = {}
        for spec in specs:
            route = spec
            flags = [("--mask", rule) for rule in route.masks]
            flags += [("--exclude-columns", rule) for rule in route.exclude_columns or ()]
            if not flags:
                continue
            try:
                names = [column.name for column in self._source.columns(route.relation)]
            except PlanningError:
                return  # planning will report it, and that table's columns are unknown
            for flag, rule in flags:
                matched = any(meets(name, rule) for name in names)
                rules[flag, rule] = matched or rules.get((flag, rule), False)
        for (flag, rule), matched in rules.items():
            if not matched:
                raise PlanningError(f"{flag}: no table of the batch has a column {rule!r}")

    def _not_copied(self, specs: Sequence[CopySpec]) -> tuple[NotCopied, ...]:
        """Return objects that the patterns match other than tables, if tables are recreated."""
        if not any(spec.load_mode.table is Table.RECREATED for spec in specs):
            return ()
        copied = {spec.source_name for spec in specs}
        include, exclude = self._matched.patterns()
        if self._batch.sections and not include:
            patterns = (each.pattern for each in self._batch.sections if not each.is_query)
            include = tuple(
                name for pattern in patterns for name in self._matched.searched(pattern)
            )
        objects = self._source.other_objects(include, exclude)
        # A function may have the name of a table.
        return tuple(
            item for item in objects if not (item.kind.endswith(_COPYABLE) and item.name in copied)
        )

    def _without_copied_heirs(
        self, spec: CopySpec, tables: Collection[Relation], missing: list[TableRef]
    ) -> CopySpec:
        """Return the spec without the rows of inheriting tables that the batch copies itself.

        Args:
            spec: the copy of a table that others may inherit from.
            tables: all tables of the batch.
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

    def _with_schemas(self, spec: CopySpec) -> CopySpec:
        """Return the spec with schemas; unchanged if the table is missing: planning reports it."""
        if lacks_schema(spec):
            with suppress(PlanningError):
                qualified, _ = self._ends.with_schemas(spec, self._source, self._target)
                return qualified
        return spec


def files_are_one_table(flag: str) -> UsageError:
    """Return the error of an option that leads to files where many tables are needed."""
    return UsageError(
        f"{flag}: copying many tables needs a database; this URL points to files, which are one "
        "table: copy each table separately, with its own URL"
    )


def partial_inheritance(spec: CopySpec, missing: Sequence[TableRef]) -> PlanningError:
    """Return the error of a batch that has only some tables of an inheritance tree."""
    return PlanningError(
        f"the batch copies {spec.source_name}, but not all of the tables that inherit from it: "
        f"{', '.join(map(str, missing))} missing; copy all or none, or pass --descendants to "
        "include or exclude their rows"
    )


def check_many(ends: Connections) -> None:
    """Check that both ends can have many tables.

    Raises:
        UsageError: one end consists of files, which are a single table.
    """
    for flag, backend in (("--source", ends.source_backend), ("--target", ends.target_backend)):
        if backend.located:
            raise files_are_one_table(flag)


def siblings_of(specs: Sequence[CopySpec]) -> Siblings:
    """Return the tables of a batch, as the plan of each sees them."""
    return Siblings(
        {spec.table_ref: spec.target_ref for spec in specs if spec.table is not None},
        frozenset(spec.target_ref for spec in specs if spec.load_mode.table is Table.RECREATED),
        frozenset(spec.target_ref for spec in specs if spec.data_only),
        frozenset(spec.target_ref for spec in specs if spec.atomic == "batch"),
    )
