"""A database in one file: its URL, and whether the file is unchanged.

URLs have SQLAlchemy's form: ``scheme:///relative/path``, ``scheme:////absolute/path``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.errors import SnapshotLost, UsageError
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Place


class FileUrls:
    """The URLs of one kind of database file.

    Args:
        memory: what replaces the path for a database in memory; empty without one.
    """

    def __init__(self, scheme: str, memory: str = "") -> None:
        self._scheme = scheme
        self._memory = memory
        relative, absolute = f"{scheme}:///relative/path", f"{scheme}:////absolute/path"
        self._form = f"{relative} or {absolute}"
        if memory:
            self._form = f"{relative}, {absolute} or {scheme}:///{memory}"

    def secrets(self, url: str) -> tuple[str, ...]:
        return ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        """Return the URL with an absolute path.

        Args:
            url: the URL, as the user wrote it.
            environ: the environment variables.
            flag: the option with the URL, for messages.

        Raises:
            UsageError: the URL does not have that form.
        """
        parts = self._split(url, flag)
        if parts.netloc or parts.query or parts.fragment:
            what = "a host" if parts.netloc else "parameters"
            raise UsageError(f"{flag}: expected {self._form}; found {what}")
        path = unquote(parts.path.removeprefix("/"))
        if "\0" in path:
            raise UsageError(f"{flag}: expected {self._form}; found a NUL in the path")
        if not path:
            raise UsageError(f"{flag}: expected {self._form}; found no path")
        if path == self._memory:
            return f"{self._scheme}:///{path}"
        return f"{self._scheme}:///{quote(os.path.abspath(path))}"

    def _split(self, url: str, flag: str) -> SplitResult:
        try:
            return urlsplit(url)
        except ValueError:  # its message would show part of the URL
            raise UsageError(f"{flag}: expected {self._form}; found an invalid host") from None

    def path(self, url: str) -> str | None:
        """Return the file's path with all links resolved; None for a database in memory."""
        path = unquote(urlsplit(url).path.removeprefix("/"))
        return None if path == self._memory else os.path.realpath(path)

    def place(self, url: str) -> Place:
        path = unquote(self._split(url, "connection").path.removeprefix("/"))
        shown = path if path == self._memory else os.path.abspath(path)
        return Place(self._scheme, "", None, shown)


def identity(scheme: str, path: str) -> str:
    """Return the identity of a file, whatever its content; empty if it does not exist."""
    with suppress(OSError):
        status = os.stat(path)
        return f"{scheme}:{status.st_dev}:{status.st_ino}"
    return ""


@dataclass(frozen=True, slots=True)
class FileVersions:
    """Versions of database files, to detect changes."""

    scheme: str
    log: str
    """The suffix of the log's name after the file's."""

    def identity(self, path: str) -> str:
        """Return a file's identity; see `identity`."""
        return identity(self.scheme, path)

    def version(self, path: str) -> str:
        """Return a text that changes when the file or its log is written to or replaced."""
        parts = []
        for each in (path, path + self.log):
            with suppress(OSError):  # it does not exist
                status = os.stat(each)
                parts.append(f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}")
        return "+".join(parts)

    def check(self, path: str, token: str) -> None:
        """Check that a file is unchanged.

        Args:
            path: the path of the file.
            token: the expected version.

        Raises:
            SnapshotLost: the file has another version.
        """
        if self.version(path) != token:
            raise SnapshotLost(
                f"source: {path} was written to, or replaced, since the snapshot was taken; "
                "expected it unchanged"
            )


class HeldFile:
    """A snapshot: a connection that keeps others from writing to a file while it is open.

    Args:
        version: the current version, which must stay the same.
    """

    def __init__(self, connection: Any, version: Callable[[], str]) -> None:
        self._connection = connection
        self._version = version
        self._closed = False
        self.snapshot = Snapshot(version(), now())

    def is_alive(self) -> bool:
        """Whether the file is still the same; one that was renamed over is not."""
        return not self._closed and self._version() == self.snapshot.token

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()


def now() -> str:
    """Return the current time in UTC, in the form that the control tables store."""
    return datetime.now(UTC).isoformat(sep=" ")
