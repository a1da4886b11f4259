"""The protocols of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.backends.api.facts import (
        Checksum,
        HashStatistics,
        KeyStatistics,
        RankedBound,
        TableStatistics,
    )
    from penstock.errors import PenstockError
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
    """A snapshot, and the connection that keeps it alive.

    While it is held, the table's rows must stay where they are: its storage is not rewritten.
    """

    @property
    def snapshot(self) -> Snapshot: ...

    def is_alive(self) -> bool:
        """Whether it is still held.

        Costs next to nothing; may be called every second.
        """
        ...

    def close(self) -> None:
        """Release it. May be called twice."""
        ...


@runtime_checkable
class ExplainedLoss(HeldSnapshot, Protocol):
    """A snapshot whose source says why it ended the session that held it."""

    def why_lost(self) -> str:
        """Return the server's reason; empty while it is held, and if none is known."""
        ...


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """A session whose statement waits for a lock held by a snapshot."""

    id: str
    """Distinguishes it from others."""
    description: str
    """The session, the kind of its statement, and since when it waits; no values."""
    seconds: float
    """How long it has waited; 0 if unknown."""


@runtime_checkable
class LockingSnapshot(HeldSnapshot, Protocol):
    """A snapshot with locks that others may wait for.

    Later requests for such a lock, even for reading, queue behind the waiting sessions; this
    includes Penstock's own.
    """

    def waiting_sessions(self) -> Sequence[WaitingSession]:
        """Return the known sessions that wait for it.

        May be called every second, and never waits for the source.
        """
        ...

    def catalog(self, check_waiting: Callable[[Sequence[WaitingSession]], None]) -> SourceCatalog:
        """Return a catalog in the session that holds the snapshot.

        It waits for no lock, and sees what the snapshot sees. Closing it does not release the
        snapshot.

        Args:
            check_waiting: called from time to time, in another thread, with the waiting sessions;
                an exception from it ends the running statement and the snapshot.
        """
        ...


class SnapshotWindow(LockingSnapshot, Protocol):
    """A snapshot's locks on some of its tables."""

    @property
    def refused(self) -> Mapping[Relation, PenstockError]:
        """The relations that cannot be read with the snapshot, each with the reason."""
        ...


@runtime_checkable
class WindowedSnapshot(HeldSnapshot, Protocol):
    """A snapshot that may be of more tables than its server has room to lock at a time."""

    def window(self, relations: Sequence[Relation]) -> SnapshotWindow | None:
        """Lock some of the relations; return None if all of them are locked already.

        Closing the window ends its locks, not the snapshot.

        Args:
            relations: the relations to be read next.

        Raises:
            SnapshotLost: the snapshot is no longer held.
            PlanningError: there is not even room for these locks.
        """
        ...


class SnapshotSession(Protocol):
    """A session that will hold a snapshot."""

    def hold(self, relations: Sequence[Relation]) -> HeldSnapshot:
        """Take the snapshot, once; see `Backend.hold_snapshot`."""
        ...

    def close(self) -> None:
        """Close the session, if it holds nothing. May be called twice."""
        ...


@runtime_checkable
class JoinsSnapshots(Protocol):
    """A backend whose snapshots can be held by several sessions, each with a token of its own."""

    def join_snapshot(
        self, url: str, snapshot: Snapshot, relations: Sequence[Relation]
    ) -> HeldSnapshot:
        """Hold a snapshot that another session holds, until this one is closed, too.

        Args:
            url: the URL of the source.
            snapshot: the snapshot, by the token of the other session.
            relations: the relations that are read with it.

        Raises:
            SnapshotLost: the other session has ended.
        """
        ...


@runtime_checkable
class WithSnapshotSession(Protocol):
    """A backend that can open a snapshot's session before the relations are known."""

    def snapshot_session(self, url: str) -> SnapshotSession:
        """Open a session for a snapshot.

        Raises:
            PenstockError: as for `Backend.source`.
        """
        ...


