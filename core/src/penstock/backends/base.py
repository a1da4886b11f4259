"""What a database has to offer to be a source or a target.

A backend is one object, found by URL scheme through the entry point group `penstock.backends`.
The engine speaks to a `SourceCatalog` and a `TargetCatalog`; a worker to a `Reader` and a
`Writer`. Nothing here names a database.

All methods raise `TransientError` or `PermanentError` (see `penstock.errors`), never a driver's
own exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock.errors import Diagnosis, PermanentError, PlanningError, UsageError
from penstock.model import (
    Bound,
    Column,
    ColumnPair,
    CommitRecord,
    Extent,
    Key,
    LoadPlan,
    NotCopied,
    Partition,
    PartitionPlan,
    Place,
    Relation,
    SequencePosition,
    Snapshot,
    SourceState,
    Step,
    TableDefinition,
    TableRef,
)
from penstock.spec import Patience, WorkerSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

ENTRY_POINTS = "penstock.backends"
ARROW = "arrow"
"""The stream format that unlike systems share: blocks are `pyarrow.RecordBatch`. Their columns are
those of the run's pairs, in their order, by the target's names; the first batch of a stream is
there even if it has no rows."""


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """What a source knows about a table without reading it."""

    rows: int | None
    """Estimated; None where nothing is known."""
    bytes: int
    """Real size of the rows' storage."""
    selected: float
    """Estimated fraction of the rows that the run's condition selects, 0 to 1."""
    blocks: int | None
    """Real size in blocks; None where the table cannot be cut by blocks."""
    storage: str
    """What it is stored as and how large that is, or why it cannot be cut by blocks; for people."""
    default_key: str | None
    """A column that can be ranged, is indexed and never NULL: the primary key's first."""
    children: tuple[ChildTable, ...] = ()
    """The tables that hold its rows, where those are others than itself and may be read."""
    sampled: bool = True
    """Bounds of ranges are known, or a small sample gives them."""
    files: tuple[SourceFile, ...] = ()
    """The files that hold its rows, where it consists of files, from their footers."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source, and what its row groups hold."""

    path: str
    size: int
    """In bytes."""
    version: str
    """See `FilePart`."""
    groups: tuple[tuple[int, int], ...]
    """Rows and stored bytes of each row group."""


@dataclass(frozen=True, slots=True)
class ChildTable:
    """One of the tables that a table consists of."""

    table: TableRef
    rows: int | None
    """Estimated; None where nothing is known."""
    bytes: int
    blocks: int | None
    """Real size in blocks; None where it cannot be cut by blocks."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a column of the source goes into one of the target."""

    reason: str = ""
    """Why it cannot; empty where it can."""
    cast: str = ""
    """The type that the source would have to cast to first; empty for none."""
    formats: tuple[str, ...] = ()
    """The stream formats that carry it, best first."""
    warning: str = ""
    lossy: bool = False
    """Values may arrive as others."""
    canonical: str = ""
    """See `ColumnPair`."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """The tables that are copied in one batch with a table, and itself."""

    targets: Mapping[TableRef, TableRef] = field(default_factory=dict)
    """Where each table of the source goes."""
    remade: frozenset[TableRef] = frozenset()
    """Those of the target that are dropped and made again."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What a target has to know to plan how it is loaded."""

    run_id: str
    source: Relation
    target: TableRef
    mode: str
    pairs: tuple[ColumnPair, ...]
    conflict_columns: tuple[str, ...] | None
    indexes: str
    unlogged: bool
    definition: TableDefinition | None
    """Of the source's table, where the target's is made like it."""
    made: tuple[Column, ...] = ()
    """The columns of the table that is made; see `TargetCatalog.defined_columns`."""
    where: str | None = None
    given: bool = False
    """The partitions are named by the caller, and need not cover the table."""
    extents: tuple[tuple[str, Extent], ...] = ()
    """Of the partitions that are given, with their ids."""
    writing: Mapping[str, Any] = field(default_factory=dict)
    """How files are written, as far as it was said; see `CopySpec`."""
    heirs: tuple[TableRef, ...] = ()
    """Of the source's table, those whose rows are read with it; see `SourceCatalog.heirs`."""
    siblings: Siblings = field(default_factory=Siblings)
    counted: frozenset[str] | None = None
    """Columns of the source whose `SourceCatalog.positions` are known: the sequences of the columns
    that they are loaded into go on from there. None: the target's sequences stay as they are."""

    def refuse_writing(self, system: str) -> None:
        """For a target that is no files.

        Raises:
            PlanningError: it was said how files are written.
        """
        if self.writing:
            flags = ", ".join("--" + name.replace("_", "-") for name in self.writing)
            raise PlanningError(
                f"{flags}: {system} keeps rows in tables, not in files; expected a target of "
                "files, or leave it out"
            )


