"""Facts about rows of a Python process, of which planning reads the types and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from penstock.backends.api.facts import Checksum, TableStatistics
from penstock.backends.arrow.location import socket_of
from penstock.backends.arrow.scan import RowsScan
from penstock.backends.parquet.files.footers import plain_schema
from penstock.backends.parquet.source import ParquetSource
from penstock.backends.shared.served_rows import served_schema
from penstock.errors import PlanningError
from penstock.model.extents import Extent, Key
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import ColumnPair, Relation

_ONCE = "source: the rows of a Python process are read once, by the copy; they cannot be compared"


class ArrowSource(ParquetSource):
    """The catalog of rows of a Python process."""

    def __init__(self, url: str) -> None:
        self._listed = ()  # so that DuckDB, which plans conditions, finds no row to read
        self._schema = plain_schema(served_schema(socket_of(url)))
        self._scan = RowsScan(socket_of(url), self._schema)
        self._begin()

    def adopt(self, snapshot: Snapshot) -> None:
        pass

    def state(self, relation: Relation) -> SourceState:
        return SourceState("arrow", "", "", "")

    def identity(self, relation: Relation) -> Mapping[str, str]:
        return {}

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        return TableStatistics(None, 0, 1.0, None, "rows of a Python process", None, sampled=False)

    def sample(self, relation: Relation, key: Key) -> None:
        return None

    def checksum(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        raise PlanningError(_ONCE)

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        raise PlanningError(_ONCE)


class HeldRows:
    """The moment of the rows: they are as they are."""

    def __init__(self) -> None:
        self.snapshot = Snapshot("rows", datetime.now(UTC).isoformat())

    def is_alive(self) -> bool:
        """Return True: there is nothing that could end."""
        return True

    def close(self) -> None:
        pass
