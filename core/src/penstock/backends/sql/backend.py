"""A backend whose parts are imported when they are used: one object per database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
from penstock.backends.api.optional.scratch import Scratch
from penstock.backends.api.source import HeldSnapshot, SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import Reader, Writer
from penstock.model.tables import Place, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec


class Urls(Protocol):
    """See `Backend`."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str: ...

    def secrets(self, url: str) -> tuple[str, ...]: ...

    def place(self, url: str) -> Place: ...


class ModularBackend:
    """A backend made of modules.

    Args:
        package: the package with the modules `source`, with `open_source`, `target`, with
            `open_target`, `reader`, with `open_reader`, `writer`, with `open_writer`; and where it
            has the capability, `snapshot`, with `hold_snapshot`, `records`, with `ddl`, and
            `load.scratch`, with `open_scratch`. Each of these takes what the method of this class
            takes.
        kinds, rewrites, snapshot_burden: see `Backend`.
    """

    located = False
    environment: tuple[str, ...] = ()

    def __init__(
        self,
        package: str,
        urls: Urls,
        source: SourceCapabilities,
        target: TargetCapabilities,
        kinds: tuple[str, ...],
        rewrites: str,
        snapshot_burden: str,
    ) -> None:
        self._package = package
        self._urls = urls
        self.source_capabilities = source
        self.target_capabilities = target
        self.kinds = kinds
        self.rewrites = rewrites
        self.snapshot_burden = snapshot_burden

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return self._urls.resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return self._urls.secrets(url)

    def place(self, url: str) -> Place:
        return self._urls.place(url)

    def _module(self, name: str) -> Any:
        # A worker needs no catalog.
        return import_module(f"{self._package}.{name}")

    def _opened(self, url: str) -> Any:
        """Return the part of a URL that the modules' functions take."""
        return url

    def source(self, url: str) -> SourceCatalog:
        catalog: SourceCatalog = self._module("source").open_source(self._opened(url))
        return catalog

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        opened = self._opened(url)
        snapshot: HeldSnapshot = self._module("snapshot").hold_snapshot(opened, relations)
        return snapshot

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        opened = self._opened(url)
        catalog: TargetCatalog = self._module("target").open_target(opened, control_schema)
        return catalog

    def preload(self) -> None:
        self._module("reader")
        self._module("writer")

    def reader(self, spec: WorkerSpec) -> Reader:
        reader: Reader = self._module("reader").open_reader(spec)
        return reader

    def writer(self, spec: WorkerSpec) -> Writer:
        writer: Writer = self._module("writer").open_writer(spec)
        return writer

    def control_ddl(self, control_schema: str) -> str:
        return str(self._module("records").ddl(control_schema))

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        scratch: Scratch = self._module("load.scratch").open_scratch(self._opened(url), like)
        return scratch