@dataclass(frozen=True, slots=True)
class Checksum:
    """Of some rows, whatever their order."""

    rows: int
    digest: str
    """A whole number; that of many rows is the sum of those of each."""


@dataclass(frozen=True, slots=True)
class WeightedBound:
    """A key value and the fraction of non-NULL rows from it up to the next one."""

    bound: Bound
    weight: float


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    key: Key
    nullable: bool
    null_fraction: float
    bounds: tuple[WeightedBound, ...]
    """Distinct and in the order of the source's own comparison."""
    origin: str
    """Where the bounds come from, for people."""
    indexed: bool


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the target's control table has it."""

    run_id: str
    generation: int
    """Counts how often the run was started over."""
    spec: Mapping[str, Any]
    plan: PartitionPlan
    source_state: SourceState
    snapshots: tuple[Snapshot, ...]
    status: str
    created_at: str
    prepared_at: str | None
    finished_at: str | None
    failures: tuple[Mapping[str, Any], ...]
    released_at: str | None = None
    """When it was said that nobody needs the run's snapshot any more."""


@contextmanager
def reading_run(run_id: str) -> Iterator[None]:
    """Around the reading of what a control store keeps of a run.

    Raises:
        PermanentError: it is not of the form in which it was written.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise PermanentError(
            f"target: what is kept of run {run_id} cannot be read: expected it as Penstock has "
            f"written it, found {type(error).__name__}: {error}; was it edited? Start a new run",
            Diagnosis(side="target"),
        ) from error


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a run's snapshot is still needed, and which one it is."""

    status: str
    generation: int
    snapshot: Snapshot | None
    pending: int
    """Partitions that are not committed."""
    released: bool


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that is alive in the target at this moment."""

    partition_id: str
    attempt: int
    state: str
    since: str
    bytes: int | None


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


class Schemas(Protocol):
    """How a database finds a table that is named without a schema."""

    def schemas(self) -> tuple[str, ...]:
        """Its search path: the schemas that it looks into, one after the other."""
        ...

    def find(self, name: str) -> TableRef | None:
        """The table, or the like, that the name alone stands for; None: there is none."""
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

    def shared_order(self, relation: Relation, key: Key) -> str:
        """The collation under which any server compares this key alike; empty if it has none."""
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

    def read_ranges(
        self, relation: Relation, key: Key, ranges: Sequence[tuple[str | None, str | None]]
    ) -> tuple[tuple[Bound | None, Bound | None], ...]:
        """Bounds that somebody wrote, as the key's own; None leaves a side open.

        A range may be empty: both its bounds are one value.

        Raises:
            PlanningError: a text is no value of the key's type, a range's bounds do not ascend, or
                two ranges overlap.
        """
        ...

    def read_values(self, relation: Relation, key: Key, values: Sequence[str]) -> tuple[Bound, ...]:
        """Values that somebody wrote, as the key's own.

        Raises:
            PlanningError: a text is no value of the key's type, or two are one value.
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


