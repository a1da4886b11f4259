"""Materialize partitions of an asset in a real Dagster and take a picture of its partitions.

Usage: ``.venv/bin/python scripts/dagster_screenshot.py FILE ASSET FIRST LAST PICTURE``.
Dagster gets the connections PG_SRC and PG_DST: two real PostgreSQL servers with the TPC-H table
that ``--table`` names, which is empty in the second. Needs Chromium, see
`penstock_testkit.browser`. The picture of the README is taken with::

    dags_examples/dagster/daily_replace.py dw/orders 1992-01-01 1998-08-02
    docs/images/dagster-partitions.png --shown 1998-07-19
    --source-sql "CREATE INDEX ON orders (o_orderdate)"
    --target-sql "CREATE INDEX ON dw.orders (o_orderdate); ALTER TABLE dw.orders ADD
    CONSTRAINT refused CHECK (o_orderdate NOT IN ('1998-07-23', '1998-07-28'))"
"""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg

from penstock_testkit import PostgresServer, tpch
from penstock_testkit.browser import BrowserError, chromium, picture
from penstock_testkit.dagster import DagsterStack


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="the file with the definitions")
    parser.add_argument("asset", help="its key, like dw/orders")
    parser.add_argument("first", help="partition")
    parser.add_argument("last", help="partition")
    parser.add_argument("picture", type=Path, help="where to write the PNG")
    parser.add_argument("--shown", metavar="PARTITION", help="the one whose details are shown")
    parser.add_argument("--table", default="orders", help="TPC-H table")
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--schema", default="dw", help="of the target's table")
    parser.add_argument("--source-sql", default="SELECT 1", help="run in PG_SRC after the load")
    parser.add_argument("--target-sql", default="SELECT 1", help="run in PG_DST before the run")
    parser.add_argument("--size", type=int, nargs=2, default=(1600, 900), help="in pixels")
    parser.add_argument("--dark", type=Path, metavar="PNG", help="also take it in dark colours")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    try:
        chromium()
    except BrowserError as error:
        raise SystemExit(f"dagster_screenshot: {error}") from None
    with PostgresServer(fsync=False) as source, PostgresServer(fsync=False) as target:
        tpch.load(source.url, [options.table], options.scale)
        tpch.create(target.url, [options.table], schema=options.schema)
        for url, statement in ((source.url, options.source_sql), (target.url, options.target_sql)):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statement)
        with DagsterStack(options.file, {"PG_SRC": source.url, "PG_DST": target.url}) as stack:
            run = stack.launch(options.asset, partitions=(options.first, options.last))
            status = run.wait(timeout=600)
            shown = options.shown or options.first
            query = urlencode(
                {
                    "view": "partitions",
                    "partition": shown,
                    "default_range": f"[{options.first}...{options.last}]",
                }
            )
            for file in filter(None, (options.picture, options.dark)):
                shot = picture(
                    f"{stack.url}/assets/{quote(options.asset)}?{query}",
                    size=tuple(options.size),
                    dark=file == options.dark,
                    words=["Partitions Selected", shown],
                )
                file.write_bytes(shot)
            print(f"{options.picture}: {run.run_id} {status}, {len(run.partitions())} materialized")


if __name__ == "__main__":
    main()
