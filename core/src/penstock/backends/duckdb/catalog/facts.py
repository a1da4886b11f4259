"""Facts about rows that DuckDB can read, wherever they are stored: a table, a query, files.

Subclasses add what depends on the storage: statistics, state, snapshots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.backends.api.facts import TableStatistics
from penstock.backends.duckdb.catalog.values import with_arrow
from penstock.backends.duckdb.dialect import condition
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.source import SqlSource
from penstock.model.extents import Whole
from penstock.model.tables import Column, Relation

# Bytes per value of fixed-width types; others, such as texts, are estimated.
_WIDTHS = {
    "boolean": 1, "tinyint": 1, "utinyint": 1, "smallint": 2, "usmallint": 2, "integer": 4,
    "uinteger": 4, "float": 4, "date": 4,
}  # fmt: skip
_WIDTH = 8
_TEXT_WIDTH = 16


class DuckCatalog(SqlSource):
    """A source whose rows DuckDB can read."""

    _session: DuckSession

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        return with_arrow(self._session, self._rows(relation), columns)

    def computed_in_arrow(self, rows: str, columns: Sequence[Column]) -> tuple[Column, ...]:
        return with_arrow(self._session, rows, columns)

    def estimated(self, relation: Relation, where: str | None) -> int | None:
        """Return how many rows DuckDB's planner expects; None if unknown."""
        for operator in self._operators(relation, where):
            cardinality = operator.get("extra_info", {}).get("Estimated Cardinality")
            if cardinality is not None:
                return int(str(cardinality).lstrip("~"))
        return None

    def leaves(self, relation: Relation) -> list[str]:
        """Return the names of the operators that produce the rows."""
        operators = self._operators(relation, None)
        return [str(each["name"]).strip() for each in operators if not each.get("children")]

    def _operators(self, relation: Relation, where: str | None) -> Iterator[Mapping[str, Any]]:
        query = (
            f"EXPLAIN (FORMAT json) SELECT * FROM {self._rows(relation)} "
            f"WHERE {condition(where, Whole())}"
        )
        ((_, plan), *_) = self._session.fetch(query, str(relation))
        return _operators(json.loads(plan))

    def row_width(self, relation: Relation) -> int:
        """Return the approximate bytes per row."""
        return sum(
            _WIDTHS.get(type_.id, _TEXT_WIDTH if _is_long(type_) else _WIDTH)
            for type_ in self.column_types(relation).values()
        )

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        """Return the planner's estimates for a query or view."""
        self.check_where(relation, where)
        rows = self.estimated(relation, None)
        chosen = self.estimated(relation, where) if where is not None else rows
        selected = min(1.0, chosen / rows) if rows and chosen is not None else 1.0
        return TableStatistics(
            rows=rows,
            bytes=(rows or 0) * self.row_width(relation),
            selected=selected,
            blocks=None,
            storage=f"a query of about {rows:,} rows" if rows is not None else "a query",
            default_key=None,
            sampled=False,
        )


def _operators(plan: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield each operator before its inputs."""
    for operator in plan:
        yield operator
        yield from _operators(operator.get("children", ()))


def _is_long(type_: Type) -> bool:
    return type_.id in ("varchar", "blob", "list", "array", "struct", "map", "union", "decimal")
