"""The backend object that the entry point names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.backends.mssql.capabilities import SOURCE, TARGET
from penstock.backends.mssql.location import urls_of

if TYPE_CHECKING:
    from penstock.backends.api.scratch import Scratch
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation, TableRef
    from penstock.spec.worker_spec import WorkerSpec


class MssqlBackend:
    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = False
    kinds: tuple[str, ...] = ("sqlserver",)
    rewrites = "ALTER TABLE, TRUNCATE or a rebuilt index"
    snapshot_burden = "kept old pages of the source's database"
    environment: tuple[str, ...] = ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return urls_of(url).resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return urls_of(url).secrets(url)

    def place(self, url: str) -> Place:
        return urls_of(url).place(url)

    # The modules are imported where they are used: a worker needs no catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.mssql.source import MssqlSource  # noqa: PLC0415

        return MssqlSource(url)

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.mssql.snapshot import HeldDatabase  # noqa: PLC0415

        return HeldDatabase(url)

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.mssql.target import MssqlTarget  # noqa: PLC0415

        return MssqlTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.mssql import reader, writer  # noqa: F401, PLC0415

        with suppress(ModuleNotFoundError):  # there may be another driver
            from penstock.backends.mssql import native  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.mssql.reader import MssqlReader  # noqa: PLC0415

        return MssqlReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.mssql.writer import mssql_writer  # noqa: PLC0415

        return mssql_writer(spec)

    def control_ddl(self, control_schema: str) -> str:
        from penstock.backends.mssql.records import ddl  # noqa: PLC0415

        return ddl(control_schema)

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        from penstock.backends.mssql.scratch import MssqlScratch  # noqa: PLC0415

        return MssqlScratch(url, like)
