"""ClickHouse as source and target: over HTTP, in record batches, with parts that are moved."""

from __future__ import annotations

from importlib.util import find_spec

from penstock.backends.clickhouse.capabilities import SOURCE, TARGET
from penstock.backends.clickhouse.location import URLS
from penstock.backends.sql.backend import ModularBackend

# Imported where they are used; that one is not installed is said before.
for _name in ("clickhouse_connect", "pyarrow"):
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"No module named {_name!r}", name=_name)

backend = ModularBackend(
    __name__, URLS, SOURCE, TARGET, rewrites="merges and mutations", snapshot_burden="held nothing"
)
"""The object that the entry point names."""
