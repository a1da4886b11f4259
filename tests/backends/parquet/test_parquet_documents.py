"""Documents that many processes change at once: no change is lost, in a folder or on S3."""

from __future__ import annotations

import fcntl
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock import PermanentError, PlanningError, TransientError, UsageError
from penstock.backends.parquet.storage import documents as documents_module
from penstock.backends.parquet.storage.storage import open_storage
from penstock.backends.parquet.target import ParquetTarget

if TYPE_CHECKING:
    from pathlib import Path

    from .parquet_datasets import Dataset


def test_a_document_is_created_and_replaced_once(dataset: Dataset) -> None:
    found = open_storage(dataset.url, "penstock").documents
    assert found.get("a/b.json") is None
    assert found.create("a/b.json", b"1")
    assert not found.create("a/b.json", b"2")
    assert found.create("a/b.json", b"1")  # as after losing the answer to our own request
    content, version = found.get("a/b.json") or (b"", "")
    assert content == b"1"
    assert found.replace("a/b.json", b"2", version)
    assert not found.replace("a/b.json", b"3", version)
    assert not found.replace("a/c.json", b"3", version)
    assert (found.get("a/b.json") or (b"", ""))[0] == b"2"
    assert found.create("a/d/e.json", b"5")
    assert set(found.stamps("a")) == {"a/b.json", "a/d/e.json"}
    found.delete(["a/b.json", "a/none.json"])
    assert set(found.stamps("a")) == {"a/d/e.json"}


def test_drafts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    documents = documents_module.LocalDocuments(str(tmp_path))
    assert documents.create("runs/r/1/p1.json", b"{}")
    folder = tmp_path / "runs/r/1"
    (folder / "p1.json.0123.draft").write_bytes(b"{")
    (folder / "p2.json.0123.draft").write_bytes(b"{")
    documents.tidy("runs/r")
    # The other's writer may be about to make it the document.
    assert sorted(path.name for path in folder.iterdir()) == ["p1.json", "p2.json.0123.draft"]


def test_many_concurrent_changes(dataset: Dataset) -> None:
    found = open_storage(dataset.url, "penstock").documents
    found.create("count.json", b"[]")

    def add(number: int) -> None:
        while True:
            content, version = found.get("count.json") or (b"", "")
            after = json.dumps([*json.loads(content), number]).encode()
            if found.replace("count.json", after, version):
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(20)))
        created = list(pool.map(lambda n: found.create("one.json", str(n).encode()), range(20)))
    content, _ = found.get("count.json") or (b"", "")
    assert sorted(json.loads(content)) == list(range(20))
    assert sum(created) == 1


def test_changes_within_one_tick_of_the_clock(tmp_path: Path) -> None:
    found = documents_module.LocalDocuments(str(tmp_path))
    found.create("a.json", b"1")
    _, version = found.get("a.json") or (b"", "")
    before = (tmp_path / "a.json").stat()
    # The state after two renames within a tick: the same inode, time and size.
    (tmp_path / "a.json").write_bytes(b"2")
    os.utime(tmp_path / "a.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not found.replace("a.json", b"3", version)
    assert (found.get("a.json") or (b"", ""))[0] == b"2"


def test_waiting_for_a_lock_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "LOCK_SECONDS", 0.2)
    found = documents_module.LocalDocuments(str(tmp_path))
    found.create("a.json", b"1")
    _, version = found.get("a.json") or (b"", "")
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert found.create("b.json", b"1")  # creating a document needs no lock
        with pytest.raises(TransientError, match=r"has kept .*lock locked"):
            found.replace("a.json", b"2", version)
    assert found.replace("a.json", b"2", version)


def test_a_server_that_ignores_conditions_is_rejected(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = dataset.target()
    monkeypatch.setattr(target._storage.documents, "create", lambda *_: True)
    with pytest.raises(PlanningError, match="If-None-Match"):
        target.control.create()


def test_impossible_locations_are_rejected(dataset: Dataset, tmp_path: Path) -> None:
    if dataset.server is None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(PermanentError, match="file"):
            ParquetTarget(f"file://{tmp_path}/file", "penstock").control.create()
        with pytest.raises(UsageError, match="expected one folder"):
            ParquetTarget(f"file://{tmp_path}/*.parquet", "penstock")
        return
    no_bucket = ParquetTarget(dataset.server.url("no-such-bucket-here/t"), "penstock")
    with pytest.raises(PermanentError, match="the bucket does not exist"):
        no_bucket.control.create()


def test_wrong_credentials(dataset: Dataset) -> None:
    if dataset.server is None or dataset.server.name == "moto":
        pytest.skip("takes any credentials, or none")
    url = dataset.url.replace(dataset.server.secret_access_key, "wrong")
    with pytest.raises(PermanentError, match="the secret access key is wrong"):
        ParquetTarget(url, "penstock").control.create()


def test_a_server_that_does_not_answer(dataset: Dataset) -> None:
    if dataset.server is None:
        pytest.skip("a folder needs no server")
    url = dataset.url.replace(dataset.server.endpoint, "http://127.0.0.1:9")
    with pytest.raises(TransientError):
        ParquetTarget(url, "penstock").control.runs.find("r")
