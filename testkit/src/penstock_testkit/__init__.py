"""Real servers, real data and a proxy that fails on command, for Penstock's own tests."""

from penstock_testkit import tpch
from penstock_testkit.clickhouse import (
    any_clickhouse_server,
    clickhouse_missing,
    connect_clickhouse,
    new_clickhouse_database,
)
from penstock_testkit.distance import DistantServer
from penstock_testkit.http_faults import HttpFaults
from penstock_testkit.mssql import (
    any_mssql_server,
    connect_mssql,
    mssql_missing,
    new_mssql_database,
)
from penstock_testkit.mysql import (
    AnyMysqlServer,
    ExternalMysqlServer,
    MysqlServer,
    any_mysql_server,
    connect_mysql,
    mysql_missing,
)
from penstock_testkit.pgbouncer import PgBouncer, PoolMode, pgbouncer_program
from penstock_testkit.proxy import TcpProxy
from penstock_testkit.s3 import S3Gateway, S3Server
from penstock_testkit.servers import (
    ExternalServer,
    PostgresServer,
    Server,
    ServerError,
    installed,
)
from penstock_testkit.snowflake import (
    any_snowflake,
    connect_snowflake,
    is_emulated,
    new_snowflake_database,
    snowflake_missing,
)

__all__ = [
    "AnyMysqlServer",
    "DistantServer",
    "ExternalMysqlServer",
    "ExternalServer",
    "HttpFaults",
    "MysqlServer",
    "PgBouncer",
    "PoolMode",
    "PostgresServer",
    "S3Gateway",
    "S3Server",
    "Server",
    "ServerError",
    "TcpProxy",
    "any_clickhouse_server",
    "any_mssql_server",
    "any_mysql_server",
    "any_snowflake",
    "clickhouse_missing",
    "connect_clickhouse",
    "connect_mssql",
    "connect_mysql",
    "connect_snowflake",
    "installed",
    "is_emulated",
    "mssql_missing",
    "mysql_missing",
    "new_clickhouse_database",
    "new_mssql_database",
    "new_snowflake_database",
    "pgbouncer_program",
    "snowflake_missing",
    "tpch",
]
