"""MySQL servers that require a primary key of each table, or add an invisible one."""

from __future__ import annotations

import pytest

from penstock import CopySpec, PlanningError, copy
from penstock_testkit import MysqlServer, ServerError
from penstock_testkit.mysql_programs import real_mysql_program

from .mysql_pair import execute, rows


@pytest.mark.parametrize(
    "setting", ["sql_require_primary_key", "sql_generate_invisible_primary_key"]
)
def test_tables_without_keys(setting: str) -> None:
    try:
        program = real_mysql_program()
    except ServerError as error:
        pytest.skip(str(error))
    with MysqlServer(program=program) as server:
        execute(
            server.url,
            "CREATE TABLE t (id int PRIMARY KEY, v int)",
            "CREATE TABLE bare (id int, v int)",
            "INSERT INTO t VALUES (1, 1), (2, 2)",
            "INSERT INTO bare SELECT * FROM t",
            f"SET GLOBAL {setting} = ON",
        )

        def load(table: str, mode: str, user: str | None = None) -> None:
            url = server.url_for(user=user, password="penstock" if user else None)
            target = f"test.{table}_copy"
            for _ in copy(
                CopySpec(source=url, target=url, table=table, target_table=target, mode=mode)
            ):
                pass

        for table, modes in (("t", ("recreate", "upsert")), ("bare", ("recreate", "truncate"))):
            for mode in modes:
                load(table, mode)
            found = rows(server.url, f"SELECT * FROM {table}_copy ORDER BY id")
            assert found == [(1, 1), (2, 2)]
        execute(
            server.url,
            "CREATE USER plain IDENTIFIED BY 'penstock'",
            "GRANT ALL ON test.* TO plain",
            "GRANT ALL ON penstock.* TO plain",
            "GRANT RELOAD ON *.* TO plain",
        )
        if setting == "sql_require_primary_key":
            with pytest.raises(PlanningError, match=r"sql_require_primary_key.*SESSION_VARIABLES"):
                load("bare", "recreate", "plain")
        else:
            # The key that is added is no column of the user's.
            for mode in ("recreate", "truncate"):
                load("bare", mode, "plain")
