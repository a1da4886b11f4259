"""Older servers on either side: every statement that Penstock sends works there too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.conftest import fresh_database

from penstock import copy, resume
from penstock.events import Committed, Finished
from penstock_testkit import PostgresServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

# Debian's location for them; others are tested if installed.
INSTALLED = {
    int(folder.name): folder / "bin"
    for folder in sorted(Path("/usr/lib/postgresql").glob("[0-9]*"))
    if (folder / "bin" / "postgres").is_file()
}
PACKAGED = 18
OLDER = [version for version in INSTALLED if 12 <= version < PACKAGED] or [15]
PAIRS = [
    sides
    for version in OLDER
    for sides in ((version, PACKAGED), (PACKAGED, version), (version,) * 2)
]


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[int], PostgresServer]]:
    running: dict[int, PostgresServer] = {}

    def start(version: int) -> PostgresServer:
        if version != PACKAGED and version not in INSTALLED:
            pytest.skip(f"PostgreSQL {version} is not installed")
        if version not in running:
            running[version] = PostgresServer(fsync=False, programs=INSTALLED.get(version))
            running[version].start()
        return running[version]

    yield start
    for server in running.values():
        server.close()


@pytest.fixture(params=PAIRS, ids=lambda sides: f"{sides[0]} to {sides[1]}")
def mixed(
    request: pytest.FixtureRequest,
    servers: Callable[[int], PostgresServer],
    make_pair: Callable[..., Pair],
) -> Iterator[Pair]:
    source, target = (servers(version) for version in request.param)
    with (
        fresh_database(source) as source_url,
        fresh_database(target) as target_url,
        psycopg.connect(source_url, autocommit=True) as mine,
        psycopg.connect(target_url, autocommit=True) as theirs,
    ):
        pair = make_pair(source_url, target_url, mine, theirs)
        pair.both("CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz)")
        pair.source.run(
            "INSERT INTO t SELECT n, nullif('name ' || n % 40, 'name 7'), timestamptz '2026-01-01'"
            " + n * interval '1 hour' FROM generate_series(1, 3000) AS n",
            "ANALYZE t",
        )
        yield pair


CUTS: list[dict[str, Any]] = [
    {},
    {"strategy": "ctid", "partitions": 4},
    {"strategy": "range", "partitions": 4},
    {"strategy": "ntile", "key": "name", "partitions": 4},
    {"strategy": "hash", "key": "name", "partitions": 4},
    {"strategy": "values", "key": "id % 3"},
    {"strategy": "time", "key": "at", "interval": "1 month"},
    {"mode": "replace", "key": "id", "partitions": 4},
]


def test_every_strategy_copies_all_rows(mixed: Pair) -> None:
    for options in CUTS:
        mixed.copy(**{"mode": "truncate", "degree": 2, **options})
        mixed.assert_same()


def test_other_relations_are_copied(mixed: Pair) -> None:
    mixed.source.run(
        "CREATE VIEW v AS TABLE t",
        "CREATE MATERIALIZED VIEW m AS TABLE t",
        "CREATE TABLE p (at timestamptz, id int, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200)",
        "CREATE TABLE p3 PARTITION OF p DEFAULT",
        "INSERT INTO p (id, name, at) TABLE t",
        "CREATE TABLE i (LIKE t)",
        "CREATE TABLE i1 () INHERITS (i)",
        "INSERT INTO i SELECT * FROM t WHERE id < 1000",
        "INSERT INTO i1 SELECT * FROM t WHERE id >= 1000",
    )
    for table in ("v", "m", "p", "i"):
        mixed.copy(f"public.{table}", target_table="public.t", mode="truncate", partitions=6)
        mixed.assert_same()
    spec = mixed.spec(None, query="TABLE v;", target_table="public.t", mode="truncate", key="id")
    *_, report = copy(spec)
    assert isinstance(report, Finished)
    assert report.status == "done"
    mixed.assert_same()


def test_runs_are_resumed_and_verified(mixed: Pair) -> None:
    events = copy(mixed.spec(partitions=4, run_id="r", mode="truncate"))
    for event in events:
        if isinstance(event, Committed):
            break
    events.close()
    *_, report = resume(
        "r", source=mixed.source.url, target=mixed.target.url, on_snapshot_lost="restart"
    )
    assert isinstance(report, Finished)
    assert report.status == "done"
    mixed.assert_same()
    done = mixed.cli("verify", "r", *mixed.ends)
    assert done.returncode == 0, done.stdout + done.stderr
    assert mixed.cli("status", "r", "--target", mixed.target.url).returncode == 0


def test_xml_declarations_are_kept(mixed: Pair) -> None:
    """COPY omits them from the values of an XML column only."""
    mixed.both("CREATE TABLE x (id int, doc xml)")
    declared = """INSERT INTO x VALUES
        (1, '<?xml version="1.0" encoding="UTF-8"?><a>ä</a>'), (2, '<b/>'), (3, NULL),
        (4, '<?xml version="1.0" standalone="yes"?><c/>')"""
    try:
        for side in (mixed.target, mixed.source):
            side.run(declared)
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("a server is built without libxml")
    mixed.copy("x", mode="truncate", verify="checksums")
    query = "SELECT id, doc::text FROM x ORDER BY id"
    assert mixed.target.rows(query) == mixed.source.rows(query)


def test_partitions_are_attached(mixed: Pair) -> None:
    mixed.target.run("CREATE TABLE parted (LIKE t, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    options: dict[str, Any] = {"mode": "attach", "strategy": "range", "key": "id", "partitions": 4}
    for _ in range(2):  # replaces the children the second time
        mixed.copy(**options, target_table="public.parted", verify="checksums")
        assert mixed.target.count("parted") == 3000
