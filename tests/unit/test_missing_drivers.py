"""A missing driver: the error names it, and the extra to install."""

from __future__ import annotations

import sys
from importlib.metadata import metadata

import pytest

from penstock.backends.api.installation import install_command
from penstock.backends.api.registry import find_backend
from penstock.errors import UsageError

EXTRAS = metadata("penstock").get_all("Provides-Extra") or ()


@pytest.mark.parametrize(
    ("scheme", "package", "module"),
    [
        ("clickhouse", "clickhouse", "clickhouse_connect"),
        ("clickhouse", "clickhouse", "pyarrow"),
        ("duckdb", "duckdb", "duckdb"),
        ("duckdb", "duckdb", "pyarrow"),
        ("file", "parquet", "pyarrow"),
        ("mariadb", "mysql", "pymysql"),
        ("mssql", "mssql", "pyarrow"),
        ("mysql", "mysql", "pyarrow"),
        ("s3", "parquet", "boto3"),
        ("snowflake", "snowflake", "snowflake.connector"),
    ],
)
def test_a_missing_driver_is_named(
    scheme: str, package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if f"{name}.".startswith(f"penstock.backends.{package}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"^--source: {scheme} needs the module ") as caught:
        find_backend(f"{scheme}://", "--source")
    assert repr(module) in caught.value.message
    assert caught.value.message.endswith(install_command(package))
    assert package in EXTRAS
