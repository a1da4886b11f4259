"""MySQL servers that require a primary key of each table, or add an invisible one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import CopySpec, PermanentError, PlanningError, copy
from penstock_testkit import MysqlServer, ServerError
from penstock_testkit.mysql_programs import real_mysql_program

from .mysql_pair import execute, rows

REQUIRED, GENERATED = "sql_require_primary_key", "sql_generate_invisible_primary_key"
SWITCH_OFF = r"sql_require_primary_key.*SESSION_VARIABLES_ADMIN"


@pytest.fixture(params=(REQUIRED, GENERATED))
def setting(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(setting: str) -> Iterator[MysqlServer]:
    try:
        program = real_mysql_program()
    except ServerError as error:
        pytest.skip(str(error))
    with MysqlServer(program=program) as server:
        execute(
            server.url,
            "CREATE TABLE t (id int PRIMARY KEY, v int, KEY (v))",
            "CREATE TABLE bare (id int, v int)",
            "INSERT INTO t VALUES (1, 1), (2, 2)",
            "INSERT INTO bare SELECT * FROM t",
            "CREATE USER plain IDENTIFIED BY 'penstock'",
            "GRANT ALL ON test.* TO plain",
            "GRANT ALL ON penstock.* TO plain",
            "GRANT RELOAD ON *.* TO plain",
            f"SET GLOBAL {setting} = ON",
        )
        yield server


PLAIN = "plain"
FULL: dict[str, Any] = {"atomic": "table", "deletes": "hard,100%"}
NIGHT: dict[str, Any] = {**FULL, "atomic": None, "incremental": "v", "lookback": "0"}


def load(server: MysqlServer, table: str, mode: str, user: str | None = None, **more: Any) -> None:
    url = server.url_for(user=user, password="penstock" if user else None)
    ends = {"source": url, "target": url, "table": table, "target_table": f"test.{table}_copy"}
    for _ in copy(CopySpec(**{**ends, "mode": mode, "verify": "checksums", **more})):
        pass


def copied(server: MysqlServer, table: str) -> list[tuple[Any, ...]]:
    return rows(server.url, f"SELECT * FROM {table}_copy ORDER BY id")


def test_sessions_that_may_set_it(server: MysqlServer) -> None:
    for table, modes in (("t", ("recreate", "upsert")), ("bare", ("recreate", "truncate"))):
        for mode in modes:
            load(server, table, mode)
        assert copied(server, table) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("setting", [GENERATED], indirect=True)
def test_generated_keys_are_no_columns(server: MysqlServer) -> None:
    for mode in ("recreate", "truncate"):
        load(server, "bare", mode, PLAIN)
        assert copied(server, "bare") == [(1, 1), (2, 2)]


@pytest.mark.parametrize("setting", [REQUIRED], indirect=True)
@pytest.mark.parametrize("variables", [("local_infile = ON",), ("local_infile = OFF",)])
def test_all_modes_without_the_privilege(server: MysqlServer, variables: tuple[str, ...]) -> None:
    execute(server.url, *(f"SET GLOBAL {each}" for each in variables))
    changes = (
        "UPDATE t SET v = v + 10",
        "INSERT INTO t VALUES (3, 30)",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = 40 WHERE id = 3",
        "INSERT INTO t VALUES (4, 50)",
        "UPDATE t SET v = 60 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (5, 70), (6, 80)",
        "DELETE FROM t WHERE id = 2",
    )
    loads: list[tuple[str, dict[str, Any]]] = [
        ("recreate", {}),
        ("upsert", {}),
        ("replace", {"key": "id"}),
        ("swap", {}),
        ("truncate", {"indexes": "defer"}),
        ("replace", {"key": "id", "atomic": "table"}),
        ("upsert", FULL),
        ("upsert", NIGHT),
        ("upsert", {**NIGHT, "deletes": "ignore"}),
        ("upsert", NIGHT),
    ]
    expected: list[tuple[Any, ...]] = []
    for place, (mode, more) in enumerate(loads):
        if place < len(changes):
            execute(server.url, changes[place])
        load(server, "t", mode, PLAIN, partitions=2, **more)
        found = copied(server, "t")
        expected = rows(server.url, "SELECT * FROM t ORDER BY id")
        kept = mode == "upsert" and more.get("deletes") != "hard"
        assert set(found) >= set(expected) if kept else found == expected, (mode, more)
    assert copied(server, "t") == expected
    left = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'test'"
    assert {name for (name,) in rows(server.url, left)} == {"t", "bare", "t_copy"}


@pytest.mark.parametrize("setting", [REQUIRED], indirect=True)
def test_a_table_without_a_key_is_refused(server: MysqlServer) -> None:
    with pytest.raises(PlanningError, match=SWITCH_OFF):
        load(server, "bare", "recreate", PLAIN)
    load(server, "bare", "recreate")
    load(server, "bare", "truncate", PLAIN)
    with pytest.raises(PermanentError, match=SWITCH_OFF):
        load(server, "bare", "swap", PLAIN)
    assert copied(server, "bare") == [(1, 1), (2, 2)]
