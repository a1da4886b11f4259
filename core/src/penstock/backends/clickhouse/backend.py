"""The backend object that the entry point names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.backends.clickhouse.capabilities import SOURCE, TARGET
from penstock.backends.clickhouse.location import URLS
from penstock.errors import PlanningError

if TYPE_CHECKING:
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation
    from penstock.spec.worker_spec import WorkerSpec


class ClickHouseBackend:
    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = False
    rewrites = "merges and mutations"
    snapshot_burden = "held nothing"
    environment: tuple[str, ...] = ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return URLS.resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return URLS.secrets(url)

    def place(self, url: str) -> Place:
        return URLS.place(url)

    # The modules are imported where they are used: a worker needs neither catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.clickhouse.source import ClickHouseSource  # noqa: PLC0415

        return ClickHouseSource(url)

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        raise PlanningError(
            "source: ClickHouse has no snapshots that several sessions could read: expected "
            "--snapshot none"
        )

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.clickhouse.target import ClickHouseTarget  # noqa: PLC0415

        return ClickHouseTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.clickhouse import reader, writer  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.clickhouse.reader import ClickHouseReader  # noqa: PLC0415

        return ClickHouseReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.clickhouse.writer import ClickHouseWriter, Hooks  # noqa: PLC0415

        return ClickHouseWriter(spec, Hooks())
