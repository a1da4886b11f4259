"""Variables of a server that change what its sessions read or write: each copy is the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.one_copy import OneCopy

from penstock_testkit import MysqlServer, mysql_missing
from penstock_testkit.mysql import connect_mysql

# Values that a server's owner might set, and that differ from the defaults. Each server has most of
# them.
HOSTILE = {
    "definitions": {
        "sql_quote_show_create": "0",
        "show_create_table_verbosity": "1",
        "show_gipk_in_create_table_and_information_schema": "1",
        "sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,"
        "REAL_AS_FLOAT,NO_ZERO_DATE'",
        "default_storage_engine": "'MyISAM'",
        "default_tmp_storage_engine": "'MyISAM'",
        "explicit_defaults_for_timestamp": "0",
        "information_schema_stats_expiry": "86400",
        "character_set_server": "'latin1'",
        "innodb_strict_mode": "0",
    },
    "texts": {
        "time_zone": "'+11:00'",
        "lc_messages": "'de_DE'",
        "lc_time_names": "'de_DE'",
        "sql_notes": "0",
        "max_error_count": "0",
        "max_sort_length": "8",
        "group_concat_max_len": "8",
        "div_precision_increment": "0",
        "old_mode": "'ZERO_DATE_TIME_CAST'",
        "default_week_format": "3",
        "collation_connection": "'utf8mb4_bin'",
    },
    "rows": {
        "sql_select_limit": "1",
        "max_join_size": "1",
        "sql_auto_is_null": "1",
        "sql_buffer_result": "1",
        "max_statement_time": "0.001",
        "max_execution_time": "1",
        "idle_transaction_timeout": "1",
        "idle_readonly_transaction_timeout": "1",
        "idle_write_transaction_timeout": "1",
    },
    "writes": {
        "completion_type": "'CHAIN'",
        "foreign_key_checks": "0",
        "unique_checks": "0",
        "check_constraint_checks": "0",
        "sql_safe_updates": "1",
        "transaction_isolation": "'SERIALIZABLE'",
        "transaction_read_only": "1",
        "tx_isolation": "'SERIALIZABLE'",
        "tx_read_only": "1",
        "autocommit": "0",
        "low_priority_updates": "1",
        "auto_increment_increment": "7",
    },
}
TABLE = """
    CREATE TABLE {}.item (
        id bigint unsigned NOT NULL AUTO_INCREMENT, small float, wide double NOT NULL DEFAULT 0.5,
        fixed char(9) DEFAULT 'it''s', text varchar(300) CHARACTER SET utf8mb4,
        made timestamp(3) NULL, day date, clock time(6), local datetime(6), bits bit(9),
        kind enum('a','b') NOT NULL, octets varbinary(9), place point, amount decimal(12,2),
        share decimal(12,6) GENERATED ALWAYS AS (amount + 1) STORED,
        PRIMARY KEY (id), UNIQUE KEY `by text` (text), KEY `select` (day, kind),
        CONSTRAINT positive CHECK (amount > 0)
    ) CHARACTER SET utf8mb4 COMMENT 'the items'
"""
ROWS = r"""
    INSERT INTO {}.item
        (id, small, wide, fixed, text, made, day, clock, local, bits, kind, octets, place, amount)
    VALUES (1, 0.1, 1e300, 'a\\b', concat(repeat('ä', 200), '1'), '2024-03-31 01:30:00.125',
            '2024-02-29', '23:59:59.999999', '2024-03-31 02:30:00.123456', 257, 'a', x'0027FF',
            ST_GeomFromText('POINT(1 2)', 3857), 0.10),
        (2, -0.1, -0e0, 'ü''"', concat(repeat('ä', 200), '2'), NULL, NULL, NULL, NULL, NULL, 'b',
            NULL, NULL, NULL),
        (7, NULL, 0.1, NULL, NULL, '1970-01-02', '1000-01-01', '00:00:00', '9999-12-31', 0, 'a',
            '', ST_GeomFromText('POINT(0 0)'), 12345.67)
