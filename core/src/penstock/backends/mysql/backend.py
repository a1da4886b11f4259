"""The backend object that the entry point names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.backends.mysql.capabilities import SOURCE, TARGET
from penstock.backends.mysql.location import URLS

if TYPE_CHECKING:
    from penstock.backends.api.scratch import Scratch
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation, TableRef
    from penstock.spec.worker_spec import WorkerSpec


class MySqlBackend:
    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = False
    rewrites = "ALTER TABLE or TRUNCATE"
    snapshot_burden = "kept old versions of rows on the source"
    environment: tuple[str, ...] = ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return URLS.resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return URLS.secrets(url)

    def place(self, url: str) -> Place:
        return URLS.place(url)

    # The modules are imported where they are used: a worker needs neither catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.mysql.source import MySqlSource  # noqa: PLC0415

        return MySqlSource(url)

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.mysql.snapshot import HeldSessions  # noqa: PLC0415

        return HeldSessions(url, relations)

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.mysql.target import MySqlTarget  # noqa: PLC0415

        return MySqlTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.mysql import reader, writer  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.mysql.reader import MySqlReader  # noqa: PLC0415

        return MySqlReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.mysql.writer import mysql_writer  # noqa: PLC0415

        return mysql_writer(spec)

    def control_ddl(self, control_schema: str) -> str:
        from penstock.backends.mysql.records import ddl  # noqa: PLC0415

        return ddl(control_schema)

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        from penstock.backends.mysql.scratch import MySqlScratch  # noqa: PLC0415

        return MySqlScratch(url, like)
