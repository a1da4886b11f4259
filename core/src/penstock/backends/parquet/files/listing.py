"""Which files a URL stands for.

A pattern that matches a folder stands for all files below it. What begins with ``_`` or ``.`` is
hidden, as everywhere where Parquet files are kept, unless the URL names it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.load.names import NULL_FOLDER
from penstock.backends.parquet.location import FILE, FilesLocation
from penstock.backends.parquet.storage.documents import list_objects
from penstock.backends.parquet.storage.filesystems import s3_client
from penstock.errors import PlanningError, UsageError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_WILD = re.compile(r"\*\*/?|\*|\[[^]]+\]")
# A Hive partition's column may begin with an underscore.
_VISIBLE = r"(?!\.|_(?![^/]*=))"
_BELOW = rf"(?:/{_VISIBLE}[^/]+)*"


@dataclass(frozen=True, slots=True)
class ListedFile:
    path: str
    """As its file system names it: ``/folder/file``, ``bucket/key``."""
    size: int
    """In bytes."""
    version: str
    """Of S3 the ETag, else the time of the last change: another one says it was written anew."""

    @property
    def keys(self) -> dict[str, str | None]:
        """What the Hive-style folders right above the file say: ``day=2024-01-01/``."""
        found: dict[str, str | None] = {}
        for folder in reversed(self.path.split("/")[:-1]):
            name, equals, value = folder.partition("=")
            if not equals or not name:
                break
            found[unquote(name)] = None if value == NULL_FOLDER else unquote(value)
        return dict(reversed(found.items()))


def list_files(location: FilesLocation, side: str = "source") -> tuple[ListedFile, ...]:
    """All files that a URL stands for, each once, by their paths.

    Raises:
        PlanningError: there is none.
        UsageError: a malformed pattern.
        TransientError, PermanentError: they cannot be listed.
    """
    found: dict[str, ListedFile] = {}
    for pattern in location.patterns:
        shown = f"{location.scheme}://{unquote(pattern)}"
        with translated(side, shown):
            if location.scheme == FILE:
                files = list(_local(pattern))
            else:
                files = list(_remote(s3_client(location, side), pattern))
        if not files:
            raise PlanningError(
                f"{side}: no file matches {shown}: expected one or more, found "
                + (_missing_folder(location, pattern) or "0 (_hidden and .hidden ones left out)")
            )
        found.update((file.path, file) for file in files)
    return tuple(found[path] for path in sorted(found))


def _missing_folder(location: FilesLocation, pattern: str) -> str:
    """Where the files would be, if that is not there: a bucket has no folders."""
    folder = _base(pattern).rpartition("/")[0]
    if location.scheme != FILE or not folder or os.path.isdir(folder):
        return ""
    return f"no folder {folder}"


def fingerprint(files: Sequence[ListedFile]) -> str:
    """Changes when a file comes, goes, or is written anew."""
    content = json.dumps([[file.path, file.size, file.version] for file in files])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _matcher(pattern: str) -> re.Pattern[str]:
    """Of all paths that a percent-encoded pattern stands for.

    Raises:
        UsageError: no letter is in one of its brackets.
    """
    written = ""
    position = 0
    pattern = pattern.rstrip("/")
    for wild in _WILD.finditer(pattern):
        written += re.escape(unquote(pattern[position : wild.start()]))
        visible = _VISIBLE if written.endswith("/") else ""
        token = wild[0]
        if token == "**/":
            written += rf"(?:{_VISIBLE}[^/]+/)*"
        elif token == "**":
            written += rf"{visible}[^/]*{_BELOW}"
        elif token == "*":
            written += rf"{visible}[^/]*"
        else:
            inside = token[1:-1].replace("\\", "\\\\")
            inside = "^" + inside[1:] if inside.startswith("!") else inside
            written += f"[{inside}]"
        position = wild.end()
    written += re.escape(unquote(pattern[position:]))
    try:
        return re.compile(written + _BELOW, re.DOTALL)
    except re.error as error:
        raise UsageError(
            f"{unquote(pattern)}: expected brackets such as [0-9] or [!abc]; found a {error.msg}"
        ) from error


def _base(pattern: str) -> str:
    """What all paths of a pattern begin with."""
    wild = _WILD.search(pattern)
    return unquote(pattern if wild is None else pattern[: wild.start()])


def _local(pattern: str) -> Iterator[ListedFile]:
    base = _base(pattern)
    if _WILD.search(pattern):
        base = base.rpartition("/")[0] or "/"
    base = base.rstrip("/") or "/"
    try:
        found = os.stat(base)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(found.st_mode):
        if not _WILD.search(pattern) and not pattern.endswith("/"):
            yield local_file(base, found)
        return
    matcher = _matcher(pattern)
    folders = [base]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif matcher.fullmatch(entry.path):
                    yield local_file(entry.path, entry.stat())


def local_file(path: str, found: os.stat_result) -> ListedFile:
    return ListedFile(path, found.st_size, str(found.st_mtime_ns))


def _remote(client: S3Client, pattern: str) -> Iterator[ListedFile]:
    bucket, _, base = _base(pattern).partition("/")
    if base and not base.endswith("/") and not _WILD.search(pattern):
        # The first of all keys that begin so is this one, if it is there.
        first = client.list_objects_v2(Bucket=bucket, Prefix=base, MaxKeys=1).get("Contents", [])
        if first and first[0]["Key"] == base:
            yield ListedFile(f"{bucket}/{base}", first[0]["Size"], first[0]["ETag"])
            return
        base += "/"
    matcher = _matcher(pattern)
    for found in list_objects(client, bucket, base):
        path = f"{bucket}/{found['Key']}"
        # A key that ends in / is what some tools write for a folder.
        if not path.endswith("/") and matcher.fullmatch(path):
            yield ListedFile(path, found["Size"], found["ETag"])
