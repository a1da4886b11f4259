"""The page on session settings names every setting that a session fixes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.backends.clickhouse import connection as clickhouse
from penstock.backends.mssql import connection as mssql
from penstock.backends.mysql.catalog.session_settings import MARIADB, MYSQL, session_settings
from penstock.backends.postgresql import connection as postgresql

PAGE = Path(__file__).parents[2] / "docs" / "session-settings.md"
_OTHERS = re.compile(r"max_query_size|cancel_http_\w+|output_format_\w+|enable_extended_\w+")
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "PostgreSQL": {
        **postgresql.SETTINGS,
        **postgresql.SETTINGS_14,
        **postgresql.SETTINGS_17,
        **postgresql.SETTINGS_SOURCE,
    },
    "MySQL and MariaDB": {
        **session_settings(MYSQL, (9, 7, 0), "READ-COMMITTED", 600),
        **session_settings(MARIADB, (10, 6, 0), "READ-COMMITTED", 600),
    },
    "SQL Server": dict.fromkeys(text.split()[1] for text in mssql._SETTINGS),
    "ClickHouse": {
        name: value for name, value in clickhouse.SETTINGS.items() if not _OTHERS.match(name)
    },
}


@pytest.mark.parametrize("database", SETTINGS)
def test_each_setting_is_on_the_page(database: str) -> None:
    section = PAGE.read_text().partition(f"\n## {database}\n")[2].partition("\n## ")[0]
    words = set(re.findall(r"\w+", section))
    if database == "ClickHouse":
        assert "..._overflow_mode" in section
        words |= {name for name in SETTINGS[database] if name.endswith("_overflow_mode")}
    assert set(SETTINGS[database]) <= words
