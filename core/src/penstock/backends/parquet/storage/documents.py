"""Small named documents that many processes change without losing each other's changes.

A document is created where it is absent, and replaced where it is unchanged; nothing else. Local
folders have links and renames for that, S3 has conditional requests.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from botocore.exceptions import ClientError

from penstock.backends.parquet.errors import translated
from penstock.backends.shared.attempts.locked_files import try_lock
from penstock.errors import Diagnosis, TransientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectTypeDef

# Who replaces a document holds the lock for a millisecond.
LOCK_SECONDS = 30.0
READERS = 16
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html: 409 says that
# another request on the same key was under way, and that this one may be repeated.
CONFLICTS = 20


class Documents(Protocol):
    """Names are relative, with ``/`` between their parts."""

    def create(self, name: str, content: bytes) -> bool:
        """False where it exists with other content: then nothing is changed."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """False where it is gone, or another than that version: then nothing is changed."""
        ...

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Content and version."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """One that is not there: nothing."""
        ...

    def stamps(self, folder: str) -> Mapping[str, str]:
        """Of all that stand in a folder and the folders below it, by name: what changes with their
        content."""
        ...


class LocalDocuments:
    """
    Parameters:
        root: the folder; made with the first document.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)

    def create(self, name: str, content: bytes) -> bool:
        # A link is made or not, at once, with all its content; and nobody who is stopped in the
        # middle keeps others waiting, as with a lock.
        path = self._path(name)
        with translated("target", path):
            while True:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                draft = f"{path}.{uuid4().hex}.draft"
                try:
                    write_synced(draft, content)
                    os.link(draft, path)
                except FileExistsError:
                    found = self.get(name)
                    return found is not None and found[0] == content
                except FileNotFoundError:
                    continue  # the folder was empty, and somebody has removed it
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(draft)
                sync_folder(os.path.dirname(path))
                return True

    def replace(self, name: str, content: bytes, version: str) -> bool:
        path = self._path(name)
        with translated("target", path), self._locked():
            found = self.get(name)
            if found is None or found[1] != version:
                return False
            write_synced(path + ".draft", content)
            os.rename(path + ".draft", path)
            sync_folder(os.path.dirname(path))
            return True

    def get(self, name: str) -> tuple[bytes, str] | None:
        path = self._path(name)
        with translated("target", path):
            try:
                with open(path, "rb") as file:
                    content = file.read()
            except (FileNotFoundError, NotADirectoryError):
                return None
        # As S3 has it. Not of what `stat` tells: two changes within a tick of the clock (4 ms and
        # more) may give a file the same size, time and inode again.
        return content, hashlib.blake2b(content, digest_size=16).hexdigest()

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with translated("target", self._path(name)), suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def stamps(self, folder: str) -> Mapping[str, str]:
        return dict(self._walk(self._path(folder), folder))

    def _walk(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        with translated("target", path):
            try:
                entries = list(os.scandir(path))
            except FileNotFoundError:
                return
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(entry.path, f"{name}/{entry.name}")
                elif not entry.name.endswith(".draft"):
                    with suppress(FileNotFoundError):
                        # Not the entry's own, which Windows and some network drives keep for long.
                        found = os.stat(entry.path)
                        stamp = f"{found.st_mtime_ns}-{found.st_ino}-{found.st_size}"
                        yield f"{name}/{entry.name}", stamp

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """
        Raises:
            TransientError: somebody who was stopped holds the lock.
        """
        path = self._path("lock")
        with open(path, "ab+") as file:
            deadline = time.monotonic() + LOCK_SECONDS
            while not try_lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise TransientError(
                        f"target: another process has kept {path} locked for "
                        f"{LOCK_SECONDS:g} s; expected milliseconds (is that process stopped?)",
                        Diagnosis(side="target"),
                    )
                time.sleep(0.01)
            yield


def write_synced(path: str, content: bytes) -> None:
    """Write a file that survives a crash of the machine."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Have a folder's entries survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Documents:
    """
    Parameters:
        prefix: of all keys; empty or with ``/`` at its end.
    """

    def __init__(self, client: S3Client, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def _shown(self, name: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{name}"

    def create(self, name: str, content: bytes) -> bool:
        return self._put(name, content, {"IfNoneMatch": "*"})

    def replace(self, name: str, content: bytes, version: str) -> bool:
        return self._put(name, content, {"IfMatch": version})

    def _put(self, name: str, content: bytes, condition: Mapping[str, str]) -> bool:
        key = self._prefix + name
        with translated("target", self._shown(name)):
            for attempt in range(CONFLICTS):
                try:
                    self._client.put_object(
                        Bucket=self._bucket,
                        Key=key,
                        Body=content,
                        ContentType="application/json",
                        **condition,  # type: ignore[arg-type]
                    )
                    return True
                except ClientError as error:
                    code = error.response["Error"]["Code"]
                    if code == "ConditionalRequestConflict" and attempt < CONFLICTS - 1:
                        time.sleep(0.05 * (attempt + 1))
                        continue
                    if code not in ("PreconditionFailed", "412", "NoSuchKey"):
                        raise
                # The client repeats a request whose answer was lost: it may be our own content
                # that it has met.
                found = self.get(name)
                return found is not None and found[0] == content
        raise AssertionError("unreachable")

    def get(self, name: str) -> tuple[bytes, str] | None:
        with translated("target", self._shown(name)):
            try:
                found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            except ClientError as error:
                if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                    return None
                raise
            return found["Body"].read(), found["ETag"]

    def delete(self, names: Iterable[str]) -> None:
        delete_keys(self._client, self._bucket, [self._prefix + name for name in names])

    def stamps(self, folder: str) -> Mapping[str, str]:
        with translated("target", self._shown(folder)):
            listed = list_objects(self._client, self._bucket, f"{self._prefix}{folder}/")
            return {item["Key"].removeprefix(self._prefix): item["ETag"] for item in listed}


def list_objects(client: S3Client, bucket: str, prefix: str) -> Iterator[ObjectTypeDef]:
    """All objects whose keys begin so."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        yield from page.get("Contents", ())


def delete_keys(client: S3Client, bucket: str, keys: Sequence[str]) -> None:
    """One by one, side by side: not every server knows how to delete many at once."""

    def delete(key: str) -> None:
        with translated("target", f"s3://{bucket}/{key}"):
            client.delete_object(Bucket=bucket, Key=key)

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(delete, keys))


class CachedDocuments:
    """Of the documents in a folder, those that have not changed are not read again."""

    def __init__(self, documents: Documents) -> None:
        self.create, self.replace, self.get = documents.create, documents.replace, documents.get
        self.delete, self.stamps = documents.delete, documents.stamps
        self._known: dict[str, tuple[bytes, str]] = {}
        self._stamps: dict[str, str] = {}

    def read_all(self, folder: str) -> dict[str, tuple[bytes, str]]:
        return self._read(self.stamps(folder))

    def find_all(self, folder: str, file: str) -> dict[str, tuple[bytes, str]]:
        stamps = self.stamps(folder)
        return self._read({n: stamps[n] for n in stamps if n.endswith(f"/{file}")})

    def _read(self, stamps: Mapping[str, str]) -> dict[str, tuple[bytes, str]]:
        stale = [name for name, stamp in stamps.items() if self._stamps.get(name) != stamp]
        if stale:
            with ThreadPoolExecutor(READERS) as pool:
                for name, found in zip(stale, pool.map(self.get, stale), strict=True):
                    if found is not None:
                        # What is read may be newer than the stamp: then it is read once more.
                        self._known[name], self._stamps[name] = found, stamps[name]
        return {name: self._known[name] for name in stamps if name in self._known}
