"""The backend object that the entry point refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock.backends.postgresql import location
from penstock.backends.postgresql.capabilities import SOURCE, TARGET
from penstock.backends.postgresql.connection import CONTROL, PLAN, Connection, connect
from penstock.backends.postgresql.native import available
from penstock.backends.postgresql.reader import PostgresReader
from penstock.backends.postgresql.writer import postgres_writer
from penstock.backends.shared.opening import ConnectionOpening

if TYPE_CHECKING:
    from penstock.backends.api.optional.pulse import LagGauge, Pulse
    from penstock.backends.api.optional.scratch import Scratch
    from penstock.backends.api.source import HeldSnapshot, SnapshotSession, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.snapshots import Snapshot
    from penstock.model.tables import Place, Relation, TableRef
    from penstock.spec.worker_spec import WorkerSpec


class PostgresBackend:
    """See `Backend`."""

    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = False
    private_parameter = "sslmode=verify-full"
    kinds: tuple[str, ...] = ("postgresql",)
    rewrites = "VACUUM FULL, CLUSTER or TRUNCATE"
    snapshot_burden = "held back vacuum on the source"
    # https://www.postgresql.org/docs/current/libpq-envars.html, without PGPASSWORD.
    environment = (
        "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSFILE", "PGSERVICE",
        "PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGSSL*", "PGREQUIRE*", "PGCHANNELBINDING",
        "PGGSS*", "PGKRBSRVNAME", "PGCONNECT_TIMEOUT", "PGTARGETSESSIONATTRS",
        "PGLOADBALANCEHOSTS", "PGM*PROTOCOLVERSION", "KRB5*", "PSYCOPG_IMPL",
    )  # fmt: skip

    # Whole blocks of COPY's text pass through (14 MB measured, whatever the length of rows); Arrow
    # batches, for another system, are the other backend's to count.
    worker_memory = 24 << 20

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return location.resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return location.secrets(url)

    def is_private(self, url: str, environ: Mapping[str, str]) -> bool:
        return location.is_private(url, environ)

    def through(
        self, url: str, environ: Mapping[str, str], tunnel: Callable[[str, int], str], flag: str
    ) -> str:
        return location.through(url, environ, tunnel, flag)

    def place(self, url: str) -> Place:
        return location.place_of(url)

    # Catalogs are imported where they are used: a worker needs neither, and the main process
    # imports them while it waits for the server.

    def source(self, url: str) -> SourceCatalog:
        with _opening(url, "source", PLAN) as opening:
            from penstock.backends.postgresql.source import PostgresSource  # noqa: PLC0415

            # where it is missing, this process says why: no person reads the logs of workers
            available()
            return PostgresSource(url, opening.take())

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        return self.snapshot_session(url).hold(relations)

    def join_snapshot(
        self, url: str, snapshot: Snapshot, relations: Sequence[Relation]
    ) -> HeldSnapshot:
        from penstock.backends.postgresql.snapshot.joined import JoinedSnapshot  # noqa: PLC0415

        return JoinedSnapshot(url, snapshot, relations)

    def snapshot_session(self, url: str) -> SnapshotSession:
        from penstock.backends.postgresql.snapshot import exported  # noqa: PLC0415

        return exported.SnapshotSession(url)

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        with _opening(url, "target", CONTROL) as opening:
            from penstock.backends.postgresql.target import PostgresTarget  # noqa: PLC0415

            return PostgresTarget(url, control_schema, opening.take())

    def preload(self) -> None:
        """Import the reader and the writer, which bring most of what catalogs need."""
        available()  # so that forked processes inherit it

    def reader(self, spec: WorkerSpec) -> Reader:
        return PostgresReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        return postgres_writer(spec)

    def control_ddl(self, control_schema: str) -> str:
        from penstock.backends.postgresql.records import ddl  # noqa: PLC0415

        return ddl(control_schema)

    def pulse(self, url: str, side: str) -> Pulse:
        from penstock.backends.postgresql.pulse import PostgresPulse  # noqa: PLC0415

        return PostgresPulse(url, side)

    def wait_kind(self, wait: str) -> str:
        from penstock.backends.postgresql.pulse import wait_kind  # noqa: PLC0415

        return wait_kind(wait)

    def lag_gauge(self, url: str) -> LagGauge:
        from penstock.backends.postgresql.lag import PostgresLagGauge  # noqa: PLC0415

        return PostgresLagGauge(url)

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        from penstock.backends.postgresql.load.scratch import PostgresScratch  # noqa: PLC0415

        return PostgresScratch(url, like)


@contextmanager
def _opening(url: str, side: str, name: str) -> Iterator[ConnectionOpening[Connection]]:
    opening = ConnectionOpening(partial(connect, url, side, name), Connection.close)
    try:
        yield opening
    except BaseException:
        opening.leave()
        raise
