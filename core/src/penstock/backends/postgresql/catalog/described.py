"""Facts about many relations: each is read for all of them by one statement, and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from penstock.backends.postgresql.catalog.datatypes import Types
from penstock.backends.postgresql.catalog.relations import find_oid, missing, oids_of
from penstock.backends.postgresql.connection import Connection
from penstock.errors import PlanningError
from penstock.model.tables import Relation, TableRef

T = TypeVar("T")

# Relations that one statement asks about.
AT_ONCE = 300
# Errors that no single relation is to blame for: a lost connection, a transaction that is over, a
# lack of resources, a statement that somebody has cancelled.
_OF_ALL = ("08", "25", "53", "57", "58")


class Described:
    """What a source's catalog says of a set of relations, as of when it was first asked for.

    Where the server refuses to answer for all, it is asked about halves of them, so that the error
    of one is raised where that one is asked for, and spoils no other.
    """

    def __init__(
        self,
        connection: Connection,
        relations: Iterable[Relation],
        known: Mapping[TableRef, int] = MappingProxyType({}),
    ) -> None:
        self.connection = connection
        found = dict.fromkeys(relations)
        self.is_empty = not found
        tables = [each for each in found if isinstance(each, TableRef)]
        self.tables: Sequence[TableRef] = tables
        self._are_many = len(tables) > 1
        self._together: dict[TableRef, Sequence[TableRef]] = {}
        for first in range(0, len(tables), AT_ONCE):
            piece = tables[first : first + AT_ONCE]
            self._together |= dict.fromkeys(piece, piece)
        self.types = Types(connection)
        """Those of columns stay what they are, whatever is forgotten."""
        self.forget(known)

    def forget(self, known: Mapping[TableRef, int] = MappingProxyType({})) -> None:
        """Ask anew for whatever is wanted from now on.

        Parameters:
            known: object ids that have been asked for just now.
        """
        self._oids: dict[TableRef, int] = {
            ref: known[ref] for ref in self._together if ref in known
        }
        self._facts: dict[Hashable, dict[int, Any]] = {}
        self._made: dict[Hashable, Any] = {}
        self.forget_savepoint()

    def first(self) -> TableRef | None:
        """One of the tables that are there."""
        return next((ref for ref in self.tables if self.find(ref) is not None), None)

    def forget_savepoint(self) -> None:
        """The transaction has begun anew, or has taken locks that it must not lose."""
        self._has_savepoint = False

    def find(self, ref: TableRef) -> int | None:
        """A relation's object id; None where there is none of that name.

        Raises:
            psycopg.Error: this user may not look for it.
        """
        if ref not in self._oids:
            unknown = [each for each in self._together.get(ref, ()) if each not in self._oids]
            self._oids |= self._of_many(lambda refs: oids_of(self.connection, refs), unknown)
        if ref not in self._oids and (oid := find_oid(self.connection, ref)) is not None:
            self._oids[ref] = oid
        return self._oids.get(ref)

    def oid(self, ref: TableRef) -> int:
        """
        Raises:
            PlanningError: no such relation.
        """
        found = self.find(ref)
        if found is None:
            raise missing(self.connection, ref, "source")
        return found

    def get(
        self, kind: Hashable, ref: TableRef, read: Callable[[Sequence[int]], Mapping[int, T]]
    ) -> T:
        """A fact about a relation.

        Parameters:
            kind: of fact.
            read: reads it of some relations, by their object ids; those that are gone are left out.

        Raises:
            psycopg.Error: what the server says of this one.
            PlanningError: no such relation.
        """
        known = self._facts.setdefault(kind, {})
        oid = self.oid(ref)
        if oid not in known:
            others = (self._oids.get(each) for each in self._together.get(ref, ()))
            known |= self._of_many(read, [o for o in others if o is not None and o not in known])
        if oid not in known:
            known |= self._ask(read, [oid])
        if oid not in known:
            del self._oids[ref]
            raise PlanningError(
                f"source: {ref} was dropped, or made anew, while the copy was planned; try again "
                "when no tables are being changed"
            )
        found: T = known[oid]
        return found

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Questions about a single relation."""
        if what not in self._made:
            self._made[what] = make()
        found: T = self._made[what]
        return found

    def _of_many(
        self, read: Callable[[Sequence[Any]], Mapping[Any, Any]], asked: Sequence[Any]
    ) -> Mapping[Any, Any]:
        """About those that the server answers for; one alone is asked for where it is wanted."""
        if len(asked) < 2:
            return {}
        try:
            return self._ask(read, asked)
        except psycopg.Error as error:
            if self.connection.closed or (error.sqlstate or "08")[:2] in _OF_ALL:
                raise
        half = len(asked) // 2
        return {**self._of_many(read, asked[:half]), **self._of_many(read, asked[half:])}

    def _ask(
        self, read: Callable[[Sequence[Any]], Mapping[Any, Any]], asked: Sequence[Any]
    ) -> Mapping[Any, Any]:
        """A question that the server refuses does not end the transaction for the other tables."""
        alone = self.connection.is_asking or not self._are_many
        if alone or not self._is_in(TransactionStatus.INTRANS):
            return read(asked)
        if not self._has_savepoint:
            self.connection.execute("SAVEPOINT described")
            self._has_savepoint = True
        try:
            return read(asked)
        except psycopg.Error:
            if self._is_in(TransactionStatus.INERROR):
                self.connection.execute("ROLLBACK TO SAVEPOINT described")
            raise

    def _is_in(self, status: TransactionStatus) -> bool:
        return self.connection.info.transaction_status == status
