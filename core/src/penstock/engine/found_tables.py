"""`find_tables`, `describe_tables`: tables as the source's catalog describes them, to be kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

from penstock.backends.api.optional.bulk_catalogs import describing, prefetch
from penstock.backends.api.source import SourceCatalog
from penstock.engine.batch_tables import files_are_one_table
from penstock.engine.connections import resolve
from penstock.engine.matched_tables import MatchedTables
from penstock.engine.value_display import isolate_display
from penstock.engine.windows import windows
from penstock.errors import PlanningError
from penstock.model.codec import OMITTED
from penstock.model.tables import TableRef
from penstock.spec.batch_spec import BatchSpec


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column of a source's table."""

    name: str
    type: str
    """In the source's notation."""
    nullable: bool
    comment: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of a source."""

    name: str
    """With its schema, if the source has schemas."""
    columns: tuple[FoundColumn, ...] = ()
    """Empty if they cannot be read."""
    comment: str = field(default="", metadata=OMITTED)

    @property
    def comments(self) -> dict[str, str]:
        """The comments of the columns that have one."""
        return {column.name: column.comment for column in self.columns if column.comment}


@dataclass(frozen=True)
class FoundTables:
    """The tables of a batch, and what is needed to match its patterns again."""

    tables: tuple[FoundTable, ...] = ()
    schemas: tuple[str, ...] = ()
    """The search path of the source."""

    @cached_property
    def refs(self) -> tuple[TableRef, ...]:
        """The tables, as they are referred to."""
        return tuple(TableRef.parse(table.name, "tables") for table in self.tables)


@isolate_display
def find_tables(batch: BatchSpec) -> FoundTables:
    """Find the tables that a batch names, or that its patterns match, with their columns.

    Reads only the source's catalog, and does not connect to the target.

    Raises:
        UsageError: the source cannot be resolved, or consists of files, or a pattern matches
            nothing.
        TransientError: the source cannot be reached.
    """
    url, backend, _, _ = resolve(batch.source, "--source")
    if backend.located:
        raise files_are_one_table("--source")
    with closing(backend.source(url)) as catalog:
        found = MatchedTables(batch, catalog).find()
        tables = tuple(_described(catalog, found))
        return FoundTables(tables, tuple(catalog.schemas()))


@isolate_display
def describe_tables(source: str, tables: Sequence[TableRef]) -> list[FoundTable | None]:
    """Describe tables of a source, in the order given; None for one that cannot be read.

    Args:
        source: the source's connection.
        tables: tables or views; one without a schema is found in the search path.

    Raises:
        UsageError: the source cannot be resolved, or consists of files.
        TransientError: the source cannot be reached.
    """
    url, backend, _, _ = resolve(source, "--source")
    if backend.located:
        raise files_are_one_table("--source")
    with closing(backend.source(url)) as catalog:
        refs = [each if each.schema else catalog.find(each.name) for each in tables]
        known = list(dict.fromkeys(ref for ref in refs if ref is not None))
        described = dict(zip(known, _described(catalog, known), strict=True))
    found = [None if ref is None else described[ref] for ref in refs]
    return [table if table and table.columns else None for table in found]


def _described(catalog: SourceCatalog, tables: Sequence[TableRef]) -> Iterator[FoundTable]:
    for window in windows(tables):
        with describing(catalog, window):
            prefetch(catalog, (False,))
            for ref in window:
                yield _table(catalog, ref)


def _table(catalog: SourceCatalog, ref: TableRef) -> FoundTable:
    try:
        model = catalog.definition(ref, partitioning=False).model
    except PlanningError:  # a view
        try:
            columns = catalog.columns(ref)
        except PlanningError:
            return FoundTable(str(ref))  # planning will report it
        return FoundTable(
            str(ref), tuple(FoundColumn(each.name, each.type, each.nullable) for each in columns)
        )
    return FoundTable(
        str(ref),
        tuple(
            FoundColumn(each.name, each.native, each.nullable, each.comment)
            for each in model.columns
        ),
        model.comment,
    )
