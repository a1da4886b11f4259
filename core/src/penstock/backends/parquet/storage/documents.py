"""Small named documents that many processes can change without losing updates.

A document is created if it does not exist, and replaced if it is unchanged; there are no other
changes. Local folders provide links and renames for that, S3 conditional requests.
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
from penstock.backends.shared.private_files import PRIVATE, READABLE, make_own_folder, open_new
from penstock.errors import Diagnosis, TransientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectTypeDef

# Replacing a document holds the lock for a millisecond.
LOCK_SECONDS = 30.0
READERS = 16
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html: 409 means that
# another request on the same key was in progress, and that this one can be repeated.
CONFLICTS = 20


class Documents(Protocol):
    """Documents by relative names, with ``/`` between the parts."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a document; return False, with nothing changed, if it has other content."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Replace a document; return False, with nothing changed, if its version differs.

        Args:
            name: the document.
            content: the new content.
            version: the version from `get` that must be the current one.
        """
        ...

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Return the content and version."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete documents; it is no error if one does not exist."""
        ...

    def tidy(self, folder: str) -> None:
        """Remove what killed processes have left beside the documents of a folder."""
        ...

    def stamps(self, folder: str) -> Mapping[str, str]:
        """Return values, by name, that change with the content of a folder's documents.

        Subfolders are included.
        """
        ...


class LocalDocuments:
    """Documents in a local folder.

    Args:
        root: the folder; created with the first document.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)

    def _mode(self, path: str) -> int:
        """Return a document's mode: readers of a dataset need those that are in no subfolder."""
        return READABLE if os.path.dirname(path) == self._root.rstrip("/") else PRIVATE

    def create(self, name: str, content: bytes) -> bool:
        # A link is created atomically with all its content, and a process stopped in the middle
        # does not keep others waiting, as it would with a lock.
        path = self._path(name)
        with translated("target", path):
            while True:
                draft = f"{path}.{uuid4().hex}.draft"
                try:
                    make_own_folder(os.path.dirname(path), self._root)
                    write_synced(draft, content, self._mode(path))
                    os.link(draft, path)
                except FileExistsError:
                    current = self.get(name)
                    return current is not None and current[0] == content
                except FileNotFoundError:
                    continue  # the folder was empty, and was removed by another process
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(draft)
                sync_folder(os.path.dirname(path))
                return True

    def replace(self, name: str, content: bytes, version: str) -> bool:
        path = self._path(name)
        with translated("target", path), self._locked():
            current = self.get(name)
            if current is None or current[1] != version:
                return False
            write_synced(path + ".draft", content, self._mode(path))
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
        # As on S3. Not based on `stat`: two changes within a tick of the clock (4 ms and more) may
        # leave a file with the same size, time and inode.
        return content, hashlib.blake2b(content, digest_size=16).hexdigest()

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with translated("target", self._path(name)), suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def tidy(self, folder: str) -> None:
        path = self._path(folder)
        with translated("target", path):
            try:
                entries = list(os.scandir(path))
            except FileNotFoundError:
                return
            names = {entry.name for entry in entries}
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.tidy(f"{folder}/{entry.name}")
                    continue
                document, dot, _ = entry.name.removesuffix(".draft").rpartition(".")
                # Once the document exists, no draft can become it; its writer finds that.
                if entry.name.endswith(".draft") and dot and document in names:
                    with suppress(FileNotFoundError):
                        os.unlink(entry.path)

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
                        # Not the entry's cached data, which Windows and some network drives keep
                        # for long.
                        status = os.stat(entry.path)
                        stamp = f"{status.st_mtime_ns}-{status.st_ino}-{status.st_size}"
                        yield f"{name}/{entry.name}", stamp

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the documents.

        Raises:
            TransientError: a stopped process holds the lock.
        """
        path = self._path("lock")
        with os.fdopen(open_new(path, os.O_RDWR | os.O_APPEND), "ab+") as file:
            deadline = time.monotonic() + LOCK_SECONDS
            while not try_lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise TransientError(
                        f"target: another process has kept {path} locked for {LOCK_SECONDS:g} s, "
                        "instead of milliseconds; check whether it is stopped",
                        Diagnosis(side="target"),
                    )
                time.sleep(0.01)
            yield


def write_synced(path: str, content: bytes, mode: int) -> None:
    """Write a file durably, so that it survives a crash of the machine.

    Args:
        path: the file's path.
        content: the content.
        mode: its mode if it is new.
    """
    with os.fdopen(open_new(path, os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Make a folder's entries survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Documents:
    """Documents in a bucket.

    Args:
        prefix: the prefix of all keys; empty or with a trailing ``/``.
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
                # The client repeats a request whose answer was lost, and may have found our own
                # content.
                current = self.get(name)
                return current is not None and current[0] == content
        raise AssertionError("unreachable")

    def get(self, name: str) -> tuple[bytes, str] | None:
        with translated("target", self._shown(name)):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            except ClientError as error:
                if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                    return None
                raise
            return answer["Body"].read(), answer["ETag"]

    def delete(self, names: Iterable[str]) -> None:
        delete_keys(self._client, self._bucket, [self._prefix + name for name in names])

    def tidy(self, folder: str) -> None:
        """Do nothing: an object is there as a whole, or not at all."""

    def stamps(self, folder: str) -> Mapping[str, str]:
        with translated("target", self._shown(folder)):
            listed = list_objects(self._client, self._bucket, f"{self._prefix}{folder}/")
            return {item["Key"].removeprefix(self._prefix): item["ETag"] for item in listed}


def list_objects(client: S3Client, bucket: str, prefix: str) -> Iterator[ObjectTypeDef]:
    """Yield all objects whose keys begin with a prefix.

    Args:
        client: a client of the server.
        bucket: the bucket.
        prefix: the beginning of the keys; empty for all.
    """
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        yield from page.get("Contents", ())


def delete_keys(client: S3Client, bucket: str, keys: Sequence[str]) -> None:
    """Delete keys one by one, in parallel: not every server supports bulk deletion.

    Args:
        client: a client of the server.
        bucket: the bucket.
        keys: the keys; it is no error if one does not exist.
    """

    def delete(key: str) -> None:
        with translated("target", f"s3://{bucket}/{key}"):
            client.delete_object(Bucket=bucket, Key=key)

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(delete, keys))


class CachedDocuments:
    """Documents in a folder, cached until they change."""

    def __init__(self, documents: Documents) -> None:
        self.create, self.replace, self.get = documents.create, documents.replace, documents.get
        self.delete, self.stamps = documents.delete, documents.stamps
        self.tidy = documents.tidy
        self._documents_by_name: dict[str, tuple[bytes, str]] = {}
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
                for name, document in zip(stale, pool.map(self.get, stale), strict=True):
                    if document is not None:
                        # The content may be newer than the stamp: then it is read once more.
                        self._documents_by_name[name], self._stamps[name] = document, stamps[name]
        return {
            name: self._documents_by_name[name]
            for name in stamps
            if name in self._documents_by_name
        }
