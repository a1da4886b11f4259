"""Names that the tables of a batch, their indexes and sequences will have.

They share one namespace in a schema, and the catalog does not show them yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.tables import TableRef


class ClaimedNames:
    """Names of relations to be created, each with the table it belongs to."""

    def __init__(self) -> None:
        self._siblings: Mapping[TableRef, TableRef] = {}
        self._tables: set[TableRef] = set()
        self._taken: set[TableRef] = set()
        self._given: dict[TableRef, list[TableRef]] = {}
        """The names given by the caller to what belongs to a table, by table."""
        self._found: dict[TableRef, list[TableRef]] = {}
        """The names that `names_for` has found for the parts of a table, by table."""

    def begin(self, table: TableRef, siblings: Mapping[TableRef, TableRef]) -> None:
        """Forget the names of a table that is planned now, and claim those of its siblings.

        Args:
            table: the table.
            siblings: the targets of the tables of its batch.
        """
        if siblings is not self._siblings:
            self._siblings = siblings
            self._tables |= {TableRef(each.schema, each.name) for each in siblings.values()}
        self._tables.add(TableRef(table.schema, table.name))
        self._taken.difference_update(self._given.pop(table, ()))
        self.begin_parts(table)

    def begin_parts(self, table: TableRef) -> None:
        """Forget the names found for a table's parts: it may be planned in two ways in turn."""
        self._taken.difference_update(self._found.pop(table, ()))

    def holds(self, schema: str, name: str) -> bool:
        claimed = TableRef(schema, name)
        return claimed in self._taken or claimed in self._tables

    def add(self, schema: str, name: str, table: TableRef) -> None:
        """Claim a name that the caller has given to an index of a table."""
        self._claim(self._given, TableRef(schema, name), table)

    def add_part(self, schema: str, name: str, table: TableRef) -> None:
        """Claim a name that `names_for` has found."""
        self._claim(self._found, TableRef(schema, name), table)

    def _claim(
        self, claims: dict[TableRef, list[TableRef]], name: TableRef, table: TableRef
    ) -> None:
        self._taken.add(name)
        claims.setdefault(table, []).append(name)
