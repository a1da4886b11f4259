"""Run a DAG in a real Airflow and take a picture of its grid.

Usage: ``.venv/bin/python scripts/airflow_screenshot.py FILE DAG_ID PICTURE [--mapped TASK_ID]``.
Airflow gets the connections pg_src and pg_dst: two real PostgreSQL servers, of which the first
holds the TPC-H tables that ``--tables`` names. Needs Chromium, see `penstock_testkit.browser`.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import psycopg

from penstock_testkit import PostgresServer, tpch
from penstock_testkit.airflow import AirflowStack, Run
from penstock_testkit.browser import BrowserError, chromium, picture


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="the DAG file")
    parser.add_argument("dag_id")
    parser.add_argument("picture", type=Path, help="where to write the PNG")
    parser.add_argument("--mapped", metavar="TASK_ID", help="list its instances")
    parser.add_argument("--conf", type=json.loads, help="of the run, JSON")
    parser.add_argument("--logical-date", type=datetime.fromisoformat, help="with a time zone")
    parser.add_argument("--tables", nargs="*", default=["orders"], help="TPC-H tables of pg_src")
    parser.add_argument("--scale", type=float, default=0.01, help="TPC-H scale factor")
    parser.add_argument("--source-sql", default="SELECT 1", help="run in pg_src after the load")
    parser.add_argument("--target-sql", default="SELECT 1", help="run in pg_dst before the run")
    parser.add_argument("--dark", type=Path, metavar="PNG", help="also take it in dark colours")
    return parser.parse_args()


def page_of(run: Run, mapped: str | None) -> str:
    """Return the path of the run's page, or of a mapped task's instances in it."""
    page = f"/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}"
    return page if mapped is None else f"{page}/tasks/{quote(mapped)}/mapped"


def groups_of(run: Run) -> list[str]:
    """Return the ids of all task groups: the prefixes of task ids, up to each dot."""
    groups: set[str] = set()
    for task in run.tasks():
        parts = task.task_id.split(".")
        groups |= {".".join(parts[:length]) for length in range(1, len(parts))}
    return sorted(groups)


def main() -> None:
    options = arguments()
    try:
        chromium()
    except BrowserError as error:
        raise SystemExit(f"airflow_screenshot: {error}") from None
    with PostgresServer(fsync=False) as source, PostgresServer(fsync=False) as target:
        tpch.load(source.url, options.tables, options.scale)
        for url, statement in ((source.url, options.source_sql), (target.url, options.target_sql)):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statement)
        with AirflowStack() as stack:
            stack.set_connection("pg_src", source.url)
            stack.set_connection("pg_dst", target.url)
            stack.add_dag(options.file, options.dag_id)
            run = stack.trigger(
                options.dag_id, conf=options.conf, logical_date=options.logical_date
            )
            state = run.wait(timeout=600)
            groups = groups_of(run)
            names = [task.task_id.rpartition(".")[2] for task in run.tasks()]
            for file in filter(None, (options.picture, options.dark)):
                shot = picture(
                    stack.url + page_of(run, options.mapped),
                    dark=file == options.dark,
                    words=names,
                    local_storage={f"{options.dag_id}/open-groups": groups},
                )
                file.write_bytes(shot)
    print(f"{options.picture}: {run.run_id} {state}")


if __name__ == "__main__":
    main()
