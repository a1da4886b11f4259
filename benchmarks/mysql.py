"""MySQL or MariaDB to PostgreSQL and back: Penstock, connectorx, and pipes of the clients."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure
from benchmarks.mysql_movers import CONNECTORX, IN_MOVERS, LOADED, ROWS, out_movers
from benchmarks.report import Limit, tell
from benchmarks.turns import Costs, as_json, ratio, ratio_of_all, show, take_turns
from penstock_testkit import MysqlServer, connect_mysql, tpch

SCHEMA = "mysql"
TABLE = f"{SCHEMA}.lineitem"
PIPES, ARROW = "pipes", "connectorx, pgpq"
# The tables fit into memory, and the log holds a whole load.
SETTINGS = {
    "innodb_buffer_pool_size": "2G",
    "loose_innodb_log_file_size": "2G",
    "loose_innodb_redo_log_capacity": "2G",
}


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> Mysql:
    """Copy lineitem with every mover, out of MySQL and into it.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of times that each way is measured.
    """
    movers = out_movers()
    if ARROW not in movers:
        tell(f"without connectorx: {CONNECTORX} names no Python that has it")
    tell(f"mysql: loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    with MysqlServer(settings=SETTINGS) as mysql:
        version = _make_tables(mysql, scale)
        out = take_turns(movers, degrees, repeat, partial(_move_out, bench, mysql, rows))
        into = take_turns(IN_MOVERS, degrees, repeat, partial(_move_in, bench, mysql, rows))
    return Mysql(version, rows, out, into)


def _make_tables(mysql: MysqlServer, scale: float) -> str:
    """Create and fill the tables.

    Returns: the server's version.
    """
    with (
        tpch.csv_files(["lineitem"], scale) as files,
        closing(connect_mysql(mysql.url, local_infile=True)) as connection,
        connection.cursor() as cursor,
    ):
        columns = f"{tpch.COLUMNS['lineitem']}, PRIMARY KEY ({tpch.PRIMARY_KEYS['lineitem']})"
        for table in (ROWS, LOADED):
            cursor.execute(f"CREATE TABLE {table} ({columns})")
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{files['lineitem']}' INTO TABLE {ROWS} "
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES"
        )
        cursor.execute(f"ANALYZE TABLE {ROWS}")
        cursor.execute("SELECT version()")
        return str(cursor.fetchone()[0])


def _move_out(bench: Bench, mysql: MysqlServer, rows: int, name: str, degree: int) -> Cost:
    bench.reset(TABLE)
    mover = out_movers()[name]
    found = measure(mysql, bench.target, lambda: mover(bench, mysql, TABLE, degree))
    bench.check(TABLE, rows)
    return found


def _move_in(bench: Bench, mysql: MysqlServer, rows: int, name: str, degree: int) -> Cost:
    with closing(connect_mysql(mysql.url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE TABLE {LOADED}")
        mover = IN_MOVERS[name]
        found = measure(bench.source, mysql, lambda: mover(bench, mysql, TABLE, degree))
        cursor.execute(f"SELECT count(*) FROM {LOADED}")
        (arrived,) = cursor.fetchone()
    if arrived != rows:
        raise WrongResult(f"{name}: expected {rows:,} rows in the target, found {arrived:,}")
    return found


class Mysql:
    def __init__(self, version: str, rows: int, out: Costs, into: Costs) -> None:
        self._version = version
        self._rows = rows
        self._out = out
        self._into = into

    def show(self) -> None:
        others = [other for other in (PIPES, ARROW) if self._has(other)]
        show(f"lineitem, {self._version} to PostgreSQL", self._rows, self._out, others)
        show(f"lineitem, PostgreSQL to {self._version}", self._rows, self._into, [PIPES])

    def _has(self, mover: str) -> bool:
        return any(name == mover for name, _ in self._out)

    def limits(self) -> list[Limit]:
        degrees = sorted({degree for _, degree in self._into})
        arrow = [
            Limit(f"MySQL out: wall / {ARROW}, degree {n}", ratio(self._out, ARROW, n), 1.0)
            for n in (degrees if self._has(ARROW) else [])
        ]
        return [
            *arrow,
            Limit(
                f"MySQL out: wall / pipes, degree {degrees[-1]}",
                ratio(self._out, PIPES, degrees[-1]),
                1.25,
            ),
            Limit(
                f"MySQL in: wall / pipes, degree {degrees[-1]}",
                ratio(self._into, PIPES, degrees[-1]),
                1.15,
            ),
            Limit(
                f"MySQL in: CPU of all / pipes, degree {degrees[-1]}",
                ratio_of_all(self._into, PIPES, degrees[-1]),
                1.15,
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self._version,
            "rows": self._rows,
            "out": as_json(self._out),
            "in": as_json(self._into),
        }
