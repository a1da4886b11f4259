"""The tables of a source that the patterns and sections of a batch match."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from penstock.backends.api.source import SourceCatalog
from penstock.errors import UsageError, did_you_mean
from penstock.model.tables import TableRef
from penstock.planning.asking.search_path import with_any_schema, with_searched
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.table_sections import SectionMatcher


class MatchedTables:
    """The search for the tables of a batch.

    Args:
        batch: the batch.
        source: the source's catalog.
    """

    def __init__(self, batch: BatchSpec, source: SourceCatalog) -> None:
        self._batch = batch
        self._source = source
        self._with_schema: dict[str, tuple[str, ...]] = {}
        self.of_sections: Sequence[TableRef] = ()
        """The tables that sections match, even those left out by `tables` and `exclude`."""

    def find(self) -> Sequence[TableRef]:
        """Return the tables that the patterns match.

        Raises:
            UsageError: a pattern matches nothing, or every match is excluded.
        """
        batch = self._batch
        for pattern in batch.tables:
            if not self._source.tables(self.searched(pattern), ()) and not any(
                section.is_query and fnmatchcase(section.pattern, pattern)
                for section in batch.sections
            ):
                raise self._no_match(f"--tables: {pattern!r}", pattern)
        if batch.sections:
            return self._match_sections()
        tables = self._source.tables(*self.patterns()) if batch.tables else ()
        if batch.tables and not tables and not batch.entries:
            raise UsageError(
                f"--exclude: {', '.join(batch.exclude)} leaves out every table that --tables "
                f"{', '.join(batch.tables)} matches"
            )
        return tables

    def _match_sections(self) -> Sequence[TableRef]:
        """Return the tables that sections match, as far as `tables` and `exclude` allow.

        Raises:
            UsageError: a section matches nothing.
        """
        batch = self._batch
        everything = self._source.tables(("*",), ())
        all_names = {
            text for table in everything for text in (f"{table.schema}.{table.name}", str(table))
        }
        # A view, or a part of a table, is found only by its name.
        exact = [
            name
            for section in batch.sections
            if section.is_table
            for name in self.searched(section.pattern)
            if name not in all_names
        ]
        sections = SectionMatcher(batch.sections, self.searched)
        tables: list[TableRef] = []
        hit: set[str] = set()
        for table in (*everything, *(self._source.tables(exact, ()) if exact else ())):
            if matching := sections.of(table):
                tables.append(table)
                hit.update(section.pattern for section in matching)
        for section in batch.sections:
            if not section.is_query and section.pattern not in hit:
                raise self._no_match(section.place, section.pattern)
        self.of_sections = tables
        if not batch.tables and not batch.exclude:
            return tables
        include, exclude = self.patterns()
        remaining = set(self._source.tables(include or ("*", *exact), exclude))
        return [table for table in tables if table in remaining]

    def _no_match(self, place: str, pattern: str) -> UsageError:
        where = ""
        if "." not in pattern:
            path = ", ".join(self._source.schemas()) or "empty"
            where = f", whose search path is {path}"
        near = did_you_mean(pattern, map(str, self._source.tables(("*",), ())))
        return UsageError(f"{place} matches no table of the source{where}{near}")

    def searched(self, pattern: str) -> tuple[str, ...]:
        """Return a pattern, with a schema."""
        if pattern not in self._with_schema:
            self._with_schema[pattern] = with_searched((pattern,), self._source)
        return self._with_schema[pattern]

    def patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what to copy and what to leave out, each with a schema."""
        batch = self._batch
        return with_searched(batch.tables, self._source), with_any_schema(batch.exclude)
