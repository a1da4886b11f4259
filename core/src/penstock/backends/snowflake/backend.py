"""The backend object that the entry point names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.backends.snowflake.capabilities import SOURCE, TARGET
from penstock.backends.snowflake.location import URLS, resolved

if TYPE_CHECKING:
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation
    from penstock.spec.worker_spec import WorkerSpec


class SnowflakeBackend:
    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = False
    rewrites = "DROP TABLE or CREATE OR REPLACE TABLE"
    snapshot_burden = "relied on the source's time travel"
    environment: tuple[str, ...] = ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return resolved(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return URLS.secrets(url)

    def place(self, url: str) -> Place:
        return URLS.place(url)

    # The modules are imported where they are used: a worker needs neither catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.snowflake.source import SnowflakeSource  # noqa: PLC0415

        return SnowflakeSource(url)

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.snowflake.snapshot import HeldMoment  # noqa: PLC0415

        return HeldMoment(url, relations)

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.snowflake.target import SnowflakeTarget  # noqa: PLC0415

        return SnowflakeTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.snowflake import reader, writer  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.snowflake.reader import SnowflakeReader  # noqa: PLC0415

        return SnowflakeReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.snowflake.writer import snowflake_writer  # noqa: PLC0415

        return snowflake_writer(spec)

    def control_ddl(self, control_schema: str) -> str:
        from penstock.backends.snowflake.records import ddl  # noqa: PLC0415

        return ddl(control_schema)
