"""The files that a URL refers to.

A pattern that matches a folder includes all files below it. Names that begin with ``_`` or ``.``
are hidden, as is usual for Parquet files, unless the URL names them.
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
# The column of a Hive partition may begin with an underscore.
_VISIBLE = r"(?!\.|_(?![^/]*=))"
_BELOW = rf"(?:/{_VISIBLE}[^/]+)*"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as it was when files were listed."""

    path: str
    """In the file system's form: ``/folder/file``, ``bucket/key``."""
    size: int
    """In bytes."""
    version: str
    """On S3 the ETag, otherwise the time of the last change; it changes when the file is rewritten.
    """

    @property
    def keys(self) -> dict[str, str | None]:
        """The values in the folder names directly above the file: ``day=2024-01-01/``."""
        values: dict[str, str | None] = {}
        for folder in reversed(self.path.split("/")[:-1]):
            name, equals, value = folder.partition("=")
            if not equals or not name:
                break
            values[unquote(name)] = None if value == NULL_FOLDER else unquote(value)
        return dict(reversed(values.items()))


def list_files(
    location: FilesLocation, side: str = "source", *, may_be_none: bool = False
) -> tuple[ListedFile, ...]:
    """Return all files that a URL refers to, each once, sorted by path.

    Args:
        location: where the files are.
        side: `source` or `target`, for messages.
        may_be_none: whether no file need match.

    Raises:
        PlanningError: no file matches.
        UsageError: a pattern is malformed.
        TransientError, PermanentError: the files cannot be listed.
    """
    by_path: dict[str, ListedFile] = {}
    for pattern in location.patterns:
        shown = f"{location.scheme}://{unquote(pattern)}"
        with translated(side, shown):
            if location.scheme == FILE:
                files = list(_local(pattern))
            else:
                files = list(_remote(s3_client(location, side), pattern))
        if not (files or may_be_none):
            raise PlanningError(
                f"{side}: {shown}: expected at least one file, found "
                + (
                    _missing_folder(location, pattern)
                    or "none (names that begin with _ or . are hidden)"
                )
            )
        by_path.update((file.path, file) for file in files)
    return tuple(by_path[path] for path in sorted(by_path))


def _missing_folder(location: FilesLocation, pattern: str) -> str:
    """Return the folder of the files if it is missing; otherwise an empty text.

    A bucket has no folders.
    """
    folder = _base(pattern).rpartition("/")[0]
    if location.scheme != FILE or not folder or os.path.isdir(folder):
        return ""
    return f"no folder {folder}"


def fingerprint(files: Sequence[ListedFile]) -> str:
    """Return a text that changes when a file is added, removed or rewritten."""
    content = json.dumps([[file.path, file.size, file.version] for file in files])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _matcher(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for the paths that a percent-encoded pattern matches.

    Raises:
        UsageError: a bracket in the pattern matches no character.
    """
    regex = ""
    position = 0
    pattern = pattern.rstrip("/")
    for wild in _WILD.finditer(pattern):
        regex += re.escape(unquote(pattern[position : wild.start()]))
        visible = _VISIBLE if regex.endswith("/") else ""
        token = wild[0]
        if token == "**/":
            regex += rf"(?:{_VISIBLE}[^/]+/)*"
        elif token == "**":
            regex += rf"{visible}[^/]*{_BELOW}"
        elif token == "*":
            regex += rf"{visible}[^/]*"
        else:
            inside = token[1:-1].replace("\\", "\\\\")
            inside = "^" + inside[1:] if inside.startswith("!") else inside
            regex += f"[{inside}]"
        position = wild.end()
    regex += re.escape(unquote(pattern[position:]))
    try:
        return re.compile(regex + _BELOW, re.DOTALL)
    except re.error as error:
        raise UsageError(
            f"{unquote(pattern)}: expected a pattern with brackets such as [0-9] or [!abc]; found "
            f"{error.msg}"
        ) from error


def _base(pattern: str) -> str:
    """Return the common beginning of a pattern's paths."""
    wild = _WILD.search(pattern)
    return unquote(pattern if wild is None else pattern[: wild.start()])


def _local(pattern: str) -> Iterator[ListedFile]:
    base = _base(pattern)
    if _WILD.search(pattern):
        base = base.rpartition("/")[0] or "/"
    base = base.rstrip("/") or "/"
    try:
        status = os.stat(base)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(status.st_mode):
        if not _WILD.search(pattern) and not pattern.endswith("/"):
            yield local_file(base, status)
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


def local_file(path: str, status: os.stat_result) -> ListedFile:
    """Return a local file, with its size and version from a `stat` call."""
    return ListedFile(path, status.st_size, str(status.st_mtime_ns))


def _remote(client: S3Client, pattern: str) -> Iterator[ListedFile]:
    bucket, _, base = _base(pattern).partition("/")
    if base and not base.endswith("/") and not _WILD.search(pattern):
        # If the key exists, it is the first of those that begin with it.
        first = client.list_objects_v2(Bucket=bucket, Prefix=base, MaxKeys=1).get("Contents", [])
        if first and first[0]["Key"] == base:
            yield ListedFile(f"{bucket}/{base}", first[0]["Size"], first[0]["ETag"])
            return
        base += "/"
    matcher = _matcher(pattern)
    for item in list_objects(client, bucket, base):
        path = f"{bucket}/{item['Key']}"
        # Some tools write a key that ends in / for a folder.
        if not path.endswith("/") and matcher.fullmatch(path):
            yield ListedFile(path, item["Size"], item["ETag"])
