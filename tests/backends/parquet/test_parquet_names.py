"""Unusual names of files, keys and folders are taken literally."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import CopySpec, Finished
from penstock.errors import PenstockError
from penstock_testkit import S3Server

from .parquet_stores import Store

VALUES = [
    "a/b", "x=y", "50%", "a%20b", "", " ", ".", "..", "_x", ".x", "ü", "e\u0301", "日本", "a\\b",
    "*", "[a]", "?x", "a,b", "a:b", "#", "'", '"', "a\nb", "a\x01b", "+", "&amp;", "a b ", "NULL",
    None,
]  # fmt: skip


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return Store(tmp_path / "lake")
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = f"names-{abs(hash(str(tmp_path))) % 10**9}"
    server.create_bucket(bucket)
    return Store(tmp_path, server, bucket)


def copied(source: str, target: str, **options: Any) -> None:
    spec = CopySpec(source=source, target=target, snapshot="shared", **options)
    last = [*penstock.copy(spec)][-1]
    assert isinstance(last, Finished)
    assert last.status == "done"


def rows_of(tmp_path: Path, source: str) -> list[tuple[Any, ...]]:
    """Return the rows, by a copy into a DuckDB database."""
    path = tmp_path / "back.duckdb"
    path.unlink(missing_ok=True)
    copied(source, f"duckdb:///{path}", target_table="main.t", mode="recreate")
    with duckdb.connect(str(path), read_only=True) as database:
        return sorted(database.execute("SELECT id, k FROM t").fetchall())


def test_values_as_names_of_folders(store: Store, tmp_path: Path) -> None:
    table = pa.table({"id": range(len(VALUES)), "k": VALUES})
    pq.write_table(table, tmp_path / "source.parquet")
    copied(
        f"file://{tmp_path}/source.parquet", store.url("out"), partition_by="k", mode="append",
        verify="checksums",
    )  # fmt: skip
    assert rows_of(tmp_path, store.url("out")) == list(enumerate(VALUES))


def test_a_value_too_long_for_a_folder_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "k": ["x" * 300]}), tmp_path / "source.parquet")
    spec = CopySpec(
        source=f"file://{tmp_path}/source.parquet", target=f"file://{tmp_path}/lake",
        partition_by=("k",),
    )  # fmt: skip
    failed = []
    with pytest.raises(PenstockError):
        failed += [event for event in penstock.copy(spec) if event.name == "failed"]
    assert not [*tmp_path.glob("lake/*.parquet")]


@pytest.mark.parametrize("name", ["a%20b", "day=50%", "day=a%3Ab"])
def test_a_name_in_a_url(store: Store, tmp_path: Path, name: str) -> None:
    """The file is next to another one whose name differs only in its encoding."""
    for number, each in enumerate((name, name.replace("%20", " "), name.replace("%3A", ":"))):
        if each == name or number:
            row = {"id": [number if each != name else 0], "k": [each]}
            store.write(f"{each}/x.parquet", row)
    store.write(f"{name}/x.parquet", {"id": [0], "k": [name]})
    # URLs of a bucket contain names as they are.
    folder_name = name if store.server else quote(name, safe="=")
    url = store.url(f"{folder_name}/x.parquet")
    assert rows_of(tmp_path, url)[0][0] == 0
    assert len(rows_of(tmp_path, url)) == 1
    copied(url, store.url(f"{folder_name}/copy"), mode="append")
    assert len(rows_of(tmp_path, store.url(f"{folder_name}/copy"))) == 1
    if store.server is None:
        assert [*(store.root / name / "copy").glob("*.parquet")]
    else:
        found = store.server.client.list_objects_v2(Bucket=store.bucket, Prefix=f"{name}/copy/")
        assert found["KeyCount"] > 0
