"""What a database offers to be a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.backends.api.facts import Checksum, KeyStatistics, RankedBound, TableStatistics
    from penstock.model.extents import Bound, Extent, Key
    from penstock.model.nights import Horizon, SourceVersions
    from penstock.model.snapshots import Snapshot, SourceState
    from penstock.model.table_model import TableDefinition
    from penstock.model.tables import (
        Column,
        ColumnPair,
        NotCopied,
        Relation,
        SequencePosition,
        TableRef,
    )


class HeldSnapshot(Protocol):
    """A snapshot and the connection that keeps it alive.

    While it is held, the table's rows must stay where they are (no rewrite of its storage).
    """

    @property
    def snapshot(self) -> Snapshot: ...

    def alive(self) -> bool:
        """Whether it is still held. Costs next to nothing; may be called every second."""
        ...

    def close(self) -> None:
        """Let go of it. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session whose statement waits for a lock that a snapshot holds."""

    id: str
    """Tells it from others."""
    description: str
    """Who it is, the kind of its statement and since when it waits; no values."""
    seconds: float
    """How long it has waited; 0 where that cannot be seen."""


@runtime_checkable
class LockingSnapshot(HeldSnapshot, Protocol):
    """A snapshot that holds locks for which others wait.

    Whoever needs such a lock next waits behind them, even to read: so would Penstock itself.
    """

    def waiting(self) -> Sequence[Waiting]:
        """The sessions that wait for it, as far as is known. May be called every second, and never
        waits for the source."""
        ...

    def catalog(self, look: Callable[[Sequence[Waiting]], None]) -> SourceCatalog:
        """A catalog that reads in the session which holds the snapshot, and so waits for nobody. It
        sees what the snapshot sees. To close it does not let go of the snapshot.

        Parameters:
            look: is called now and then, on another thread, with the sessions that wait; what it
                raises ends the statement under way, and the snapshot.
        """
        ...


class SnapshotSession(Protocol):
    """A session that is to hold a snapshot."""

    def hold(self, relations: Sequence[Relation]) -> HeldSnapshot:
        """Take the snapshot, see `Backend.hold_snapshot`; once."""
        ...

    def close(self) -> None:
        """Close it, if it holds nothing. May be called twice."""
        ...


@runtime_checkable
class WithSnapshotSession(Protocol):
    """A backend that can open the session of a snapshot before it is known what that is of."""

    def snapshot_session(self, url: str) -> SnapshotSession:
        """
        Raises:
            PenstockError: as `Backend.source`.
        """
        ...


@runtime_checkable
class LockingSource(Protocol):
    """A source whose readers lock a table."""

    def adopt_locked(self, snapshot: Snapshot, relations: Sequence[Relation]) -> None:
        """Adopt a snapshot, see `SourceCatalog.adopt`, and lock relations as reading does, while
        the transaction lasts, before anybody waits in between.

        Raises:
            Blocked: somebody's statement waits for the snapshot. The transaction is over.
        """
        ...


class Schemas(Protocol):
    """How a database finds a table that is named without a schema."""

    def schemas(self) -> tuple[str, ...]:
        """Its search path: the schemas that it looks into, one after the other."""
        ...

    def find(self, name: str) -> TableRef | None:
        """The table, or the like, that the name alone stands for; None: there is none."""
        ...


@runtime_checkable
class VersionedSource(Protocol):
    """A source that tells which transactions have written its rows."""

    furthest: int
    """Transactions that ids can be compared over."""

    def versions(self, relation: TableRef) -> SourceVersions:
        """
        Raises:
            PlanningError: its rows have no versions that could be compared.
        """
        ...

    def horizon(self) -> Horizon:
        """The horizon of the snapshot that this session reads with."""
        ...

    def check_fixed(self, where: str) -> None:
        """
        Raises:
            PlanningError: rows may come to fulfil a condition without a new version.
        """
        ...

    def has_reached(self, horizon: Horizon) -> bool:
        """Whether the transactions that a snapshot has seen are known here, at this moment."""
        ...

    def changed_since(self, since: Horizon, new: Sequence[int]) -> str:
        """A condition for the rows that a snapshot with this horizon may not have seen.

        Parameters:
            new: ids of tables all of whose rows are read.
        """
        ...

    def or_in(self, condition: str, tables: Sequence[int]) -> str:
        """A condition that holds for all rows of some tables, too, by their ids."""
        ...


class SourceCatalog(Schemas, Protocol):
    """Facts about a source, for planning and verification."""

    settle_seconds: float
    """How long a write may take to show in `SourceState.writes`."""

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        """The columns in their order.

        Raises:
            PlanningError: no such table, or it cannot be read; or the query is none: it has
                parameters, is several statements, or changes something.
        """
        ...

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The same columns, each with the trait `arrow`. Asked for where source and target are
        unlike systems."""
        ...

    def castable(self, relation: Relation, wanted: Sequence[tuple[str, str]]) -> list[bool]:
        """Of pairs of a column and a type: whether the source can assign the one to the other."""
        ...

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        """How the table is made, for a target that is to be like it; of a query, its columns.

        Parameters:
            partitioning: with the tables that it consists of.

        Raises:
            PlanningError: it is no table.
        """
        ...

    def heirs(self, relation: Relation) -> tuple[TableRef, ...]:
        """The tables that inherit from it, whose rows are read with its own unless it is read as
        `only`. Parts of a partitioned table are none of them."""
        ...

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        """How far the sequences have come that give columns their values, by column, as of now.

        Those that may not be read are left out.
        """
        ...

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        """Tables whose ``schema.name`` one of the patterns matches and none of the others does.

        Patterns are those of `fnmatch`. Tables that are a part of a table are left out.
        """
        ...

    def others(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[NotCopied, ...]:
        """What is no table and what the same patterns match: views, for instance."""
        ...

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        """Scans nothing.

        Raises:
            PlanningError: the condition cannot be evaluated.
        """
        ...

    def adopt(self, snapshot: Snapshot) -> None:
        """Read all that follows as of this snapshot. Again with the same one: nothing.

        Raises:
            SnapshotLost: nobody holds it any more.
        """
        ...

    def state(self, relation: Relation) -> SourceState: ...

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        """Whether rows of these blocks, or in them now, may be of others since then.

        Parameters:
            extents: by blocks; each with the rows that it had, None where nobody knows.
        """
        ...

    def key_type(self, relation: Relation, key: Key) -> str:
        """The key's type, tagged as in `Bound`.

        Raises:
            PlanningError: no such column, or the expression cannot be evaluated.
        """
        ...

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        """Whether the key may be NULL, and whether an index finds its values."""
        ...

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        """Bounds from statistics, or from a small sample where there are none.

        Bounds that the condition rules out may be left out.

        Raises:
            PlanningError: the key's type has no order that ranges could use.
        """
        ...

    def ntile(self, relation: Relation, key: Key, where: str | None, count: int) -> KeyStatistics:
        """Bounds of ranges that hold equally many rows: reads the key of every row.

        Raises:
            PlanningError: the key's type has no order that ranges could use.
        """
        ...

    def own_order(self, relation: Relation, key: Key) -> str:
        """The collation by which the source itself compares this key, for `Key.collation`; empty
        where conditions need not name it."""
        ...

    def shared_order(self, relation: Relation, key: Key) -> str:
        """The collation under which any server compares this key alike; empty if it has none."""
        ...

    def misplaced(self, relation: Relation, key: Key, bounds: Sequence[Bound]) -> int | None:
        """The place of the first bound that is not greater than the one before it, as conditions
        compare values of this key; None where each is. Reads no rows."""
        ...

    def windows(
        self, relation: Relation, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        """Starts of windows of one interval that cover the key's known extent, and their origin.

        Raises:
            PlanningError: the key is no date or timestamp, or the windows are more than `limit`.
        """
        ...

    def distinct(
        self, relation: Relation, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        """Distinct non-NULL values of the key, in order.

        Parameters:
            query: lists the values instead of a scan.

        Raises:
            PlanningError: the values are more than `limit`, or the query fails.
        """
        ...

    def ranked(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        """Values that somebody wrote, as the key's own.

        Parameters:
            ordered: they are bounds of ranges.

        Raises:
            PlanningError: a text is no value of the key's type, or the type has no order that
                ranges could use.
        """
        ...

    def checksum(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
    ) -> Checksum:
        """Of the rows as the target has them: after the casts of the pairs.

        Parameters:
            pairs: empty to count only.
        """
        ...

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        """The key, as a text, and the digest of every row, sorted by both as Python sorts.

        Parameters:
            key: names of the target's columns.
            only: these keys, instead of all.
        """
        ...

    def close(self) -> None:
        """Disconnect, and cancel what runs. May be called twice."""
        ...


@runtime_checkable
class CutsFiner(Protocol):
    """A source whose statistics are coarse: asked for more, it finds more bounds."""

    def finer_statistics(
        self, relation: Relation, where: str | None, known: KeyStatistics, count: int
    ) -> KeyStatistics:
        """More bounds, where what is known of a key has too few for as many partitions.

        Returns: what is known, where there are no more without reading the key of every row.
        """
        ...
