"""Facts about many relations, each read for all of them in one statement and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from penstock.backends.postgresql.catalog.datatypes import Types
from penstock.backends.postgresql.catalog.relations import find_oid, missing_table, oids_of
from penstock.backends.postgresql.connection import Connection
from penstock.backends.shared.bisection import halved
from penstock.errors import PlanningError
from penstock.model.tables import Relation, TableRef

T = TypeVar("T")

# Relations per statement.
AT_ONCE = 300
# Errors that no single relation causes: a lost connection, an aborted transaction, a lack of
# resources, a canceled statement.
_OF_ALL = ("08", "25", "53", "57", "58")


class RelationFacts:
    """The facts from a source's catalog about a set of relations, read when first needed.

    If the server refuses to answer for all relations, each half is asked separately. An error is
    then raised only where the relation that causes it is asked for.
    """

    def __init__(
        self,
        connection: Connection,
        relations: Iterable[Relation],
        oids: Mapping[TableRef, int] = MappingProxyType({}),
    ) -> None:
        self.connection = connection
        unique = dict.fromkeys(relations)
        self.is_empty = not unique
        tables = [each for each in unique if isinstance(each, TableRef)]
        self.tables: Sequence[TableRef] = tables
        self._are_many = len(tables) > 1
        self._together: dict[TableRef, Sequence[TableRef]] = {}
        for first in range(0, len(tables), AT_ONCE):
            piece = tables[first : first + AT_ONCE]
            self._together |= dict.fromkeys(piece, piece)
        self.types = Types(connection)
        """The types read so far; `forget` keeps them."""
        self.forget(oids)

    def forget(self, oids: Mapping[TableRef, int] = MappingProxyType({})) -> None:
        """Drop all facts, so that they are read again when needed.

        Args:
            oids: object ids just read, which are kept.
        """
        self._oids: dict[TableRef, int] = {ref: oids[ref] for ref in self._together if ref in oids}
        self._facts: dict[Hashable, dict[int, Any]] = {}
        self._results: dict[Hashable, Any] = {}
        self.forget_savepoint()

    def first(self) -> TableRef | None:
        """Return the first table that exists."""
        return next((ref for ref in self.tables if self.find(ref) is not None), None)

    def forget_savepoint(self) -> None:
        """Note that the savepoint is gone.

        The transaction is a new one, or has taken locks that it must not lose.
        """
        self._has_savepoint = False

    def find(self, ref: TableRef) -> int | None:
        """Return a relation's object id; None if no relation has the name.

        Raises:
            psycopg.Error: the user may not look it up.
        """
        if ref not in self._oids:
            unknown = [each for each in self._together.get(ref, ()) if each not in self._oids]
            self._oids |= self._read_many(lambda refs: oids_of(self.connection, refs), unknown)
        if ref not in self._oids and (oid := find_oid(self.connection, ref)) is not None:
            self._oids[ref] = oid
        return self._oids.get(ref)

    def oid(self, ref: TableRef) -> int:
        """Return a relation's object id.

        Raises:
            PlanningError: the relation does not exist.
        """
        oid = self.find(ref)
        if oid is None:
            raise missing_table(self.connection, ref, "source")
        return oid

    def get(
        self, kind: Hashable, ref: TableRef, read: Callable[[Sequence[int]], Mapping[int, T]]
    ) -> T:
        """Return a fact about a relation.

        Args:
            kind: the kind of fact, as a key.
            ref: the relation.
            read: reads the fact for some object ids, leaving out relations that no longer exist.

        Raises:
            psycopg.Error: the server's error for this relation.
            PlanningError: the relation does not exist.
        """
        facts = self._facts.setdefault(kind, {})
        oid = self.oid(ref)
        if oid not in facts:
            oids = (self._oids.get(each) for each in self._together.get(ref, ()))
            facts |= self._read_many(read, [o for o in oids if o is not None and o not in facts])
        if oid not in facts:
            facts |= self._ask(read, [oid])
        if oid not in facts:
            del self._oids[ref]
            raise PlanningError(
                f"source: {ref} was dropped or recreated while the copy was being planned; try "
                "again when no tables are being changed"
            )
        fact: T = facts[oid]
        return fact

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a call, which is made once."""
        if what not in self._results:
            self._results[what] = make()
        result: T = self._results[what]
        return result

    def _read_many(
        self, read: Callable[[Sequence[Any]], Mapping[Any, Any]], keys: Sequence[Any]
    ) -> Mapping[Any, Any]:
        """Read a fact about many relations.

        Those for which the server reports an error are left out, and asked for alone when needed.
        """

        def ask(some: Sequence[Any]) -> Mapping[Any, Any]:
            return self._ask(read, some) if len(some) > 1 else {}

        def is_of_one(error: psycopg.Error) -> bool:
            return not (self.connection.closed or (error.sqlstate or "08")[:2] in _OF_ALL)

        return halved(keys, ask, psycopg.Error, is_of_one)[0]

    def _ask(
        self, read: Callable[[Sequence[Any]], Mapping[Any, Any]], keys: Sequence[Any]
    ) -> Mapping[Any, Any]:
        """Ask a question whose failure does not end the transaction for other tables."""
        alone = self.connection.is_asking or not self._are_many
        if alone or not self._is_in(TransactionStatus.INTRANS):
            return read(keys)
        if not self._has_savepoint:
            self.connection.execute("SAVEPOINT described")
            self._has_savepoint = True
        try:
            return read(keys)
        except psycopg.Error:
            if self._is_in(TransactionStatus.INERROR):
                self.connection.execute("ROLLBACK TO SAVEPOINT described")
            raise

    def _is_in(self, status: TransactionStatus) -> bool:
        return self.connection.info.transaction_status == status
