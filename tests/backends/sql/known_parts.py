"""The kinds of parts of a table's definition that are read from each system."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.table_model import (
    CHECKS,
    COMMENTS,
    DEFAULTS,
    FOREIGN_KEYS,
    GENERATED,
    IDENTITIES,
    INDEXES,
    ON_UPDATES,
    PARTITIONING,
    PRIMARY_KEYS,
    UNIQUE_KEYS,
)

_MOST = frozenset(
    {PRIMARY_KEYS, UNIQUE_KEYS, CHECKS, INDEXES, FOREIGN_KEYS, DEFAULTS, IDENTITIES, GENERATED,
     COMMENTS}
)  # fmt: skip
KNOWN: Mapping[str, frozenset[str]] = {
    "postgresql": _MOST | {PARTITIONING},
    "mysql": _MOST | {ON_UPDATES, PARTITIONING},
    # A server's partitions are listed with the table's dependents.
    "mssql": _MOST | {PARTITIONING},
    "duckdb": _MOST,
    "snowflake": frozenset(
        {PRIMARY_KEYS, UNIQUE_KEYS, FOREIGN_KEYS, DEFAULTS, IDENTITIES, COMMENTS}
    ),
    # Computed columns are listed with the table's dependents.
    "clickhouse": frozenset({CHECKS, INDEXES, DEFAULTS, GENERATED, COMMENTS, PARTITIONING}),
}
