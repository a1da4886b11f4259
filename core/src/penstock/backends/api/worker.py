"""What a worker's connections offer: one partition's stream out of a source, and into a target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.backends.api.mover import Mover, Pump
    from penstock.model.plans import Partition
    from penstock.model.records import Spent
    from penstock.model.tables import ColumnPair
    from penstock.spec.worker_spec import WorkerSpec

ARROW = "arrow"
"""The stream format that unlike systems share: blocks are `pyarrow.RecordBatch`. Their columns are
those of the run's pairs, in their order, by the target's names; the first batch of a stream is
there even if it has no rows."""
LINES = "lines"
r"""The other one, where it carries every column: blocks are lines of UTF-8, one for each row, with
tabs between the values and `\N` for NULL; in texts `\t`, `\n`, `\r`, `\b` and `\\` stand for those
characters. By their types in Arrow, numbers are written in digits, truth values as 1 and 0, days
and moments in ISO form, in UTC and without a zone, bytes in hexadecimal digits, UUIDs with dashes,
what else there is as it is shown."""
SHARED_FORMATS = (LINES, ARROW)
"""What unlike systems have in common; others are one system's own."""


def are_shared(formats: Sequence[str]) -> bool:
    """Whether these, which two systems have in common, are those of unlike ones."""
    return bool(formats) and set(formats) <= set(SHARED_FORMATS)


def compared_pairs(pairs: Sequence[ColumnPair], format_: str) -> tuple[ColumnPair, ...]:
    """The pairs whose values both systems can write in one form, to be compared by checksums.

    Parameters:
        format_: of the streams. In a system's own, all of them.
    """
    return tuple(pair for pair in pairs if pair.canonical or format_ not in SHARED_FORMATS)


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

    def turn(self, mover: Mover) -> bool:
        """Let it move bytes for a moment. False once it is done. Raises `StallError`."""
        ...


class Reader(Protocol):
    """A worker's connection to the source, kept for many partitions."""

    def switch_run(self, spec: WorkerSpec) -> None:
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


@runtime_checkable
class ConnectsAhead(Protocol):
    """A `Reader` that can connect while the target is waited for."""

    def connect_ahead(self, partition: Partition) -> None:
        """Begin to connect, if it is not connected; does not wait. What goes wrong is for the next
        `read` to raise, which is of this partition."""
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
    spent: Spent | None = None
    """For the commit record; None where the control store has no room for it."""


class Writer(Protocol):
    """A worker's connection to the target, kept for many partitions."""

    def switch_run(self, spec: WorkerSpec) -> None:
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


@runtime_checkable
class Pumped(Protocol):
    """A `Writer` whose target something else than `write` may load."""

    sink: object
    """The open stream, for readers that know what it is; None where there is none."""


@runtime_checkable
class Pumping(Protocol):
    """A `Reader` that knows a faster way into some sinks than blocks."""

    def pump(self, partition: Partition, sink: object, wait: Wait) -> Pump | None:
        """Begin to read a partition's stream; None where it does not know the sink.

        `Reader.rows` is exact once the pump is done.
        """
        ...
