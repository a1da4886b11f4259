"""A worker's connections: the stream of one partition out of a source, and into a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.model.plans import Partition
    from penstock.model.records import Spent
    from penstock.model.tables import ColumnPair
    from penstock.spec.worker_spec import WorkerSpec

ARROW = "arrow"
"""The stream format that unlike systems share: blocks are `pyarrow.RecordBatch`. The columns are
those of the run's pairs, in order, with the target's names; a stream has a first batch even if it
has no rows.
"""
LINES = "lines"
r"""The other one, where it carries every column: blocks are lines of UTF-8, one for each row, with
tabs between the values and `\N` for NULL; in texts `\t`, `\n`, `\r`, `\b` and `\\` stand for those
characters. By their types in Arrow, numbers are written in digits, truth values as 1 and 0, days
and moments in ISO form, in UTC and without a zone, bytes in hexadecimal digits, UUIDs with dashes,
what else there is as it is shown."""
CSV = "csv"
r"""A third, for rows that are CSV on one side, and pass through as they are: blocks are pieces of
UTF-8, which may end anywhere. Values are separated by commas, and rows end with a line feed; no row
is blank or begins with `\.`, the end of data for some systems. A quoted value is in quotes as a
whole, with quotes in it doubled; no other value has quotes. An empty one without quotes is NULL.
There is no header.

A source's column that it carries has a trait of this name: empty, or the reason why rows have to be
parsed.
"""
ROWS = "csv-rows"
r"""A fourth, for rows that become CSV: blocks are `RowsBlock`. Values are separated by commas, and
rows end with a line feed. There is no header. A NULL is empty. In quotes, with quotes in them
doubled, are all values of columns that record batches carry as texts, bytes, UUIDs, enums, or
decimals of more than six places; no other values have quotes. By their types in Arrow, numbers are
in digits, with `nan`, `inf` and `-inf`, truth values `true` and `false`, days and times in ISO form
with six digits after the second, moments in UTC followed by `Z`, bytes `\x` and hexadecimal digits.

A column of the source or the target that keeps rows from becoming such CSV has a trait of this
name: the reason.
"""
SHARED_FORMATS = (ROWS, CSV, LINES, ARROW)
"""Formats shared by unlike systems; all others belong to one system."""


def are_shared(formats: Sequence[str]) -> bool:
    """Whether two systems that have these formats in common are unlike systems."""
    return bool(formats) and set(formats) <= set(SHARED_FORMATS)


def compared_pairs(pairs: Sequence[ColumnPair], format_: str) -> tuple[ColumnPair, ...]:
    """Return the pairs whose values both systems can write in one form, for checksums.

    Args:
        pairs: the copied columns.
        format_: the format of the streams. In a system's own, all pairs qualify.
    """
    return tuple(pair for pair in pairs if pair.canonical or format_ not in SHARED_FORMATS)


class RowsBlock(NamedTuple):
    """A block of whole rows of CSV; see `ROWS`."""

    content: bytes | memoryview
    rows: int


Block = Any
"""A block in the stream's format: bytes or a memoryview in a database's own, or a record batch."""


class Wait(Protocol):
    """How a reader or writer waits, so that a stall is noticed wherever it happens."""

    def __call__(self, side: str, fd: int, writing: bool) -> None:
        """Return when the socket is ready. Raises `StallError`."""
        ...

    def answering(self, side: str) -> AbstractContextManager[None]:
        """Limit calls that a working server answers at once. Raises `StallError`."""
        ...

    def turn(self, mover: Mover) -> bool:
        """Let it move bytes for a moment. False once it is done. Raises `StallError`."""
        ...


class Reader(Protocol):
    """A worker's connection to the source, kept for many partitions."""

    def switch_run(self, spec: WorkerSpec) -> None:
        """Continue with another run between the same source and target; keeps the connection."""
        ...

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        """Yield blocks of the partition's stream, each with its approximate rows and its bytes."""
        ...

    @property
    def rows(self) -> int:
        """The exact number of rows in the last stream, once it was read to the end."""
        ...

    def label(self, application_name: str) -> None:
        """Show this attempt in the server's own monitoring."""
        ...

    def abandon(self) -> None:
        """Cancel what is running, within about 2 s, and disconnect.

        May be called at any time. The next `read` connects again.
        """
        ...


@runtime_checkable
class ConnectsAhead(Protocol):
    """A `Reader` that can connect during a wait for the target."""

    def connect_ahead(self, partition: Partition) -> None:
        """Begin to connect, if not connected, without waiting.

        Errors are raised by the next `read`, which must be of this partition.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The rows that a target accepted from one stream."""

    rows: int
    """The exact number."""
    inserted: int | None = None
    """In mode upsert: the number of new rows."""
    updated: int | None = None
    """In mode upsert: the number of existing rows that differed."""
    spent: Spent | None = None
    """For the commit record; None if the control store has no column for it."""