@runtime_checkable
class LockingSource(Protocol):
    """A source whose readers lock a table."""

    def adopt_locked(self, snapshot: Snapshot, relations: Sequence[Relation]) -> None:
        """Adopt a snapshot, see `SourceCatalog.adopt`, and lock relations as a reader does.

        The locks last as long as the transaction, and leave no time for others to queue in between.

        Raises:
            Blocked: another session's statement waits for the snapshot. The transaction is over.
        """
        ...


class Schemas(Protocol):
    """How a database resolves a table name without a schema."""

    def schemas(self) -> tuple[str, ...]:
        """Return its search path: the schemas that it searches, in order."""
        ...

    def find(self, name: str) -> TableRef | None:
        """Return the table or view with a name without a schema; None without one."""
        ...


@runtime_checkable
class VersionedSource(Protocol):
    """A source that records which transactions wrote its rows."""

    max_transaction_distance: int
    """The number of transactions over which ids can be compared."""

    def versions(self, relation: TableRef) -> SourceVersions:
        """Return the versions of a relation's rows.

        Raises:
            PlanningError: the rows have no versions that could be compared.
        """
        ...

    def horizon(self) -> Horizon:
        """Return the horizon of the snapshot that this session reads with."""
        ...

    def check_fixed(self, where: str) -> None:
        """Check that a condition depends on nothing but the row.

        Raises:
            PlanningError: the condition may become true for a row that has no new version.
        """
        ...

    def has_reached(self, horizon: Horizon) -> bool:
        """Whether the transactions that a snapshot has seen are already visible here."""
        ...

    def changed_rows_condition(self, since: Horizon, new_tables: Sequence[int]) -> str:
        """Return a condition for the rows that a snapshot with this horizon may not have seen.

        Args:
            since: the horizon of the last night.
            new_tables: the ids of tables of which all rows are read.
        """
        ...

    def or_in_tables(self, condition: str, tables: Sequence[int]) -> str:
        """Return a condition that is also true for all rows of some tables, given by their ids."""
        ...


