"""A backend: one object per kind of database.

The engine uses a `SourceCatalog` and a `TargetCatalog`; a worker uses a `Reader` and a `Writer`.
Nothing here names a database.

All methods raise `TransientError` or `PermanentError` (see `penstock.errors`), never a driver's own
exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

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
    source_capabilities: SourceCapabilities
    """What it can do as a source: shared code refuses the rest before it asks for anything else."""
    target_capabilities: TargetCapabilities
    """What it can do as a target."""
    located: bool
    """Its URLs lead to rows; else to a database, in which a table or a query must be named."""
    kinds: tuple[str, ...]
    """How catalogs of data assets, Dagster's for instance, name the system."""
    rewrites: str
    """What moves a table's rows to other blocks or files, for people: statements, for instance."""
    snapshot_burden: str
    """What a snapshot has done to the source while it was held, for people: words after "has"."""
    environment: tuple[str, ...]
    """Names, or prefixes ending in ``*``, of environment variables that its driver reads and that
    hold no secret: workers get these and no others."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        """Check a URL without connecting, and add secrets from the environment to it.

        Raises:
            UsageError: the URL is malformed; the message shows no secret.
        """
        ...

    def secrets(self, url: str) -> tuple[str, ...]:
        """Return the passwords in a URL returned by `resolve`."""
        ...

    def place(self, url: str) -> Place:
        """Return the place that a URL refers to, for people and lineage, without secrets."""
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


class WithControlDdl(Protocol):
    """A backend with the capability `control_ddl`."""

    def control_ddl(self, control_schema: str) -> str:
        """Return the statements that create the control tables, for an administrator."""
        ...
