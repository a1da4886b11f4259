"""Names that the tables of a batch, their indexes and sequences will have.

They share one namespace in a schema, and the catalog does not show them yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model.tables import TableRef


class ClaimedNames:
    """Names of relations to be created, each with the table it belongs to."""

    def __init__(self) -> None:
        self._owners: dict[TableRef, TableRef] = {}

    def begin(self, table: TableRef, siblings: Iterable[TableRef]) -> None:
        """Forget the names of a table that is planned now, and claim those of its siblings.

        Args:
            table: the table.
            siblings: the tables of its batch.
        """
        self._owners = {name: of for name, of in self._owners.items() if of != table}
        self._owners |= {TableRef(each.schema, each.name): each for each in siblings}
        self._owners[TableRef(table.schema, table.name)] = table

    def holds(self, schema: str, name: str, table: TableRef) -> bool:
        """Whether another table than this one, which may be planned again, claims a name."""
        return self._owners.get(TableRef(schema, name), table) != table

    def add(self, schema: str, name: str, table: TableRef) -> None:
        self._owners[TableRef(schema, name)] = table
