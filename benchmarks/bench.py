"""Two servers, and the tables to copy between them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg
from psycopg import sql

from penstock_testkit import PostgresServer, tpch

# Autovacuum would use CPU at unpredictable times.
SETTINGS: dict[str, str | int | float | bool] = {
    "autovacuum": False,
    "max_wal_size": "4GB",
    "max_connections": 300,  # 50 processes have two or three each
}


class WrongResult(RuntimeError):
    """A measured copy missed some rows, so its figures mean nothing."""


@dataclass(frozen=True)
class Bench:
    """A source and a target, both PostgreSQL 18 on this machine.

    Args:
        loaded: rows of lineitem by schema.
        blocks: cached plans, see `movers.blocks_of`.
    """

    source: PostgresServer
    target: PostgresServer
    loaded: dict[str, int] = field(default_factory=dict)
    blocks: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    @property
    def source_url(self) -> str:
        return self.source.url

    @property
    def target_url(self) -> str:
        return self.target.url

    def on_source(self, statement: LiteralString) -> None:
        with psycopg.connect(self.source_url, autocommit=True) as connection:
            connection.execute(statement)

    def on_target(self, statement: LiteralString) -> None:
        with psycopg.connect(self.target_url, autocommit=True) as connection:
            connection.execute(statement)

    def load_tpch(self, schema: str, scale: float) -> int:
        """Fill lineitem in a schema of the source; create it empty and unlogged in the target.

        This happens once for each schema.

        Returns: the number of rows.
        """
        if schema not in self.loaded:
            tpch.create(self.target_url, schema=schema, unlogged=True)
            rows = tpch.load(self.source_url, scale=scale, schema=schema)
            self.loaded[schema] = rows["lineitem"]
        return self.loaded[schema]

    def reset(self, table: str) -> None:
        """Empty the target's table, and let both servers finish all pending writes."""
        name = sql.Identifier(*table.split("."))
        with psycopg.connect(self.target_url, autocommit=True) as connection:
            connection.execute(sql.SQL("TRUNCATE {}").format(name))
        self.on_source("CHECKPOINT")
        self.on_target("CHECKPOINT")

    def check(self, table: str, rows: int) -> None:
        """Count the target's rows.

        Raises:
            WrongResult: the number of rows is not the expected one.
        """
        name = sql.Identifier(*table.split("."))
        with psycopg.connect(self.target_url) as connection:
            found = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone()
        if found is None or found[0] != rows:
            raise WrongResult(f"{table}: expected {rows:,} rows in the target, found {found}")


@contextmanager
def bytecode() -> Iterator[None]:
    """Let the measured Python programs keep their bytecode, as installed ones do.

    It goes to a temporary folder, regardless of this process's settings and the owner of the
    packages.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        before = dict(os.environ)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def started() -> Iterator[Bench]:
    """Run both servers for as long as the benchmark runs."""
    with (
        bytecode(),
        PostgresServer(settings=SETTINGS) as source,
        PostgresServer(settings=SETTINGS) as target,
    ):
        yield Bench(source, target)