class ControlStore(Protocol):
    """Runs and commit records, kept in the target."""

    patience: Patience
    """How long its calls wait for others; may be set at any time."""

    def create(self) -> None:
        """Create the control tables where they are missing.

        Raises:
            PlanningError: the user may not; says what an administrator can do.
        """
        ...

    def create_run(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        """Store a run; False where the id exists already (nothing is changed then)."""
        ...

    def load_run(self, run_id: str) -> RunRow | None: ...

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        """Say that this process executes the run on the table, until this store's catalog closes.

        Several processes may execute one run. However a process ends, that ends it too.

        Parameters:
            table: the one that the run is to change in the end, wherever its rows are loaded first.
            check: called with the ids of the other runs that processes execute on the table at this
                moment, while no other run can enter it. What it raises leaves this run outside.
        """
        ...

    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        """Do the steps before the first partition, once per run, and note what identifies the table
        that is loaded.

        Idempotent: False where an earlier call has done it. One transaction.
        """
        ...

    def check_target(self, run_id: str) -> None:
        """Look whether the table is still the one that the run was prepared for.

        Attempts and the steps after the last partition look for themselves, in their transactions.

        Raises:
            TargetChanged: it was emptied, made again or put aside since, by another run or by
                somebody else.
        """
        ...

    def finish(self, run_id: str, step: Step) -> bool:
        """Do a step after the last partition, once per run, in one transaction with its record.

        Idempotent: False where an earlier call has done it.
        """
        ...

    def steps_done(self, run_id: str) -> frozenset[str]:
        """Ids of the steps after the last partition that are done."""
        ...

    def intact(self, run_id: str) -> bool:
        """False where a crash of the target has emptied the table of a volatile load."""
        ...

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        """Forget what is committed, prepare the target again, and begin a new generation.

        One transaction. Attempts of older generations that are open are waited for, or ended;
        later ones are refused.

        Parameters:
            generation: the one that ends.

        Returns: the new generation.

        Raises:
            Superseded: it has ended already.
        """
        ...

    def set_view(
        self,
        run_id: str,
        generation: int,
        before: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        """Store what the run's rows are read with from now on: all snapshots, newest last.

        Parameters:
            generation, before: the run's generation and snapshots as they are thought to be.
            nothing_committed: begin a new generation, so that no attempt that still reads with an
                older snapshot commits anything.

        Returns: the run's generation from now on.

        Raises:
            Superseded: they are others by now, or something is committed after all.
        """
        ...

    def release(self, run_id: str) -> bool:
        """Note that nobody needs the run's snapshot any more. False where there is no such run."""
        ...

    def take_up(self, run_id: str) -> bool:
        """Note that the run's snapshot is needed again. False where there is no such run."""
        ...

    def outlook(self, run_id: str) -> Outlook | None: ...

    def recopied(self, run_id: str, request: str) -> frozenset[str]:
        """Ids of the partitions for which a request to copy them again was seen."""
        ...

    def check_recopy(self, run_id: str) -> None:
        """
        Raises:
            UsageError: the run's table is not where, or as, the partitions were loaded any more.
        """
        ...

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        """Take back what is committed of some partitions, once for each request.

        One transaction; an attempt that is open is waited for.

        Parameters:
            request: names the request, whoever repeats it.
            rows_of: the table out of which the partitions' rows are deleted; None to leave them to
                the attempts that follow.
            patience: seconds to wait for open attempts; 0: for ever.

        Returns: ids of the partitions whose commit record is gone.

        Raises:
            UsageError: see `check_recopy`.
            PermanentError: their rows are not those that were committed. Nothing was changed.
        """
        ...

    def set_status(
        self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]
    ) -> None: ...

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        """The commit records: what is done, and nothing else says so."""
        ...

    def loaded(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        """What the runs of a series have committed: by partition, the run and the record."""
        ...

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]: ...


class TargetCatalog(Schemas, Protocol):
    """A target's tables, and the control store beside them."""

    @property
    def control(self) -> ControlStore: ...

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        """As for a source.

        Raises:
            PlanningError: no such table.
        """
        ...

    def identity(self, table: TableRef) -> str:
        """Comparable with `SourceState.identity`: equal means the very same table."""
        ...

    replaces_by_condition: bool
    """Mode replace deletes rows by the partitions' conditions, so it needs a key. Else it swaps
    what an earlier run has loaded of the same selection."""

    def makes(self, table: TableRef, mode: str) -> bool:
        """Whether the mode makes the table like the source, instead of taking it as it is."""
        ...

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        """The columns that a table will have which is made like the source.

        Parameters:
            columns: the source's that are copied; of an unlike system, with the trait `arrow`.
            types: what somebody wants columns to be, by name, in the target's own notation.

        Raises:
            PlanningError: it cannot be made so.
        """
        ...

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        """How each of the source's columns goes into the target's column at its place."""
        ...

    def check_writable(self, table: TableRef, mode: str, columns: Sequence[str]) -> None:
        """
        Raises:
            PlanningError: a privilege is missing (which, and the GRANT that would do), or the
                relation cannot be loaded.
        """
        ...

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        """Where the partitions are loaded, and what is done before and after. Changes nothing.

        Raises:
            PlanningError: the mode cannot be used on this table, or a privilege is missing.
        """
        ...

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        """
        Raises:
            PlanningError: the condition cannot be evaluated on the target's table.
        """
        ...

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum: ...

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        others: bool,
    ) -> Mapping[str, Checksum] | None:
        """Of the rows that each record's transaction has loaded, in one scan, by partition.

        Parameters:
            pairs: empty to count only.
            others: under the empty key, digest the rows that none of them has loaded, too; they
                are counted in any case.

        Returns: None where the target cannot tell which rows those are.
        """
        ...

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        """Columns that tell rows apart: the primary key's, or another's; empty for none."""
        ...

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
        """As for a source.

        Parameters:
            loaded_by: only rows that these records' transactions have loaded.
            other_than: only rows that none of these have loaded.
        """
        ...

    def close(self) -> None:
        """Disconnect, and cancel what runs. May be called twice."""
        ...