"""
# Not in the statement that a server prints of any table.
_NEXT_NUMBER = re.compile(r" AUTO_INCREMENT=\d+")


@pytest.fixture(scope="module")
def server() -> Iterator[MysqlServer]:
    if why := mysql_missing():
        pytest.skip(why)
    with MysqlServer() as own:
        yield own


class Databases:
    """A database with a table, and an empty one, as a session sees them that began in time."""

    def __init__(self, server: MysqlServer, source: str, target: str) -> None:
        self.server, self.source, self.target = server, source, target
        self._session = connect_mysql(server.url, sql_mode="NO_ENGINE_SUBSTITUTION")
        self.run("SET time_zone = '+00:00'")

    def close(self) -> None:
        self._session.close()

    def run(self, statement: str, *values: Any) -> tuple[tuple[Any, ...], ...]:
        with self._session.cursor() as cursor:
            cursor.execute(statement, values or None)
            rows: tuple[tuple[Any, ...], ...] = cursor.fetchall()
            return rows

    @contextmanager
    def other_settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Change the global variables that the server has, for a while."""
        has = {name for name, _ in self.run("SHOW GLOBAL VARIABLES")}
        changed = {name: value for name, value in settings.items() if name in has}
        before = {name: self.run(f"SELECT @@GLOBAL.{name}")[0][0] for name in changed}
        try:
            for name, value in changed.items():
                self.run(f"SET GLOBAL {name} = {value}")
            yield
        finally:
            for name, value in before.items():
                self.run(f"SET GLOBAL {name} = %s", value)

    def check_same(self) -> None:
        """Check that both databases have the same table with the same rows."""
        assert self._definition(self.target) == self._definition(self.source)
        assert self._rows(self.target) == self._rows(self.source)

    def _definition(self, database: str) -> str:
        ((_, text),) = self.run(f"SHOW CREATE TABLE {database}.item")
        return _NEXT_NUMBER.sub("", text)

    def _rows(self, database: str) -> tuple[tuple[Any, ...], ...]:
        return self.run(f"SELECT *, hex(place), hex(fixed) FROM {database}.item ORDER BY id")


@pytest.fixture
def databases(server: MysqlServer) -> Iterator[Databases]:
    with server.new_database() as source, server.new_database() as target:
        names = (urlsplit(url).path[1:] for url in (source, target))
        with closing(Databases(server, *names)) as found:
            found.run(TABLE.format(found.source))
            found.run(ROWS.format(found.source))
            yield found


def check_copies(databases: Databases, url: str) -> None:
    """Copy the table in several ways, and check each time that the copy equals the original.

    Args:
        databases: the databases.
        url: the server, with the user who copies.
    """
    target = f"{databases.target}.item"
    options = {
        "source": url, "target": url, "table": f"{databases.source}.item", "target_table": target,
        "verify": "checksums",
    }  # fmt: skip
    OneCopy(**options, mode="recreate").done()
    databases.check_same()
    databases.run(f"UPDATE {target} SET wide = 7, text = NULL WHERE id < 7")
    OneCopy(**options, mode="replace", key="id", where="id < 7 AND id IS NOT NULL").done()
    databases.check_same()
    databases.run(f"UPDATE {target} SET id = 3, wide = 4 WHERE id = 2")
    OneCopy(**options, mode="upsert", atomic="table", deletes="hard,100%").done()
    databases.check_same()


@pytest.mark.parametrize("group", HOSTILE)
def test_a_server_with_other(databases: Databases, group: str) -> None:
    with databases.other_settings(HOSTILE[group]):
        check_copies(databases, databases.server.url)


def test_settings_of_a_user_without_privileges(databases: Databases) -> None:
    """A session sets nothing that only some users may set, and follows init_connect."""
    for statement in (
        "CREATE USER plain IDENTIFIED BY 'plain'",
        f"GRANT SELECT, LOCK TABLES, SHOW VIEW ON {databases.source}.* TO plain",
        f"GRANT ALL ON {databases.target}.* TO plain",
        "GRANT ALL ON penstock.* TO plain",
    ):
        databases.run(statement)
    url = databases.server.url_for(databases.target, "plain", "plain")
    first = '"SET sql_quote_show_create = 0, sql_select_limit = 1, completion_type = 1"'
    try:
        with databases.other_settings({"init_connect": first}):
            check_copies(databases, url)
    finally:
        databases.run("DROP USER plain")
