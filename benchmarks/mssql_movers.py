"""Ways to copy two tables from SQL Server to PostgreSQL and back, creating them each time.

Each function returns its CPU seconds.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from benchmarks import cost
from benchmarks.file_movers import PROGRAM
from benchmarks.turns import PENSTOCK

TABLES = ("votes", "posts")
SCHEMA = "so"
"""The schema in PostgreSQL."""
BACK = "dbo"
"""The schema in SQL Server."""
MIGRATE = "PENSTOCK_BENCH_MSSQL_PG_MIGRATE"
"""The program mssql-pg-migrate, built with `go build ./cmd/migrate`."""


@dataclass(frozen=True)
class Ends:
    """The two ends of a copy.

    Args:
        back: whether it goes from PostgreSQL to SQL Server.
    """

    source: str
    target: str
    back: bool


Mover = Callable[[Ends, int], float]


def penstock(ends: Ends, degree: int) -> float:
    schema, into = (SCHEMA, BACK) if ends.back else (BACK, SCHEMA)
    command = [PROGRAM, "copy-all", "--source", ends.source, "--target", ends.target]
    command += ["--tables", *(f"{schema}.{name}" for name in TABLES), "--target-schema", into]
    command += ["--mode", "recreate", "--degree", str(degree)]
    return cost.run([[*command, *([] if ends.back else ["--snapshot", "none"])]])


def migrate(ends: Ends, degree: int) -> float:
    """Copy with mssql-pg-migrate's own defaults, except for the number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = (
            _end(url, schema)
            for url, schema in zip(
                (ends.source, ends.target),
                (SCHEMA, BACK) if ends.back else (BACK, SCHEMA),
                strict=True,
            )
        )
        config = Path(folder) / "config.yaml"
        migration = {"workers": degree, "data_dir": folder, "include_tables": list(TABLES)}
        # JSON is valid YAML.
        config.write_text(json.dumps({"source": source, "target": target, "migration": migration}))
        config.chmod(0o600)
        return cost.run([[os.environ[MIGRATE], "run", "--config", str(config)]])


def _end(url: str, schema: str) -> dict[str, Any]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    mssql = parts.scheme == "mssql"
    found = {
        "type": "mssql" if mssql else "postgres",
        "host": parts.hostname,
        "port": parts.port,
        "database": unquote(parts.path[1:]),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or "none"),
        "schema": schema,
    }
    if not mssql:
        return {**found, "ssl_mode": "disable"}
    trusted = options.get("trust_server_certificate") == "yes"
    encrypted = options.get("encrypt") != "no"
    return {**found, "encrypt": encrypted, "trust_server_cert": trusted}


def movers() -> Mapping[str, Mover]:
    found: dict[str, Mover] = {PENSTOCK: penstock}
    return {**found, "mssql-pg-migrate": migrate} if os.environ.get(MIGRATE) else found