Block = Any
"""As the stream's format has it: bytes or a memoryview of a database's own, or a record batch."""


class Wait(Protocol):
    """How a reader or writer waits, so that a stall is noticed wherever it happens."""

    def __call__(self, side: str, fd: int, writing: bool) -> None:
        """Come back when the socket is ready. Raises `StallError`."""
        ...

    def answering(self, side: str) -> AbstractContextManager[None]:
        """For calls that a server answers at once, if it answers. Raises `StallError`."""
        ...


class Reader(Protocol):
    """A worker's connection to the source, kept for many partitions."""

    def turn(self, spec: WorkerSpec) -> None:
        """Go on with another run between the same source and target; keeps the connection."""
        ...

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        """Yield blocks of the partition's stream, and of each the number of rows, roughly, and
        its size in bytes."""
        ...

    @property
    def rows(self) -> int:
        """Exact number of rows of the last stream, once it was read to its end."""
        ...

    def label(self, application_name: str) -> None:
        """Show this attempt to the server's own monitoring."""
        ...

    def abandon(self) -> None:
        """Cancel whatever runs, within about 2 s, and disconnect. May be called at any time.
        The next `read` connects again."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a target took of one stream."""

    rows: int
    """Exact."""
    inserted: int | None = None
    """In mode upsert: rows that were not there before."""
    updated: int | None = None
    """In mode upsert: rows that were there and differed."""


class Writer(Protocol):
    """A worker's connection to the target, kept for many partitions."""

    def turn(self, spec: WorkerSpec) -> None:
        """As for `Reader`."""
        ...

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        """Open the transaction, write the commit record, do what the mode asks for.

        Waits for an older attempt of the same partition; ends that one's session if it makes no
        progress for the grace time.

        Returns: False where the partition is committed already; nothing is open then.
        """
        ...

    def fileno(self) -> int:
        """The socket, to be watched for an early end of the stream; -1 where there is none."""
        ...

    def check(self) -> None:
        """Look at what the server has said. Raises if it has ended the stream."""
        ...

    def write(self, block: Block, wait: Wait) -> None: ...

    def end(self, wait: Wait) -> Loaded:
        """End the stream, and do what the mode asks for after it."""
        ...

    def commit(self, loaded: Loaded, bytes: int, wait: Wait) -> None:
        """Complete the commit record and commit it together with the rows."""
        ...

    def abandon(self) -> None:
        """As for `Reader`; everything since `begin` is rolled back."""
        ...


