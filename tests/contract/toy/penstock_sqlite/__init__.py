"""SQLite as source and target: the least that a backend needs, as an example to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.capabilities import STAGED, SourceCapabilities, TargetCapabilities
from penstock.backends.api.source import HeldSnapshot, SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import ARROW, Reader, Writer
from penstock.backends.shared.database_file import FileUrls
from penstock.model.tables import Place, Relation
from penstock.spec.modes import APPEND, REPLACE, TRUNCATE
from penstock.spec.strategies import AUTO, HASH, NTILE, VALUES, WHOLE
from penstock.spec.worker_spec import WorkerSpec

URLS = FileUrls("sqlite")
TARGET = TargetCapabilities(
    system="SQLite",
    formats=(ARROW,),
    modes=(APPEND, TRUNCATE, REPLACE),
    makes_missing=(),
    options={},
    replaces_by_condition=True,
    commits=STAGED,
    steps_with_records=True,
    control_ddl=False,
    tells_rows_apart=False,
)


class SqliteBackend:
    located = False
    rewrites = "a change of its rows"
    snapshot_burden = "kept others from writing to the source"
    environment: tuple[str, ...] = ()
    source_capabilities = SourceCapabilities(
        system="SQLite", formats=(ARROW,), strategies=(AUTO, NTILE, HASH, VALUES, WHOLE)
    )
    target_capabilities = TARGET

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return URLS.resolve(url, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return ()

    def place(self, url: str) -> Place:
        return URLS.place(url)

    # Imported where they are used: a worker needs neither catalog.

    def source(self, url: str) -> SourceCatalog:
        from .source import SqliteSource  # noqa: PLC0415

        return SqliteSource(_path(url))

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from .source import HeldFile  # noqa: PLC0415

        return HeldFile(_path(url))

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from .target import SqliteTarget  # noqa: PLC0415

        return SqliteTarget(_path(url), control_schema)

    def preload(self) -> None:
        from . import reader, writer  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from .reader import SqliteReader  # noqa: PLC0415

        return SqliteReader(_path(spec.source), spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from .writer import sqlite_writer  # noqa: PLC0415

        return sqlite_writer(_path(spec.target), spec)


def _path(url: str) -> str:
    path = URLS.path(url)
    assert path is not None
    return path


backend = SqliteBackend()
"""The object that the entry point names."""
