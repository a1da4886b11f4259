"""A wrapper around any backend that kills processes: ``dying+SCHEME://`` for ``SCHEME://``.

It wraps a backend's objects and passes every call on. Each call has two moments, before and after
it, such as `hooks.commit after`. `PENSTOCK_KILLING` names a folder: each moment that passes is
appended to its file `passed`; a file named after a moment, or after a partition and a moment, kills
the first process that reaches it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from penstock.backends.api.registry import find_backend
from penstock.backends.api.worker import Pumping

FOLDER = "PENSTOCK_KILLING"
PREFIX = "dying+"
MID_STREAM = "reader.read before the end"
# Methods that return an object of the backend whose calls have moments as well.
COLLABORATORS = {
    *("commits", "generations", "journals", "nights", "presence", "recopies", "runs", "steps"),
    *("tables", "watermarks"),
}
PARTS = {"documents", "open_stage", "open_stream", "reading", "store", "writing"}
_partition = ""
"""The partition that this worker is copying."""


def pass_moment(name: str) -> None:
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    for file in (f"{_partition} {name}", name):
        try:
            os.rename(os.path.join(folder, file), os.path.join(folder, f"{file}, died"))
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    with open(os.path.join(folder, "passed"), "a", encoding="ascii") as passed:
        passed.write(f"{name}\n")


def _unchanged() -> str:
    """Return the file that leaves attempts as they are, so that some call fewer hooks."""
    return os.path.join(os.environ[FOLDER], "unchanged")


class Watched:
    """A wrapper around an object whose calls have moments.

    Args:
        name: the object's name in the names of moments.
    """

    def __init__(self, inner: Any, name: str) -> None:
        self.__dict__.update(_inner=inner, _name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in COLLABORATORS:
            return Watched(found, f"{self._name}.{name}")
        if not callable(found):
            return found

        def call(*arguments: Any, **kwargs: Any) -> Any:
            pass_moment(f"{self._name}.{name} before")
            result = found(*arguments, **kwargs)
            pass_moment(f"{self._name}.{name} after")
            return self._watched(name, result)

        return call

    def _watched(self, name: str, result: Any) -> Any:
        if name not in PARTS:
            return result
        part = name.removeprefix("open_")
        return _entering(result, part) if hasattr(result, "__enter__") else Watched(result, part)


@contextmanager
def _entering(manager: AbstractContextManager[Any], name: str) -> Iterator[Any]:
    with manager as inner:
        yield Watched(inner, name)


class WatchedCatalog:
    """A target's catalog whose control store has moments."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self.control = Watched(catalog.control, "control")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


class WatchedReader:
    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, partition: Any, wait: Any) -> Iterator[Any]:
        global _partition  # noqa: PLW0603 - a worker copies one at a time
        _partition = partition.id
        for block in self._reader.read(partition, wait):
            yield block
            pass_moment(MID_STREAM)

    def pump(self, partition: Any, sink: Any, wait: Any) -> Any:
        global _partition  # noqa: PLW0603
        _partition = partition.id
        if not isinstance(self._reader, Pumping):
            return None
        pump = self._reader.pump(partition, sink, wait)
        return pump and WatchedPump(pump)


class WatchedPump:
    def __init__(self, pump: Any) -> None:
        self._pump = pump

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pump, name)

    def run(self, *arguments: Any) -> bool:
        more: bool = self._pump.run(*arguments)
        # The target has the rows, but does not know yet that they are complete.
        pass_moment(MID_STREAM)
        return more


class WatchedWriter:
    """A writer around hooks with moments."""

    def __init__(self, writer: Any, spec: Any) -> None:
        if hasattr(writer.hooks, "unseen_bytes") and not os.path.exists(_unchanged()):
            writer.hooks.unseen_bytes = -1  # each attempt calls every hook
        self._writer = type(writer)(spec, Watched(writer.hooks, "hooks"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def begin(self, partition: Any, attempt: int, wait: Any) -> bool:
        global _partition  # noqa: PLW0603
        _partition = partition.id
        begun: bool = self._writer.begin(partition, attempt, wait)
        return begun


class WatchedBackend:
    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    @property
    def _inner(self) -> Any:
        return find_backend(f"{self._scheme}://", "--target")[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def environment(self) -> tuple[str, ...]:
        return (*self._inner.environment, FOLDER)

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> Any:
        return self._inner.resolve(url.removeprefix(PREFIX), environ, flag)

    def place(self, url: str) -> Any:
        return self._inner.place(url.removeprefix(PREFIX))

    def target(self, url: str, control_schema: str) -> WatchedCatalog:
        return WatchedCatalog(self._inner.target(url, control_schema))

    def reader(self, spec: Any) -> WatchedReader:
        return WatchedReader(self._inner.reader(spec))

    def writer(self, spec: Any) -> WatchedWriter:
        return WatchedWriter(self._inner.writer(spec), spec)


postgresql, clickhouse, duckdb, file, mssql, mysql, snowflake, sqlite = map(
    WatchedBackend,
    ("postgresql", "clickhouse", "duckdb", "file", "mssql", "mysql", "snowflake", "sqlite"),
)