class Backend(Protocol):
    located: bool
    """Its URLs lead to rows; else to a database, in which a table or query is to be named."""
    environment: tuple[str, ...]
    """Names, or prefixes ending in ``*``, of environment variables that its driver reads and that
    hold no secret: workers get these and no others."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        """Check a URL without connecting, and fold secrets from the environment into it.

        Raises:
            UsageError: malformed; the message shows no secret.
        """
        ...

    def secrets(self, url: str) -> tuple[str, ...]:
        """The passwords in a URL that `resolve` returned."""
        ...

    def place(self, url: str) -> Place:
        """Where a URL leads, for people and lineage: nothing secret is in it."""
        ...

    def source(self, url: str) -> SourceCatalog: ...

    formats: tuple[str, ...]
    """The stream formats that its readers and writers speak, best first."""

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        """Take a snapshot and hold it, on a connection of its own."""
        ...

    def target(self, url: str, control_schema: str) -> TargetCatalog: ...

    def preload(self) -> None:
        """Import all that `reader` and `writer` need."""
        ...

    def reader(self, spec: WorkerSpec) -> Reader: ...

    def writer(self, spec: WorkerSpec) -> Writer: ...

    has_control_ddl: bool
    """Its control tables may be made by an administrator, with statements."""

    def control_ddl(self, control_schema: str) -> str:
        """Statements that create the control tables, for an administrator.

        Raises:
            UsageError: it makes by itself what it keeps runs and commit records in.
        """
        ...


@cache
def _entry_points() -> EntryPoints:
    """Asked for once: the search reads the metadata of every distribution that is installed."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - workers never search

    return entry_points(group=ENTRY_POINTS)


def find_backend(url: str, flag: str) -> tuple[Backend, str]:
    """The backend of a URL's scheme, and its ``module:attribute``.

    Raises:
        UsageError: no backend has that scheme, or its driver is not installed.
    """
    scheme = url.partition("://")[0].lower()
    known = {entry.name: entry for entry in _entry_points()}
    if scheme not in known:
        raise UsageError(
            f"{flag}: expected a URL with one of the schemes {', '.join(sorted(known))}; "
            f"found {scheme!r}"
        )
    entry = known[scheme]
    try:
        return cast(Backend, entry.load()), entry.value
    except ModuleNotFoundError as error:
        extra = entry.value.partition(":")[0].rpartition(".")[2]
        raise UsageError(
            f"{flag}: {scheme} needs the module {error.name!r}; "
            f"install it with: pip install 'penstock[{extra}]'"
        ) from error


def ddl_scheme() -> str:
    """A URL scheme of the backend whose control tables an administrator may make.

    Raises:
        UsageError: there are several.
    """
    found: dict[str, str] = {}
    for entry in _entry_points():
        with suppress(ModuleNotFoundError):  # its driver is not installed
            if cast(Backend, entry.load()).has_control_ddl:
                found.setdefault(entry.value, entry.name)
    if len(found) != 1:
        raise UsageError(f"--target: expected a URL, to tell {', '.join(found.values())} apart")
    return next(iter(found.values()))


def load_backend(reference: str) -> Backend:
    """Import a backend by the ``module:attribute`` that `find_backend` returned."""
    from importlib import import_module  # noqa: PLC0415 - only workers need it

    module, _, attribute = reference.partition(":")
    try:
        return cast(Backend, getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise PermanentError(f"backend {reference!r} cannot be imported: {error}") from error
