"""The location of a dataset: its data files, and the documents that describe them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote

from penstock.backends.parquet.load.file_format import PARQUET, FileFormat
from penstock.backends.parquet.location import S3, FilesLocation, check_folder, parse
from penstock.backends.parquet.storage.documents import (
    CachedDocuments,
    LocalDocuments,
    S3Documents,
)
from penstock.backends.parquet.storage.filesystems import s3_client
from penstock.backends.parquet.storage.local_uploads import LocalUploads
from penstock.backends.parquet.storage.s3_uploads import S3Uploads
from penstock.backends.parquet.storage.uploads import Uploads
from penstock.backends.shared.attempts.presence import Presence


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of a dataset."""

    location: FilesLocation
    documents: CachedDocuments
    uploads: Uploads
    hidden: str = ""
    """The folder of the documents, if it is local."""
    format: FileFormat = PARQUET

    def __str__(self) -> str:
        return str(self.location)

    def presence(self) -> Presence | None:
        """Return which runs are active; None in a bucket, where nothing ends with a process."""
        return Presence(os.path.join(self.hidden, "entered")) if self.hidden else None


def open_storage(url: str, control_schema: str) -> Storage:
    """Open the storage of a dataset.

    Args:
        url: the URL of a folder.
        control_schema: names the folder of the documents, after a ``_``, so that readers of
            datasets ignore it.

    Raises:
        UsageError: the URL refers to several places, or to one file.
        PermanentError: no credentials were found.
    """
    location = parse(url, "--target")
    check_folder(location, "--target")
    return storage_at(location, control_schema, PARQUET)


def storage_at(location: FilesLocation, control_schema: str, format: FileFormat) -> Storage:
    """Open the storage of a location known to be a folder; see `open_storage`.

    Args:
        location: a folder.
        control_schema: as for `open_storage`.
        format: the format of the data files.
    """
    hidden = "_" + quote(control_schema, safe="")
    if location.scheme == S3:
        client = s3_client(location, "target")
        prefix = location.key + "/" if location.key else ""
        return Storage(
            location,
            CachedDocuments(S3Documents(client, location.bucket, f"{prefix}{hidden}/")),
            S3Uploads(client, location.bucket, prefix, format.suffixes),
            format=format,
        )
    root = location.path
    return Storage(
        location,
        CachedDocuments(LocalDocuments(f"{root}/{hidden}")),
        LocalUploads(root, f"{root}/{hidden}", format.suffixes),
        f"{root}/{hidden}",
        format,
    )
