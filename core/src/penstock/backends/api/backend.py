"""A backend: one object per kind of database.

The engine uses a `SourceCatalog` and a `TargetCatalog`; a worker uses a `Reader` and a `Writer`.
Nothing here names a database.

All methods raise `TransientError` or `PermanentError` (see `penstock.errors`), never a driver's own
exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import (
        Place,
        Relation,
    )
    from penstock.spec.worker_spec import WorkerSpec


class Backend(Protocol):
    """The entry point of a backend, and what its system can do as a source and as a target."""

    source_capabilities: SourceCapabilities
    """The system as a source: shared code rejects everything else before it asks further questions.
    """
    target_capabilities: TargetCapabilities
    """The system as a target."""
    located: bool
    """Whether URLs refer to rows; otherwise to a database, in which a table or query must be named.
    """
    kinds: tuple[str, ...]
    """The system's names in catalogs of data assets, such as Dagster's."""
    rewrites: str
    """What moves a table's rows to other blocks or files, such as the names of statements."""
    snapshot_burden: str
    """What a held snapshot has done to the source, as words that follow "has"."""
    environment: tuple[str, ...]
    """Names, or prefixes ending in ``*``, of environment variables that the driver reads and that
    hold no secret: workers inherit no others.
    """

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        """Check a URL without connecting, and add secrets from the environment to it.

        Args:
            url: the URL, as the user wrote it.
            environ: the environment variables; if empty, no file is read, either, and
                the secrets of the result are those of the URL itself.
            flag: the option with the URL, for messages.

        Raises:
            UsageError: the URL is malformed; the message shows no secret.
        """
        ...

    def secrets(self, url: str) -> tuple[str, ...]:
        """Return the passwords in a URL returned by `resolve`."""
        ...

    def place(self, url: str) -> Place:
        """Return the place that a URL refers to, without secrets, for messages and lineage."""
        ...

    def source(self, url: str) -> SourceCatalog: ...

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        """Take a snapshot and hold it, on a separate connection."""
        ...

    def target(self, url: str, control_schema: str) -> TargetCatalog: ...

    def preload(self) -> None:
        """Import everything that `reader` and `writer` need."""
        ...

    def reader(self, spec: WorkerSpec) -> Reader: ...

    def writer(self, spec: WorkerSpec) -> Writer: ...


@runtime_checkable
class KnowsMemory(Protocol):
    """A backend whose workers take less memory than usual, or more."""

    worker_memory: int
    """The bytes of memory (PSS) that a worker takes to read, or to write, rows of usual length."""


# Of a worker with pyarrow: at most 89 MB without long rows (measured), and room for these.
WORKER_MEMORY = 160 << 20


def worker_memory(backend: Backend) -> int:
    """Return the bytes of memory that a worker takes to read or write through a backend."""
    return backend.worker_memory if isinstance(backend, KnowsMemory) else WORKER_MEMORY


class WithControlDdl(Protocol):
    """A backend with the capability `control_ddl`."""

    def control_ddl(self, control_schema: str) -> str:
        """Return the statements that create the control tables, for an administrator."""
        ...
