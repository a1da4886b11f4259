"""ClickHouse as source and target, over HTTP, in record batches, with parts that are moved."""

from __future__ import annotations

from penstock.backends.api.installation import check_installed
from penstock.backends.clickhouse.capabilities import SOURCE, TARGET
from penstock.backends.clickhouse.location import URLS
from penstock.backends.sql.backend import ModularBackend

check_installed("clickhouse_connect", "pyarrow")

backend = ModularBackend(
    __name__,
    URLS,
    SOURCE,
    TARGET,
    kinds=("clickhouse",),
    rewrites="merges and mutations",
    snapshot_burden="held nothing",
)
"""The object that the entry point refers to."""