class Writer(Protocol):
    """A worker's connection to the target, kept for many partitions."""

    def switch_run(self, spec: WorkerSpec) -> None:
        """Switch runs, as for `Reader`."""
        ...

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        """Open the transaction, write the commit record, and prepare the table for the mode.

        Waits for an older attempt at the same partition; ends its session if it makes no progress
        for the grace time.

        Args:
            partition: the partition.
            attempt: the number of the attempt at this partition, from 1.
            wait: waits until a socket is ready, and raises `StallError`.

        Returns:
            False if the partition is already committed; then nothing is open.
        """
        ...

    def fileno(self) -> int:
        """Return the socket to watch for an early end of the stream; -1 if there is none."""
        ...

    def check(self) -> None:
        """Look for a message from the server. Raises if it has ended the stream."""
        ...

    def write(self, block: Block, wait: Wait) -> None: ...

    def end(self, wait: Wait) -> LoadResult:
        """End the stream, and complete the load as the mode requires."""
        ...

    def commit(self, result: LoadResult, bytes: int, wait: Wait) -> None:
        """Complete the commit record, and commit it together with the rows.

        Args:
            result: the rows that the target took.
            bytes: the bytes that were sent.
            wait: waits until a socket is ready, and raises `StallError`.
        """
        ...

    def abandon(self) -> None:
        """Abandon as for `Reader`; everything since `begin` is rolled back."""
        ...


class JoiningWriter(Writer, Protocol):
    """A writer that can commit small partitions of several tables in one transaction.

    Nothing is waited for: whatever is in the way, the partitions are then copied one by one.
    """

    def begin_group(
        self, attempts: Sequence[tuple[WorkerSpec, Partition, int]], wait: Wait
    ) -> bool:
        """Open a transaction, and write the commit records of all attempts.

        Args:
            attempts: first attempts at partitions of different tables: the spec of the run, the
                partition, and the number of the attempt.
            wait: waits until a socket is ready, and raises `StallError`.

        Returns:
            False if one of them has to be made alone; then nothing is open.
        """
        ...

    def enter(self, number: int, wait: Wait) -> None:
        """Prepare the table of an attempt, by its place in the group, for `write` and `end`."""
        ...

    def commit_group(self, results: Sequence[tuple[LoadResult, int]], wait: Wait) -> None:
        """Complete all commit records, and commit them together with the rows.

        Args:
            results: for each attempt the rows that the target took, and the bytes that were sent.
            wait: waits until a socket is ready, and raises `StallError`.

        Raises:
            PenstockError: nothing is committed.
        """
        ...


@runtime_checkable
class Pumped(Protocol):
    """A `Writer` whose target can be loaded by means other than `write`."""

    sink: object
    """The open stream, for readers that support it; None otherwise."""


@runtime_checkable
class Pumping(Protocol):
    """A `Reader` that supports a faster way than blocks into some writers."""

    def pump(self, partition: Partition, sink: object, wait: Wait) -> Pump | None:
        """Begin to read a partition's stream; return None if the writer is not supported.

        `Reader.rows` is exact once the pump is done.

        Args:
            partition: the partition.
            sink: the writer.
            wait: waits until a socket is ready, and raises `StallError`.
        """
        ...


class Mover(Protocol):
    """Native code that moves bytes outside the interpreter, and waits for servers itself.

    It does so for a moment at a time. In between, signals are handled and stalls detected.
    """

    def run(self, seconds: float, target_socket: int, check: Callable[[], None]) -> bool:
        """Move bytes for a limited time.

        Args:
            seconds: seconds to run for.
            target_socket: the target's socket, for a mover that does not know it; negative for
                others.
            check: called when the socket becomes readable.

        Returns:
            False once everything has been moved.
        """
        ...

    @property
    def wait_seconds(self) -> tuple[float, float]:
        """Seconds spent waiting for the source and for the target."""
        ...

    @property
    def idle_seconds(self) -> float:
        """Seconds since anything moved."""
        ...

    @property
    def side(self) -> str:
        """The side that it waits for while idle."""
        ...


class Pump(Mover, Protocol):
    """A mover for all rows of a partition from source to target."""

    max_turn_bytes: int | None
    """The approximate number of bytes per turn for a stream that keeps to a rate; None for no
    limit.
    """

    @property
    def rows(self) -> int:
        """The approximate number of rows moved so far."""
        ...

    @property
    def bytes(self) -> int:
        """The number of bytes moved so far."""
        ...
