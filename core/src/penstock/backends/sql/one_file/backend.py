"""A backend whose databases are files: one object, whose parts are imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
from penstock.backends.api.scratch import Scratch
from penstock.backends.api.source import HeldSnapshot, SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import Reader, Writer
from penstock.backends.shared.database_file import FileUrls
from penstock.model.tables import Place, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec


class FileBackend:
    """
    Parameters:
        package: has the modules `source`, with `open_source`, `snapshot`, with `hold_snapshot`,
            `target`, with `open_target`, `reader`, with `open_reader`, `writer`, with
            `open_writer`, and where it has the capability `scratch`, with `open_scratch`. Each of
            these takes the file's path first (None: in memory), and then what the method of this
            class takes besides the URL.
        rewrites: see `Backend`.
    """

    located = False
    snapshot_burden = "kept others from writing to the source"
    environment: tuple[str, ...] = ()

    def __init__(
        self,
        package: str,
        urls: FileUrls,
        source: SourceCapabilities,
        target: TargetCapabilities,
        rewrites: str,
    ) -> None:
        self._package = package
        self._urls = urls
        self.source_capabilities = source
        self.target_capabilities = target
        self.rewrites = rewrites

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return self._urls.resolve(url, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return ()

    def place(self, url: str) -> Place:
        return self._urls.place(url)

    def _module(self, name: str) -> Any:
        # A worker needs neither catalog.
        return import_module(f"{self._package}.{name}")

    def source(self, url: str) -> SourceCatalog:
        found: SourceCatalog = self._module("source").open_source(self._urls.path(url))
        return found

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        held: HeldSnapshot = self._module("snapshot").hold_snapshot(self._urls.path(url))
        return held

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        path = self._urls.path(url)
        found: TargetCatalog = self._module("target").open_target(path, control_schema)
        return found

    def preload(self) -> None:
        self._module("reader")
        self._module("writer")

    def reader(self, spec: WorkerSpec) -> Reader:
        made: Reader = self._module("reader").open_reader(self._urls.path(spec.source), spec)
        return made

    def writer(self, spec: WorkerSpec) -> Writer:
        made: Writer = self._module("writer").open_writer(self._urls.path(spec.target), spec)
        return made

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        """Where the target has the capability."""
        made: Scratch = self._module("scratch").open_scratch(self._urls.path(url), like)
        return made
