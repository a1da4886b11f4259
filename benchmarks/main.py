"""The benchmark's program: read options, measure, print tables and limits."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import (
    assets,
    clickhouse,
    duckdb_load,
    files,
    flows,
    losses,
    memory,
    modes,
    mssql,
    mysql,
    mysql_employees,
    mysql_tables,
    nights,
    overhead,
    partitioned,
    peers,
    snowflake,
    speed,
    start,
    tables,
    texts,
    workers,
)
from benchmarks.bench import started
from benchmarks.report import machine, show_limits, tell
from penstock_testkit import clickhouse_missing, mysql_missing, snowflake_missing

PARTS = (
    "start",
    "speed",
    "memory",
    "overhead",
    "workers",
    "tables",
    "distance",
    "modes",
    "nights",
    "losses",
    "peers",
    "partitioned",
    "files",
    "texts",
    "duckdb",
    "mysql",
    "mysql-tables",
    "mysql-employees",
    "mssql",
    "snowflake",
    "clickhouse",
    "airflow",
    "dagster",
)

Part = (
    start.Starts
    | speed.Speed
    | memory.Memory
    | overhead.Overhead
    | workers.Workers
    | tables.Tables
    | tables.Distance
    | modes.Walls
    | nights.Nights
    | losses.Losses
    | peers.Peers
    | partitioned.Partitioned
    | files.Files
    | texts.Texts
    | duckdb_load.DuckdbLoad
    | mysql.Mysql
    | mysql_tables.MysqlTables
    | mssql.Mssql
    | snowflake.Snowflake
    | clickhouse.ClickHouse
)


def main() -> int:
    options = _options()
    begun = time.monotonic()
    found: dict[str, Part] = {}
    with started() as bench:
        if "start" in options.only:
            found["start"] = start.measure(bench, options.repeat)
        if "speed" in options.only:
            found["speed"] = speed.run(bench, options.scale, options.degrees, options.repeat)
        if "memory" in options.only:
            found["memory"] = memory.measure(bench, options.scale)
        if "overhead" in options.only:
            found["overhead"] = overhead.measure(bench, options.repeat)
        if "workers" in options.only:
            found["workers"] = workers.run(bench, options.repeat)
        if "tables" in options.only:
            found["tables"] = tables.many_tables(bench, options.tables, options.repeat)
        if "distance" in options.only:
            found["distance"] = tables.distant(bench, options.repeat)
        if "modes" in options.only:
            found["modes"] = modes.measure(bench, options.scale, options.repeat)
        if "nights" in options.only:
            found["nights"] = nights.measure_nights(bench, options.scale, options.repeat)
        if "losses" in options.only:
            found["losses"] = losses.measure_losses(bench)
        if "peers" in options.only:
            found["peers"] = peers.run(bench, options.scale, options.repeat)
        if "partitioned" in options.only:
            found["partitioned"] = partitioned.measure_all(bench, options.scale, options.repeat)
        if "files" in options.only:
            found["files"] = files.run(bench, options.scale, options.degrees, options.repeat)
        if "texts" in options.only:
            found["texts"] = texts.run(bench, options.scale, options.repeat)
        if "duckdb" in options.only:
            found["duckdb"] = duckdb_load.run(bench, options.scale, options.degrees, options.repeat)
        if "mysql" in options.only and (missing := mysql_missing()):
            tell(f"mysql: left out: {missing}")
        elif "mysql" in options.only:
            found["mysql"] = mysql.run(bench, options.scale, options.degrees, options.repeat)
        if "mysql-tables" in options.only and (missing := mysql_missing()):
            tell(f"mysql-tables: left out: {missing}")
        elif "mysql-tables" in options.only:
            found["mysql-tables"] = mysql_tables.many_tables(bench, options.repeat)
        if "mysql-employees" in options.only and (missing := mysql_missing()):
            tell(f"mysql-employees: left out: {missing}")
        elif "mysql-employees" in options.only:
            found["mysql-employees"] = mysql_employees.all_indexes(bench, options.repeat)
        if "mssql" in options.only and not mssql.server_url():
            tell(f"mssql: left out: {mssql.SERVER} names no SQL Server")
        elif "mssql" in options.only:
            found["mssql"] = mssql.run(bench, options.scale, options.degrees, options.repeat)
        if "snowflake" in options.only and (missing := snowflake_missing()):
            tell(f"snowflake: left out: {missing}")
        elif "snowflake" in options.only:
            found["snowflake"] = snowflake.run(
                bench, options.scale, options.degrees, options.repeat
            )
        if "clickhouse" in options.only and (missing := clickhouse_missing()):
            tell(f"clickhouse: left out: {missing}")
        elif "clickhouse" in options.only:
            found["clickhouse"] = clickhouse.run(
                bench, options.scale, options.degrees, options.repeat
            )
        if "airflow" in options.only:
            found["airflow"] = flows.measure(bench, options.scale, options.repeat)
        if "dagster" in options.only:
            found["dagster"] = assets.measure(bench, options.scale, options.repeat)
    about = {"machine": machine(), "date": datetime.now(UTC).date().isoformat()}
    print(f"{about['date']}, {about['machine']}")
    for part in found.values():
        part.show()
    limits = [limit for part in found.values() for limit in part.limits()]
    if limits:
        show_limits(limits)
    if options.json is not None:
        result: dict[str, Any] = {
            **about,
            **{name: part.as_json() for name, part in found.items()},
            "limits": [
                {
                    "name": limit.name,
                    "found": limit.value,
                    "allowed": limit.allowed,
                    "kept": limit.is_met,
                }
                for limit in limits
            ],
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    tell(f"\ntook {time.monotonic() - begun:.0f} s")
    return 1 if options.check and not all(limit.is_met for limit in limits) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py", description="Measure what a copy costs. See README.md."
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H (default: 1)")
    parser.add_argument(
        "--degrees",
        type=lambda text: [int(word) for word in text.split(",")],
        default=[1, 2, 4],
        help="streams at once, ascending (default: 1,2,4)",
    )
    parser.add_argument("--repeat", type=int, default=3, help="turns (default: 3)")
    parser.add_argument("--tables", type=int, default=300, help="small ones (default: 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is not kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
