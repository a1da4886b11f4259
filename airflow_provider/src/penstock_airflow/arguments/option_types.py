"""Types of options, for editors and type checkers.

Written by scripts/option_arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from penstock_airflow.sdk import XComArg

Returned: TypeAlias = "XComArg"
"""The output of another task."""
Text: TypeAlias = "str | XComArg"
"""Text that may hold templates."""
Names: TypeAlias = "Sequence[str] | Text"
"""Names, or a comma-separated text."""
ColumnTypes: TypeAlias = "Mapping[str, str] | Sequence[str] | Text"
"""Types by column, or a `NAME=TYPE` for each column."""
Map = Literal[
    "name",
    "position",
]
Descendants = Literal[
    "include",
    "exclude",
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
NullCursor = Literal[
    "refuse",
    "include",
]
OnTargetChanged = Literal[
    "full",
    "fail",
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
Mode = Literal[
    "append",
    "truncate",
    "replace",
    "upsert",
    "recreate",
    "swap",
    "attach",
]
Atomic = Literal[
    "table",
    "batch",
]
Indexes = Literal[
    "keep",
    "defer",
]
Sequences = Literal[
    "set",
    "keep",
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