class SourceCatalog(Schemas, Protocol):
    """Facts about a source, for planning and verification."""

    settle_seconds: float
    """How long a write may take to appear in `SourceState.writes`."""

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        """Return the columns in order.

        Raises:
            PlanningError: the table does not exist or cannot be read; or the query is invalid: it
                has parameters, is several statements, or writes.
        """
        ...

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the same columns, each with the trait `arrow`.

        Called if source and target are unlike systems.
        """
        ...

    def castable(self, relation: Relation, column_types: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether the source can assign each of these columns to the type beside its name."""
        ...

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        """Return the definition of a table to be copied; for a query, its columns.

        Args:
            relation: the source's table or query.
            partitioning: include the tables that it consists of.

        Raises:
            PlanningError: the relation is not a table.
        """
        ...

    def heirs(self, relation: Relation) -> tuple[TableRef, ...]:
        """Return the tables that inherit from a table.

        Their rows are read with its own unless it is read as `only`. Parts of a partitioned table
        do not count.
        """
        ...

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        """Return the current positions of the sequences that fill columns, by column.

        Unreadable sequences are left out.
        """
        ...

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        """Return tables whose ``schema.name`` matches an included pattern and no excluded one.

        Patterns are those of `fnmatch`. Parts of partitioned tables are left out.
        """
        ...

    def other_objects(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[NotCopied, ...]:
        """Return objects other than tables that match the same patterns, such as views."""
        ...

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        """Return statistics without a scan.

        Raises:
            PlanningError: the condition cannot be evaluated.
        """
        ...

    def adopt(self, snapshot: Snapshot) -> None:
        """Read everything that follows as of this snapshot. Repeating it has no effect.

        Raises:
            SnapshotLost: the snapshot is no longer held.
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
        """Whether rows of these blocks, or in them now, may have been written since.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            extents: block ranges; each with the rows that it had, None if unknown.
            since: the state of the source when the run was planned.
        """
        ...

    def key_type(self, relation: Relation, key: Key) -> str:
        """Return the key's type, tagged as in `Bound`.

        Raises:
            PlanningError: the column does not exist, or the expression cannot be evaluated.
        """
        ...

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        """Return whether the key may be NULL, and whether an index finds its values."""
        ...

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        """Return bounds from statistics, or else from a small sample.

        Bounds that the condition excludes may be left out.

        Args:
            relation: the source's table or query.
            key: the key.
            where: the condition of `--where`; None for all rows.

        Raises:
            PlanningError: the key's type has no usable order for ranges.
        """
        ...

    def ntile(self, relation: Relation, key: Key, where: str | None, count: int) -> KeyStatistics:
        """Return bounds of ranges with equal numbers of rows; reads the key of every row.

        Args:
            relation: the source's table or query.
            key: the key.
            where: the condition of `--where`; None for all rows.
            count: the number of ranges.

        Raises:
            PlanningError: the key's type has no usable order for ranges.
        """
        ...

    def native_order(self, relation: Relation, key: Key) -> str:
        """Return the source's collation for this key, for `Key.collation`; empty if not needed."""
        ...

    def shared_order(self, relation: Relation, key: Key) -> str:
        """Return a collation that sorts this key alike on every server; empty if it has none."""
        ...

    def misplaced_bound(self, relation: Relation, key: Key, bounds: Sequence[Bound]) -> int | None:
        """Return the index of the first bound that is not greater than the one before.

        Bounds are compared as conditions compare this key's values. None if they are in order.
        Reads no rows.

        Args:
            relation: the source's table or query.
            key: the key.
            bounds: the bounds, in the order to check.
        """
        ...

    def windows(
        self, relation: Relation, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        """Return the starts of windows that cover the key's known extent, and their origin.

        Args:
            relation: the source's table or query.
            key: the key.
            interval: the width of a window, such as `1 day`.
            where: the condition of `--where`; None for all rows.
            limit: the most windows; more are an error.

        Raises:
            PlanningError: the key is not a date or timestamp, or there are more windows than
                `limit`.
        """
        ...

    def distinct_values(
        self, relation: Relation, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        """Return the distinct non-NULL values of the key, in order.

        Args:
            relation: the source's table or query.
            key: the key.
            where: the condition of `--where`; None for all rows.
            query: lists the values, instead of a scan.
            limit: the most values to return; more are an error.

        Raises:
            PlanningError: there are more values than `limit`, or the query fails.
        """
        ...

    def rank_values(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        """Return values that the user wrote, as the key's own.

        Args:
            relation: the source's table or query.
            key: the key.
            texts: the values, as texts.
            ordered: whether they are bounds of ranges.

        Raises:
            PlanningError: a text is not a value of the key's type, or the type has no usable order
                for ranges.
        """
        ...

    def checksum(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
    ) -> Checksum:
        """Return the checksum of rows in their target form, after the casts of the pairs.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            extent: the rows of one partition, or all.
            pairs: if empty, rows are only counted.
        """
        ...

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        """Yield the key, as text, and the digest of every row, sorted by both in Python's order.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            extent: the rows of one partition, or all.
            pairs: the copied columns.
            key: the names of the key's columns in the target.
            only_keys: read these keys instead of all.
        """
        ...

    def close(self) -> None:
        """Disconnect, and cancel what is running. May be called twice."""
        ...


@runtime_checkable
class WithHashStatistics(Protocol):
    """A source that knows how often common values of a key occur, and how they hash."""

    def hash_statistics(self, relation: Relation, key: Key) -> HashStatistics:
        """Return what is known of the key's distribution over hash buckets.

        Reads no rows, and takes no more round trips than `SourceCatalog.key_type`.

        Args:
            relation: the source's table or query.
            key: the key.

        Raises:
            PlanningError: the column does not exist, or the expression cannot be evaluated.
        """
        ...


@runtime_checkable
class WithFinerStatistics(Protocol):
    """A source whose statistics are coarse, but that can find more bounds on request."""

    def finer_statistics(
        self, relation: Relation, where: str | None, statistics: KeyStatistics, count: int
    ) -> KeyStatistics:
        """Return more bounds, if those known for a key are too few for the number of partitions.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            statistics: the bounds that are known.
            count: the number of partitions to aim for.

        Returns:
            the known bounds, if finding more would read the key of every row.
        """
        ...
