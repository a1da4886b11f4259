"""Types of options, for editors and type checkers.

Written by scripts/option_arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import XComArg

Returned: TypeAlias = "XComArg"
"""The output of another task."""
Text: TypeAlias = "str | XComArg"
"""Text that may hold templates."""
Names: TypeAlias = "Sequence[str] | Text"
"""Names, or a comma-separated text."""
ColumnTypes: TypeAlias = "Mapping[str, str] | Sequence[str] | Text"
"""Types by column, or a `NAME=TYPE` for each column."""
Descendants = Literal[
    "include",
    "exclude",
]
Map = Literal[
    "name",
    "position",
]
Strategy = Literal[
    "auto",
    "blocks",
    "ctid",
    "range",
    "ntile",
    "hash",
    "values",
    "time",
    "children",
    "files",
    "whole",
]
Mode = Literal[
    "append",
    "truncate",
    "replace",
    "upsert",
    "recreate",
    "swap",
    "attach",
]
NullCursor = Literal[
    "refuse",
    "include",
]
Atomic = Literal[
    "table",
    "batch",
]
OnTargetChanged = Literal[
    "full",
    "fail",
]
Indexes = Literal[
    "keep",
    "defer",
]
Sequences = Literal[
    "set",
    "keep",
]
Arrays = Literal[
    "refuse",
    "json",
]
Enums = Literal[
    "check",
    "type",
    "text",
]
Compression = Literal[
    "zstd",
    "snappy",
    "gzip",
    "lz4",
    "none",
]
Snapshot = Literal[
    "shared",
    "none",
]
OnSnapshotLost = Literal[
    "fail",
    "restart",
    "accept",
]
OnError = Literal[
    "stop",
    "continue",
]
Verify = Literal[
    "none",
    "counts",
    "checksums",
]
ShowValues = Literal[
    "never",
    "errors",
]
