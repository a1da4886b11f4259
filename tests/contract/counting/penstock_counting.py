"""A wrapper around any backend that counts statements: ``counted+SCHEME://`` for ``SCHEME://``.

It wraps a driver's connections, in the main process and in workers, and passes every call on.
`PENSTOCK_COUNTING` names a file, to which it appends a line with the process id for each statement.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any

from penstock.backends.api.registry import find_backend

FILE = "PENSTOCK_COUNTING"
PREFIX = "counted+"
MOST = 300


def count(statement: object) -> None:
    file = os.environ.get(FILE)
    if file is not None:
        line = f"{os.getpid()} {' '.join(str(statement).split())[:MOST]}\n"
        with open(file, "a", encoding="utf-8") as found:
            found.write(line)


class Counted:
    """A wrapper around a driver's connection."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "cursor":
            return lambda: Counted(found())
        return counting(found) if name in ("execute", "executemany", "sql") else found

    def __enter__(self) -> Counted:
        self._inner.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        # The driver decides what to do: one commits, another closes.
        self._inner.__exit__(*ended)


def counting(call: Callable[..., Any], place: int = 0) -> Callable[..., Any]:
    """Count the statements of a call.

    Args:
        place: the position of the statement among the arguments.
    """

    @wraps(call)
    def counted(*arguments: Any, **kwargs: Any) -> Any:
        count(arguments[place])
        return call(*arguments, **kwargs)

    return counted


def before_driver(module: str) -> None:
    """Wrap the connections of a driver whose objects cannot be changed."""
    driver = import_module(module)
    connect = driver.connect
    vars(driver)["connect"] = lambda *a, **kwargs: Counted(connect(*a, **kwargs))


def before_connection(module: str, *names: str) -> None:
    """Wrap the class that sends all statements of a backend."""
    connection = import_module(module).Connection
    for name in names:
        setattr(connection, name, counting(getattr(connection, name), 1))


_WATCHED: Mapping[str, Callable[[], None]] = {
    "duckdb": lambda: before_driver("duckdb"),
    "sqlite": lambda: before_driver("sqlite3"),
    "clickhouse": lambda: before_connection(
        "penstock.backends.clickhouse.connection", "rows", "change", "insert", "batches"
    ),
    "snowflake": lambda: before_connection(
        "penstock.backends.snowflake.connection", "_executed", "described"
    ),
}


class CountedBackend:
    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._watches = False

    @property
    def _inner(self) -> Any:
        if not self._watches and FILE in os.environ:
            self._watches = True
            _WATCHED[self._scheme]()
        return find_backend(f"{self._scheme}://", "--target")[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def environment(self) -> tuple[str, ...]:
        return (*self._inner.environment, FILE)

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> Any:
        return self._inner.resolve(url.removeprefix(PREFIX), environ, flag)

    def place(self, url: str) -> Any:
        return self._inner.place(url.removeprefix(PREFIX))


clickhouse, duckdb, snowflake, sqlite = map(
    CountedBackend, ("clickhouse", "duckdb", "snowflake", "sqlite")
)
