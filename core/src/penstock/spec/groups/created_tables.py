"""Tables that the copy creates, and files that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from penstock.errors import UsageError
from penstock.spec.option import option

Arrays = Literal["refuse", "json"]
ARRAYS = get_args(Arrays)
Enums = Literal["check", "type", "text"]
ENUMS = get_args(Enums)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class CreatedTables:
    """The options under "tables that the copy creates"."""

    title: ClassVar[str] = "tables that the copy creates"

    schema_only: bool = option(
        False,
        "create the target's table like the source's, with keys, indexes and the like, and copy "
        "no rows; an existing table is kept and is an error, unless --mode recreate drops it",
    )
    create: bool = option(
        False,
        "create the target's schema if it is missing, as --mode recreate always does; without "
        "this, a missing schema is an error, because its name may be mistyped",
        execution=True,
        planned=True,
    )
    data_only: bool = option(
        False,
        "copy rows into existing tables and create none; foreign keys between the tables of a "
        "batch are dropped before the first row and restored after the last",
    )
    types: tuple[str, ...] | None = option(
        None,
        "types for the columns of a table created on another kind of system, in the target's "
        "notation ('a=bigint, b=numeric(12,2)'), for files in Arrow's ('a=int64, "
        "b=decimal128(12,2)'); by default types that fit. A name may be a pattern ('*_at'), or "
        "a type of the source ('source:tinyint(1)')",
        metavar="NAME=TYPE,...",
    )
    arrays: Arrays = option(
        "refuse",
        "array columns of a table created on a system without arrays: fail before anything is "
        "created (refuse), or write them as JSON (json)",
        choices=ARRAYS,
    )
    enums: Enums = option(
        "check",
        "enum columns of a table created on another kind of system: the target's own enum if it "
        "is declared with the column, else text with a check constraint (check); a separate "
        "enum type if the target has them (type); or unconstrained text (text)",
        choices=ENUMS,
    )
    order_by: tuple[str, ...] | None = option(
        None,
        "the columns by which a created table keeps its rows sorted, separated by commas "
        "(default: the source's primary key)",
        metavar="A,B",
    )
    partitioning: bool = option(
        False,
        "with recreate: partition the target like the source, instead of creating a plain table",
        of_mode=True,
    )

    @cached_property
    def column_types(self) -> dict[str, str]:
        """The types of `types`, by column."""
        pairs = [rule.partition("=") for rule in self.types or ()]
        for name, separator, kind in pairs:
            if not (name.strip() and separator and kind.strip()):
                pair = name + separator + kind
                raise UsageError(f"--types: expected NAME=TYPE for each column, found {pair!r}")
        return {name.strip(): kind.strip() for name, _, kind in pairs}


Compression = Literal["zstd", "snappy", "gzip", "lz4", "none"]
COMPRESSIONS = get_args(Compression)


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
    compression: Compression | None = option(
        None, "for files: the compression codec (default: zstd)", choices=COMPRESSIONS
    )
