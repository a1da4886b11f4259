"""The types of ClickHouse in `tests/types/`, against a server and the code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.backends.clickhouse.source import ClickHouseSource
from penstock.backends.clickhouse.types import MADE
from penstock.backends.shared.values.arrow import TRAIT, arrow_type, kind_of
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef
from penstock_testkit import connect_clickhouse

from ...conftest import fresh_clickhouse
from ...types.arrow_types import ARROW_TYPES
from ...types.type_files import lines


@pytest.fixture(scope="module")
def url(clickhouse_server: str) -> Iterator[str]:
    with fresh_clickhouse(clickhouse_server) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    with closing(connect_clickhouse(url)) as found:
        yield found


def test_types_read_from_clickhouse(url: str, client: Any) -> None:
    known = lines("clickhouse/to_arrow")
    columns = ", ".join(f"c{place} {mine}" for place, (mine, *_) in enumerate(known))
    client.command(f"CREATE TABLE f ({columns}) ENGINE = Memory")
    with closing(ClickHouseSource(url)) as source:
        table = TableRef(url.rpartition("/")[2], "f")
        found = source.in_arrow(table, source.columns(table))
    seen = [(str(arrow_type(column)), kind_of(arrow_type(column))) for column in found]
    assert seen == [(theirs, kind) for _, theirs, kind in known]


@pytest.mark.parametrize(("mine", "theirs"), lines("clickhouse/new_columns"))
def test_types_created_in_clickhouse(mine: str, theirs: str) -> None:
    try:
        found = MADE.of_column(Column("c", "", False, traits={TRAIT: ARROW_TYPES[mine]}))
    except PlanningError:
        found = "refused"
    assert found == theirs


def test_the_server_accepts_the_created_types(client: Any) -> None:
    types = sorted({theirs for _, theirs in lines("clickhouse/new_columns")} - {"refused"})
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(types))
    client.command(f"CREATE TABLE m ({columns}) ENGINE = Memory")
