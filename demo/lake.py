"""The act with a bucket: a table becomes Parquet files, and the files a DuckDB table."""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from pathlib import Path

import duckdb

from demo.scene import Scene
from demo.stage import Stage
from penstock_testkit import S3Server

BUCKET, FOLDER = "lake", "lineitem"
RUN_ID = "demo-lake"


def run(stage: Stage, set_up: Scene) -> None:
    stage.heading("From the table to Parquet files in a bucket, and on to DuckDB")
    with S3Server() as s3, tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        stage.say(
            f"An S3 server, moto's, runs on port {s3.port}, with an empty bucket. Each partition "
            "becomes a file, which stays invisible until its commit record is written."
        )
        s3.create_bucket(BUCKET)
        stage.gap()
        stage.export(s3.environment)
        target = f"s3://{BUCKET}/{FOLDER}/"
        stage.run(
            "penstock copy --source env:SOURCE --table public.lineitem \\\n"
            f"    --target {target} --mode replace --partitions 6 --degree 2 --run-id {RUN_ID}"
        )
        stage.say("Beside the files, a reader finds a JSON list of them:")
        manifest = json.loads(s3.read(BUCKET, f"{FOLDER}/_penstock/manifest.json"))
        files = manifest["files"]
        stage.table(
            ("path", "rows", "bytes"),
            [(file["path"], f"{file['rows']:,}", f"{file['bytes']:,}") for file in files],
        )
        found = [key for key in s3.keys(BUCKET, f"{FOLDER}/") if key.endswith(".parquet")]
        stage.gap()
        stage.check(
            f"the bucket holds the {len(files)} files of the manifest, and no others",
            sorted(f"{FOLDER}/{file['path']}" for file in files) == sorted(found),
        )
        stage.run(f"penstock verify {RUN_ID} --source env:SOURCE --target {target} --checksum")
        path = Path(folder) / "local.duckdb"
        stage.run(
            f"penstock copy --source '{target}' --target duckdb:///{path} \\\n"
            "    --target-table shop.lineitem --degree 2"
        )
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            query = "SELECT count(*), sum(l_extendedprice) FROM shop.lineitem"
            stage.say("Now without Penstock, in DuckDB:")
            stage.code(query)
            answer = connection.execute(query).fetchone()
    assert answer is not None
    stage.gap()
    stage.check(
        f"DuckDB counts {answer[0]:,} rows, as many as the source has",
        answer[0] == set_up.rows["lineitem"],
    )
