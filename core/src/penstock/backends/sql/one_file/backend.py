"""A backend whose databases are files."""

from __future__ import annotations

from penstock.backends.api.capabilities import SourceCapabilities, TargetCapabilities
from penstock.backends.api.worker import Reader, Writer
from penstock.backends.shared.database_file import FileUrls
from penstock.backends.sql.backend import ModularBackend
from penstock.spec.worker_spec import WorkerSpec


class FileBackend(ModularBackend):
    """A backend for database files.

    Args:
        package: the package whose modules' functions take the file's path first (None: in memory),
            then what the method takes besides the URL.
        kinds, rewrites: see `Backend`.
    """

    _urls: FileUrls

    def __init__(
        self,
        package: str,
        urls: FileUrls,
        source: SourceCapabilities,
        target: TargetCapabilities,
        kinds: tuple[str, ...],
        rewrites: str,
    ) -> None:
        burden = "kept others from writing to the source"
        super().__init__(package, urls, source, target, kinds, rewrites, burden)

    def _opened(self, url: str) -> str | None:
        return self._urls.path(url)

    def reader(self, spec: WorkerSpec) -> Reader:
        reader: Reader = self._module("reader").open_reader(self._opened(spec.source), spec)
        return reader

    def writer(self, spec: WorkerSpec) -> Writer:
        writer: Writer = self._module("writer").open_writer(self._opened(spec.target), spec)
        return writer
