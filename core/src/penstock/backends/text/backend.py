"""The object that the entry points of text files refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.backends.parquet import location as files
from penstock.backends.parquet.backend import ParquetBackend
from penstock.backends.text import location
from penstock.backends.text.capabilities import JSON_SOURCE, JSON_TARGET, SOURCE, TARGET

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation
    from penstock.spec.worker_spec import WorkerSpec


class TextBackend:
    """The backend of CSV and JSON lines.

    Args:
        kind: the name of the files' format in catalogs of data assets.
        remote: whether the files are on S3.
    """

    def __init__(self, kind: str, *, remote: bool) -> None:
        self._files = ParquetBackend(remote=remote)
        self.kinds: tuple[str, ...] = (kind, "s3") if remote else (kind,)
        is_csv = kind == "csv"
        self.source_capabilities = SOURCE if is_csv else JSON_SOURCE
        self.target_capabilities = TARGET if is_csv else JSON_TARGET

    located = True
    rewrites = ParquetBackend.rewrites
    snapshot_burden = ParquetBackend.snapshot_burden
    environment = ParquetBackend.environment

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return location.resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return files.secrets_of(location.parse(url, "connection").files)

    def place(self, url: str) -> Place:
        return files.place_at(location.parse(url, "connection").files)

    # The modules are imported where they are used: a worker needs neither catalog.

    def with_types(
        self, url: str, types: Sequence[tuple[str, pa.DataType | None]], *, by_position: bool
    ) -> str:
        from penstock.backends.text.files.snapshot import with_types  # noqa: PLC0415

        return with_types(url, types, by_position=by_position)

    def with_given(self, url: str, given: str) -> str:
        return location.given(url, given)

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.text.source import TextSource  # noqa: PLC0415

        return TextSource(url)

    def list_files(self, url: str) -> dict[str, str]:
        from penstock.backends.parquet.files.listing import list_files  # noqa: PLC0415

        parsed = location.parse(url, "--source")
        files = list_files(parsed.files, may_be_none=True)
        ours = [file for file in files if location.is_text_file(file.path, parsed.options.format)]
        # If the URL names a single file or the format, the suffix does not matter.
        chosen = ours or (files if len(files) == 1 else ())
        return {file.path: f"{file.size} {file.version}" for file in chosen}

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.text.files.snapshot import TextSnapshot  # noqa: PLC0415

        return TextSnapshot(url)

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.text.target import TextTarget  # noqa: PLC0415

        return TextTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.text import reader, writer  # noqa: F401, PLC0415

        self._files.preload()

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.text.reader import TextReader  # noqa: PLC0415

        return TextReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.text.writer import text_writer  # noqa: PLC0415

        return text_writer(spec)
