"""A database that is one file: its URL, and whether the file is the one that it was.

URLs are as SQLAlchemy has them: ``scheme:///relative/path``, ``scheme:////absolute/path``.
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
    """
    Parameters:
        memory: what stands in the place of a path for a database in memory; empty: there is none.
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
        """The same URL with an absolute path.

        Raises:
            UsageError: it is not of that form.
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
        except ValueError:  # its words would show a part of the URL
            raise UsageError(f"{flag}: expected {self._form}; found an invalid host") from None

    def path(self, url: str) -> str | None:
        """The file's path, all links in it followed; None for a database in memory."""
        path = unquote(urlsplit(url).path.removeprefix("/"))
        return None if path == self._memory else os.path.realpath(path)

    def place(self, url: str) -> Place:
        path = unquote(self._split(url, "connection").path.removeprefix("/"))
        shown = path if path == self._memory else os.path.abspath(path)
        return Place(self._scheme, "", None, shown)


def identity(scheme: str, path: str) -> str:
    """Equal: the same file, whatever it holds. Empty where there is none."""
    with suppress(OSError):
        found = os.stat(path)
        return f"{scheme}:{found.st_dev}:{found.st_ino}"
    return ""


@dataclass(frozen=True, slots=True)
class FileVersions:
    """Tells whether a database file is still the one that it was."""

    scheme: str
    log: str
    """What the name of the log beside it has after the file's."""

    def identity(self, path: str) -> str:
        """See above."""
        return identity(self.scheme, path)

    def version(self, path: str) -> str:
        """Equal: nobody has written to the file, or to its log, or put another one in its place."""
        parts = []
        for each in (path, path + self.log):
            with suppress(OSError):  # not there
                found = os.stat(each)
                parts.append(f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}")
        return "+".join(parts)

    def check(self, path: str, token: str) -> None:
        """
        Parameters:
            token: the version that is expected.

        Raises:
            SnapshotLost: it is another one by now.
        """
        if self.version(path) != token:
            raise SnapshotLost(
                f"source: {path} was written to, or replaced, since the snapshot was taken; "
                "expected it as it was"
            )


class HeldFile:
    """A snapshot: a connection that keeps others from writing to a file while it is open.

    Parameters:
        version: what the file is now; it has to stay the same.
    """

    def __init__(self, connection: Any, version: Callable[[], str]) -> None:
        self._connection = connection
        self._version = version
        self._closed = False
        self.snapshot = Snapshot(version(), now())

    def alive(self) -> bool:
        """A file that was renamed over is another one."""
        return not self._closed and self._version() == self.snapshot.token

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()


def now() -> str:
    return datetime.now(UTC).isoformat(sep=" ")
