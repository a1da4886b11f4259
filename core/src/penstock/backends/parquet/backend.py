"""The object that the entry points `file` and `s3` refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.backends.parquet import location
from penstock.backends.parquet.capabilities import SOURCE, TARGET

if TYPE_CHECKING:
    from penstock.backends.api.optional.scratch import Scratch
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.target import TargetCatalog
    from penstock.backends.api.worker import Reader, Writer
    from penstock.model.tables import Place, Relation, TableRef
    from penstock.spec.worker_spec import WorkerSpec


class ParquetBackend:
    """The backend of Parquet files.

    Args:
        remote: whether the files are on S3.
    """

    def __init__(self, *, remote: bool) -> None:
        self._remote = remote
        self.kinds: tuple[str, ...] = ("parquet", "s3") if remote else ("parquet",)

    source_capabilities = SOURCE
    target_capabilities = TARGET
    located = True
    rewrites = "files that were replaced"
    snapshot_burden = "needed the source's files unchanged"
    # https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html, without keys and
    # tokens, which have been moved from the environment to the URL.
    environment = (
        "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_*", "AWS_METADATA_SERVICE_*",
        "AWS_STS_REGIONAL_ENDPOINTS", "AWS_ENDPOINT_URL_STS", "AWS_CA_BUNDLE",
        "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_SDK_LOAD_CONFIG",
    )  # fmt: skip

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return location.resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return location.secrets(url)

    def place(self, url: str) -> Place:
        return location.place_of(url)

    # Modules are imported where they are used: a worker needs no catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.parquet.source import ParquetSource  # noqa: PLC0415

        return ParquetSource(url)

    def list_files(self, url: str) -> dict[str, str]:
        from penstock.backends.parquet.files.listing import list_files  # noqa: PLC0415

        files = list_files(location.parse(url, "--source"), may_be_none=True)
        return {file.path: f"{file.size} {file.version}" for file in files}

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.parquet.files.snapshot import FilesSnapshot  # noqa: PLC0415

        return FilesSnapshot(url)

    def target(self, url: str, control_schema: str) -> TargetCatalog:
        from penstock.backends.parquet.target import ParquetTarget  # noqa: PLC0415

        return ParquetTarget(url, control_schema)

    def preload(self) -> None:
        from penstock.backends.parquet import reader, writer  # noqa: F401, PLC0415
        from penstock.backends.parquet.storage import filesystems  # noqa: PLC0415

        if self._remote:
            filesystems.preload()

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.parquet.reader import ParquetReader  # noqa: PLC0415

        return ParquetReader(spec)

    def writer(self, spec: WorkerSpec) -> Writer:
        from penstock.backends.parquet.writer import parquet_writer  # noqa: PLC0415

        return parquet_writer(spec)

    def scratch(self, url: str, like: TableRef | None) -> Scratch:
        from penstock.backends.parquet.scratch import ParquetScratch  # noqa: PLC0415

        return ParquetScratch(url, like)
