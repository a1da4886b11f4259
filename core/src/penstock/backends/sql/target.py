"""A target's catalog, as far as it is SQL: its rows compared, its conditions checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from penstock.backends.api.facts import Checksum
from penstock.backends.sql.checksums import (
    as_loaded,
    canonical_texts,
    read_checksum,
    read_digests,
)
from penstock.backends.sql.conditions import condition
from penstock.backends.sql.session import Session
from penstock.model.extents import Extent
from penstock.model.records import CommitRecord
from penstock.model.tables import ColumnPair, TableRef


class SqlTarget(ABC):
    """The part of a `TargetCatalog` that is SQL. Rows do not tell who has loaded them."""

    replaces_by_condition = True

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Session]:
        """A session that changes nothing."""

    def _check(
        self, session: Session, rows: str, table: TableRef, where: str | None, extent: Extent
    ) -> None:
        """
        Parameters:
            rows: an item of FROM with the table's columns.

        Raises:
            PlanningError: the condition cannot be evaluated on them.
        """
        session.check(
            f"SELECT 1 FROM {rows} WHERE {condition(session.dialect, where, extent)}",
            f"--mode replace: the partitions' condition on {table}",
        )

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        with self._reading() as session:
            rows, chosen = session.table(table), condition(session.dialect, where, extent)
            texts = canonical_texts(session, rows, as_loaded(pairs))
            return read_checksum(session, rows, chosen, texts)

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        others: bool,
    ) -> Mapping[str, Checksum] | None:
        return None

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        other_than: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        assert not loaded_by
        assert not other_than
        with self._reading() as session:
            rows, chosen = session.table(table), condition(session.dialect, where, extent)
            texts = canonical_texts(session, rows, as_loaded(pairs))
            yield from read_digests(session, rows, chosen, texts, key, only)
