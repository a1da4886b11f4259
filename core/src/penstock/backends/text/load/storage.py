"""The location of a text target: a folder of files, or one file with a folder next to it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from urllib.parse import quote

from penstock.backends.parquet.storage.storage import Storage, storage_at
from penstock.backends.text.load.text_format import TextFormat
from penstock.backends.text.location import check_target, parse


@dataclass(frozen=True, slots=True)
class TextStorage(Storage):
    """The storage of a dataset of text files."""

    whole: str = ""
    """The path of the single file that all partitions become; empty if each becomes its own."""

    def __str__(self) -> str:
        return f"file://{quote(self.whole)}" if self.whole else str(self.location)


def open_text_storage(url: str, control_schema: str) -> TextStorage:
    """Open the storage of a text target.

    Raises:
        UsageError: the URL refers to several places.
        PermanentError: no credentials were found.
    """
    location = parse(url, "--target")
    check_target(location, "--target")
    folder = location.folder
    whole = "" if folder else location.files.path
    if folder is None:
        # Hidden from people and patterns.
        parent, name = os.path.split(whole)
        hidden = f"{parent.rstrip('/')}/.{name}.penstock"
        folder = replace(location.files, patterns=(quote(hidden),))
    format_ = TextFormat(location.options, whole=bool(whole))
    parts = storage_at(folder, control_schema, format_)
    return TextStorage(
        parts.location, parts.documents, parts.uploads, parts.hidden, parts.format, whole
    )
