"""Two databases and a copy between them, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import CopySpec, PartitionPlan, PenstockError, copy, plan
from penstock.events import Event, Failed, Finished
from penstock_testkit import PostgresServer, S3Gateway, S3Server, Server, installed
from penstock_testkit.statistics import settle_statistics

from ..cli import run_cli
from ..conftest import fresh_database
from .parquet.parquet_datasets import Dataset

if TYPE_CHECKING:
    from tests.conftest import Connection

NEWEST = 18


@dataclass(frozen=True)
class Side:
    """One of the two databases."""

    url: str
    connection: Connection

    @property
    def version(self) -> int:
        """The server's major version."""
        return self.connection.info.server_version // 10000

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())
        settle_statistics(self.connection)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode()).fetchall()

    def value(self, query: str) -> Any:
        ((found,),) = self.rows(query)
        return found

    def count(self, table: str = "public.t", where: str = "true") -> int:
        found: int = self.value(f"SELECT count(*) FROM {table} WHERE {where}")
        return found

    def contents(self, table: str, where: str, columns: str) -> list[tuple[Any, ...]]:
        """Return the rows as text, in the same order on every server."""
        return sorted(self.rows(f"SELECT row({columns})::text FROM {table} AS t WHERE {where}"))


@dataclass(frozen=True)
class Pair:
    """A source database and a target database."""

    source: Side
    target: Side

    @property
    def version(self) -> int:
        """The older of the two servers' major versions."""
        return min(self.source.version, self.target.version)

    def needs(self, version: int, feature: str) -> None:
        """Skip the test if a server is older."""
        if self.version < version:
            pytest.skip(f"PostgreSQL {version} is the first with {feature}")

    def both(self, *statements: str) -> None:
        self.source.run(*statements)
        self.target.run(*statements)

    def spec(self, table: str | None = "public.t", **options: Any) -> CopySpec:
        defaults = {
            "source": self.source.url,
            "target": self.target.url,
            "table": table,
            "degree": 1,
        }
        return CopySpec(**{**defaults, **options})

    def plan(self, table: str = "public.t", **options: Any) -> PartitionPlan:
        return plan(self.spec(table, **options))

    def events(self, table: str | None = "public.t", **options: Any) -> list[Event]:
        """Copy to the end, and return the events. An error gets a note with them."""
        seen: list[Event] = []
        try:
            for event in copy(self.spec(table, **options)):
                seen.append(event)
        except PenstockError as error:
            for event in seen:
                if isinstance(event, Failed):
                    error.add_note(f"{event.partition_id} attempt {event.attempt}: {event.error}")
            raise
        return seen

    def copy(self, table: str | None = "public.t", **options: Any) -> Finished:
        """Copy to the end, and return the report."""
        report = self.events(table, **options)[-1]
        assert isinstance(report, Finished)
        assert report.status == "done"
        return report

    def cli(
        self, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the actual command line."""
        return run_cli(*arguments, env={**os.environ, **(environ or {})})

    @property
    def ends(self) -> list[str]:
        return ["--source", self.source.url, "--target", self.target.url]

    def assert_same(
        self, table: str = "public.t", where: str = "true", columns: str = "t.*"
    ) -> None:
        """Check that both sides contain the same rows, with the same multiplicity."""
        mine = self.source.contents(table, where, columns)
        theirs = self.target.contents(table, where, columns)
        assert mine == theirs

    def has_control_schema(self, name: str = "penstock") -> bool:
        query = "SELECT FROM pg_namespace WHERE nspname = %s"
        return self.target.connection.execute(query, [name]).fetchone() is not None


@pytest.fixture
def make_pair() -> Callable[[str, str, Connection, Connection], Pair]:
    """Return a function that creates a pair on a test's own servers."""

    def make(source_url: str, target_url: str, source: Connection, target: Connection) -> Pair:
        return Pair(Side(source_url, source), Side(target_url, target))

    return make


@pytest.fixture
def pair(source_url: str, target_url: str, source: Connection, target: Connection) -> Pair:
    return Pair(Side(source_url, source), Side(target_url, target))


@pytest.fixture(scope="session")
def older_server() -> Iterator[Server]:
    """Return a server of an older version, if the machine has one."""
    older = {version: programs for version, programs in installed().items() if version < NEWEST}
    if not older:
        pytest.skip("no older PostgreSQL in /usr/lib/postgresql; postgresql-15 of Debian would do")
    with PostgresServer(fsync=False, programs=older[min(older)]) as server:
        yield server


@pytest.fixture(
    params=["same versions", "from an older server", "to an older server", "older servers"]
)
def any_versions(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Return databases on each pair of server versions, in both directions."""
    servers: list[Server] = [
        request.getfixturevalue("older_server" if request.param in which else own)
        for which, own in (
            (("from an older server", "older servers"), "source_server"),
            (("to an older server", "older servers"), "target_server"),
        )
    ]
    with ExitStack() as stack:
        urls = [stack.enter_context(fresh_database(server)) for server in servers]
        sides = [
            Side(url, stack.enter_context(psycopg.connect(url, autocommit=True))) for url in urls
        ]
        yield Pair(*sides)


@pytest.fixture(scope="session")
def s3_gateway() -> Iterator[S3Gateway]:
    if why := S3Gateway.missing():
        pytest.skip(why)
    with S3Gateway() as server:
        yield server


@pytest.fixture(params=["local", "moto", "versitygw"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Return an empty location for a dataset, in a local folder and on each S3 server."""
    if request.param == "local":
        root = tmp_path / "lake" / "t"
        return Dataset(f"file://{root}", root=root)
    name = "s3_server" if request.param == "moto" else "s3_gateway"
    server: S3Server = request.getfixturevalue(name)
    bucket = server.create_bucket(f"b-{uuid.uuid4().hex[:12]}")
    return Dataset(server.url(f"{bucket}/lake/t"), server, bucket, "lake/t")
