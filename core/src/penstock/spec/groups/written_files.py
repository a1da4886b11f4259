"""Files that the copy writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.spec.option import option

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class WrittenFiles:
    """The options under "files that the copy writes"."""

    title: ClassVar[str] = "files that the copy writes"

    partition_by: tuple[str, ...] | None = option(
        None,
        "for files: the columns whose values name the folders, separated by commas",
        metavar="A,B",
    )
    file_size: int | None = option(
        None,
        "for files: start a new file after this many bytes, such as 256MB (default: one for "
        "each partition, up to 1GB)",
        metavar="SIZE",
    )
    row_group_size: int | None = option(
        None, "for files: the number of rows in a row group (default: 122,880)", metavar="N"
    )
    compression: str | None = option(
        None, "for files: the compression codec (default: zstd)", choices=COMPRESSIONS
    )
