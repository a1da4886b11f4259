"""Two databases and a Dagster instance for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from .warehouse import Warehouse

if TYPE_CHECKING:
    from tests.conftest import Connection

TABLE = "(id int PRIMARY KEY, day date, region text)"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def empty(
    source: Connection,
    target: Connection,
    source_url: str,
    target_url: str,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> Warehouse:
    """Return a warehouse without tables."""
    monkeypatch.setenv("PG_SRC", source_url)
    monkeypatch.setenv("PG_DST", target_url)
    target.execute("CREATE SCHEMA dw")
    return Warehouse(source, target, instance)


@pytest.fixture
def warehouse(empty: Warehouse) -> Warehouse:
    empty.source.execute(f"CREATE TABLE public.t {TABLE}".encode())
    empty.source.execute(
        "INSERT INTO public.t SELECT n, '2024-01-01'::date + n / 100, 'r' || n % 3"
        " FROM generate_series(0, 999) AS n"
    )
    empty.target.execute(f"CREATE TABLE dw.t {TABLE}".encode())
    return empty
