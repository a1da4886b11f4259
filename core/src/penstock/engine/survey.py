"""`survey`: suggestions for copying each table of a source every night, with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from penstock.backends.api.capabilities import SourceCapabilities
from penstock.backends.api.optional.bulk_catalogs import describing, prefetch
from penstock.backends.api.source import SourceCatalog, VersionedSource
from penstock.engine.batch_tables import files_are_one_table
from penstock.engine.connections import resolve
from penstock.engine.value_display import isolate_display
from penstock.errors import PlanningError, UsageError, did_you_mean
from penstock.model.tables import TableRef
from penstock.planning.asking.search_path import with_any_schema, with_searched
from penstock.planning.suggestions import Suggestion, TableSummary, suggestion, view_suggestion
from penstock.spec.night_kinds import XMIN


@dataclass(frozen=True, slots=True)
class Survey:
    """A survey of a source.

    Args:
        tables: the tables of the source.
        views: what else the patterns match, and can be copied by name.
    """

    tables: tuple[Suggestion, ...]
    views: tuple[Suggestion, ...]


@isolate_display
def survey(
    source: str,
    target: str | None = None,
    *,
    tables: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
) -> Survey:
    """Survey the tables of a source. Reads only its catalog, and does not connect to the target.

    Args:
        source: the source's connection.
        target: the target's connection, if known: its capabilities matter, too.
        tables: patterns of tables to survey, as in a `BatchSpec`.
        exclude: patterns of tables to leave out, as in a `BatchSpec`.

    Raises:
        UsageError: an end cannot be resolved, or consists of files, or a pattern matches nothing.
        TransientError: the source cannot be reached.
    """
    url, backend, _, _ = resolve(source, "--source")
    aim = None if target is None else resolve(target, "--target")[1]
    for flag, end in (("--source", backend), ("--target", aim)):
        if end is not None and end.located:
            raise files_are_one_table(flag)
    able = None if aim is None else aim.target_capabilities
    with closing(backend.source(url)) as catalog:
        with describing(catalog, ()):
            prefetch(catalog)
            include, leave = with_searched(tables, catalog), with_any_schema(exclude)
            matched = catalog.tables(include, leave)
            unreadable = [
                each
                for each in catalog.other_objects(include, leave)
                if each.kind.endswith("views")
            ]
        if not matched and not unreadable:
            message = f"--tables: {', '.join(tables)} matches no table of the source"
            near = did_you_mean(tables[0], map(str, catalog.tables(("*",), ())))
            raise UsageError(message + near)
        names = {str(table) for table in matched}
        with describing(catalog, matched):
            prefetch(catalog, (False,))
            source_able = backend.source_capabilities
            summaries = [_summary(catalog, table, source_able) for table in matched]
    return Survey(
        tuple(suggestion(each, source_able, able) for each in summaries),
        tuple(view_suggestion(each) for each in unreadable if each.name not in names),
    )


def _summary(catalog: SourceCatalog, table: TableRef, able: SourceCapabilities) -> TableSummary:
    try:
        model = catalog.definition(table, partitioning=False).model
        rows = catalog.statistics(table, None).rows
        unversioned = f"{able.system} has no row versions"
        if XMIN in able.nights and isinstance(catalog, VersionedSource):
            unversioned = ""
            try:
                catalog.versions(table)
            except PlanningError as error:
                unversioned = error.message
    except PlanningError as error:
        return TableSummary(table, error=error.message)
    return TableSummary(table, model, rows, unversioned)
