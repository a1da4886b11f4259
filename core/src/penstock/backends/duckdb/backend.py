from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.backends.duckdb import location
from penstock.backends.duckdb.capabilities import SOURCE, TARGET

if TYPE_CHECKING:
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation
    from penstock.spec.worker_spec import WorkerSpec


class DuckBackend:
    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = False
    rewrites = "a change of its rows, or a table of the same name in its place"
    snapshot_burden = "kept others from writing to the source"
    environment: tuple[str, ...] = ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return location.resolve(url, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return ()

    def place(self, url: str) -> Place:
        return location.place_of(url)

    # The modules are imported where they are used: a worker needs neither catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.duckdb.source import DuckSource  # noqa: PLC0415

        return DuckSource(url)

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.duckdb.snapshot import OpenFile  # noqa: PLC0415

        return OpenFile(location.path_of(url))

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.duckdb.target import DuckTarget  # noqa: PLC0415

        return DuckTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.duckdb import reader, writer  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.duckdb.reader import DuckReader  # noqa: PLC0415

        return DuckReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.duckdb.writer import duck_writer  # noqa: PLC0415

        return duck_writer(spec)
