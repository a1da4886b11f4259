"""Commit records: one document for each partition of a generation of a run.

An attempt commits by writing the record, which names its uploads, where nobody has written to it
since the attempt began. The files are published then, by the attempt or by whoever finds the
record, and the record says when that is done.

A void record holds no rows. It is written to shut out the attempts that have begun before: none of
them can commit any more, since the record is another one than it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, TypeVar

from penstock.backends.parquet.storage.documents import READERS, Cached
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.parquet.storage.uploads import Upload
from penstock.errors import Diagnosis, PermanentError, Unreadable
from penstock.model.codec import JsonForm, from_json, to_json
from penstock.model.records import CommitRecord

T = TypeVar("T")

ABSENT = ""
"""The version of a record that is not there."""


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    rows: int
    bytes: int
    upload: Upload


@dataclass(frozen=True, slots=True)
class Record:
    json_form = JsonForm(exact=True)

    nonce: str
    """No two records have the same."""
    committed: bool = False
    """Else it is void."""
    attempt: int = 0
    rows: int = 0
    bytes: int = 0
    started_at: str = ""
    committed_at: str = ""
    files: tuple[DataFile, ...] = ()
    published: bool = False
    remove: tuple[DataFile, ...] = ()
    """Files of an earlier commit that go when these are published."""
    requests: tuple[str, ...] = ()
    """Names of the requests to copy the partition again that were seen."""
    read_at: str = ""
    """See `CommitRecord`."""
    closed: bool = False
    """Void for good: the generation has ended."""

    def told(self, run_id: str, partition_id: str) -> CommitRecord:
        return CommitRecord(
            partition_id,
            self.attempt,
            self.rows,
            self.bytes,
            self.started_at,
            self.committed_at,
            transaction=run_id,
            files=tuple(file.path for file in self.files),
            read_at=self.read_at,
        )


def encode(content: Any) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=False).encode()


def decode(kind: type[T], content: bytes, name: str) -> T:
    """
    Parameters:
        name: of the document.

    Raises:
        PermanentError: it is not as it was written.
    """
    try:
        return from_json(kind, json.loads(content))
    except (ValueError, Unreadable) as error:
        raise PermanentError(
            f"target: {name} cannot be read: {error}; was it edited?", Diagnosis(side="target")
        ) from error


def now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="microseconds")


class Records:
    """The commit records of one run."""

    def __init__(self, storage: Storage, run_id: str) -> None:
        self._storage = storage
        self._run_id = run_id
        self._cached = Cached(storage.documents)

    def _folder(self, generation: int) -> str:
        return f"runs/{self._run_id}/{generation}"

    def _name(self, generation: int, partition_id: str) -> str:
        return f"{self._folder(generation)}/{partition_id}.json"

    def read(self, generation: int, partition_id: str) -> tuple[Record | None, str]:
        """The record and its version."""
        name = self._name(generation, partition_id)
        found = self._storage.documents.get(name)
        return (None, ABSENT) if found is None else (decode(Record, found[0], name), found[1])

    def read_all(self, generation: int) -> dict[str, tuple[Record, str]]:
        """Records and versions, by partition."""
        found = self._cached.read_all(self._folder(generation))
        return {
            name.rpartition("/")[2].removesuffix(".json"): (
                decode(Record, content, name),
                version,
            )
            for name, (content, version) in found.items()
        }

    def write(self, generation: int, partition_id: str, record: Record, version: str) -> bool:
        """False where the record is not that version any more: then nothing is changed."""
        documents, name = self._storage.documents, self._name(generation, partition_id)
        content = encode(to_json(record))
        if version == ABSENT:
            return documents.create(name, content)
        return documents.replace(name, content, version)

    def publish(self, generation: int, partition_id: str, record: Record, version: str) -> Record:
        """Make a committed record's files visible, and take those away that they replace.

        Returns: the record as it is then.

        Raises:
            PermanentError: a file is gone.
        """
        uploads = self._storage.uploads
        while record.committed and not record.published:
            lost = [
                file.path for file in record.files if not uploads.publish(file.path, file.upload)
            ]
            if not lost:
                uploads.discard((file.path, file.upload) for file in record.remove)
                files = tuple(replace(file, upload={}) for file in record.files)
                done = replace(record, published=True, remove=(), files=files)
                if self.write(generation, partition_id, done, version):
                    return done
            found, version = self.read(generation, partition_id)
            if found is None or (lost and found == record):
                raise PermanentError(
                    f"target: partition {partition_id} of run {self._run_id} is committed, but "
                    f"files of it are gone: expected {', '.join(lost)}; found none (was something "
                    "removed by hand?)",
                    Diagnosis(side="target"),
                )
            record = found
        return record

    def publish_all(self, generation: int) -> dict[str, Record]:
        """Publish what is committed. Returns the committed records, by partition."""
        found = self.read_all(generation)

        def publish(partition_id: str) -> Record:
            return self.publish(generation, partition_id, *found[partition_id])

        committed = [name for name in sorted(found) if found[name][0].committed]
        if all(found[name][0].published for name in committed):
            return {name: found[name][0] for name in committed}
        with ThreadPoolExecutor(READERS) as pool:
            published = dict(zip(committed, pool.map(publish, committed), strict=True))
        return {name: record for name, record in published.items() if record.committed}

    def shut_out(self, generation: int, partition_id: str) -> Record | None:
        """Have no attempt commit that has begun before, unless one has committed.

        Returns: the record, where one has.
        """
        while True:
            found, version = self.read(generation, partition_id)
            if found is not None and found.committed:
                return found
            void = replace(found or Record(""), nonce=token_hex(8))
            if self.write(generation, partition_id, void, version):
                return None

    def close(self, generation: int, partition_ids: Sequence[str]) -> None:
        """End a generation: take back what it has committed, and let nothing more be committed."""

        def close(partition_id: str) -> None:
            while True:
                found, version = self.read(generation, partition_id)
                if found is not None and found.closed and not found.remove:
                    return
                left = (*found.files, *found.remove) if found is not None else ()
                if found is None or not found.closed:
                    void = Record(token_hex(8), remove=left, closed=True)
                    self.write(generation, partition_id, void, version)
                else:
                    self._storage.uploads.discard((file.path, file.upload) for file in left)
                    self.write(generation, partition_id, replace(found, remove=()), version)

        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(close, partition_ids))
