"""How often a copy waits for an answer and how many statements it sends: for one table and for
many, for one partition and for many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all
from penstock.events import BatchFinished, Finished
from penstock_testkit import AnyMysqlServer, DistantServer

from .mysql_pair import Pair, execute, rows

MANY = 50
# Enough that no session sends more than the single worker's does.
PARTITIONS = 64
# One read. Into the target: begin; LOAD DATA waits before it may send, and at its end; the
# completed record; the commit.
SOURCE, TARGET = 1, 1 + 2 + 1 + 1
# A worker that copied another table before queries the types of its columns.
DESCRIBES = 1

MODES = ("recreate", "truncate")
# Margin for many tables: long statements in several pieces, and samples of the servers.
SPREAD = 12
# A table's statements in the source and the target together: its share of combined statements is
# SHOW CREATE TABLE, DROP TABLE, CREATE TABLE, ALTER TABLE; of an attempt fourteen.
STATEMENTS = 24
PLAIN = "ssl_mode=disabled"


@contextmanager
def distant(*urls: str) -> Iterator[list[DistantServer]]:
    """Proxies that count round trips; delaying would only take time."""
    with ExitStack() as stack:
        yield [stack.enter_context(DistantServer(url, 0)) for url in urls]


@pytest.mark.parametrize(
    ("options", "at_target"),
    [
        ({"mode": "append"}, TARGET),
        ({"mode": "truncate"}, TARGET),
        ({"mode": "recreate"}, TARGET),
        ({"mode": "append", "snapshot": "none"}, TARGET),
    ],
    ids=str,
)
def test_round_trips_of_each_partition(pair: Pair, options: dict[str, Any], at_target: int) -> None:
    with distant(pair.source, pair.target) as (source, target):
        spec = CopySpec(
            source=f"{source.url}?{PLAIN}",
            target=f"{target.url}?{PLAIN}",
            table=f"{pair.source.rpartition('/')[2]}.item",
            target_table=f"{pair.target.rpartition('/')[2]}.item",
            degree=1,
            strategy="range",
            key="id",
            partitions=PARTITIONS,
            **options,
        )
        *_, report = copy(spec)
        assert isinstance(report, Finished)
        pair.check_once()
        # Connecting and starting takes fewer than there are partitions.
        assert source.most // PARTITIONS == SOURCE
        assert target.most // PARTITIONS == at_target


@pytest.fixture(scope="module")
def tables(mysql_server: AnyMysqlServer) -> Iterator[str]:
    """A database of tables that all differ."""
    with mysql_server.new_database() as url:
        for number in range(MANY):
            execute(
                url,
                f"CREATE TABLE t{number} (id int AUTO_INCREMENT PRIMARY KEY, word varchar(9),"
                f" k{number} int NOT NULL DEFAULT {number}, KEY (word), UNIQUE KEY (k{number}, id))"
                " ENGINE = InnoDB",
                f"INSERT INTO t{number} (word) VALUES ('a'), (NULL), ('b')",
            )
        yield url


@pytest.mark.parametrize("mode", MODES)
def test_round_trips_of_many_tables(mysql_server: AnyMysqlServer, tables: str, mode: str) -> None:
    schema = tables.rpartition("/")[2]
    trips, statements = {}, {}
    for pattern, count in ((f"{schema}.t7", 1), (f"{schema}.t*", MANY)):
        with mysql_server.new_database() as url, distant(tables, url) as (source, target):
            created = {
                "target_schema": url.rpartition("/")[2], "tables": [pattern], "degree": 1,
                "control_schema": url.rpartition("/")[2],
            }  # fmt: skip
            ends = {"source": f"{source.url}?{PLAIN}", "target": f"{target.url}?{PLAIN}"}
            if mode != "recreate":
                for _ in copy_all(
                    BatchSpec.from_mapping({**ends, **created, "mode": "recreate"}, "")
                ):
                    pass
                source.reset()
                target.reset()
            before = questions(url)
            *_, end = copy_all(BatchSpec.from_mapping({**ends, **created, "mode": mode}, "test"))
            assert isinstance(end, BatchFinished)
            assert end.status == "done"
            assert len(end.tables) == count
            trips[count] = source.round_trips, target.round_trips
            statements[count] = questions(url) - before
    more = [many - one for one, many in zip(trips[1], trips[MANY], strict=True)]
    others = MANY - 1
    assert more[0] <= others * (SOURCE + DESCRIBES) + SPREAD, trips
    assert more[1] <= others * TARGET + SPREAD, trips
    assert statements[MANY] - statements[1] <= others * STATEMENTS, statements


def questions(url: str) -> int:
    """Return the number of statements that the server has run, alone or combined."""
    ((_, count),) = rows(url, "SHOW GLOBAL STATUS LIKE 'Questions'")
    return int(count)
