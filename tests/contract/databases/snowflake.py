"""Snowflake or its emulator for the contract suite."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import date, time
from decimal import Decimal
from typing import Any

from penstock_testkit import connect_snowflake, is_emulated
from penstock_testkit.snowflake import EXTERNAL

from ..database import Database, Places, SqlDatabase
from ..rows import Rows

ALL = "PENSTOCK_TEST_SNOWFLAKE_ALL"
# The emulator takes some 10 ms per statement. These tests call each hook and each method of the
# control store at least once, in every mode and with every strategy.
CHOSEN = (
    "test_every_kind_of_value_arrives[postgresql-snowflake]",
    "test_every_kind_of_value_arrives[snowflake-postgresql]",
    "test_each_mode_with_every_strategy[snowflake-append]",
    "test_each_mode_among_other_rows[snowflake-replace]",
    "test_each_mode_among_other_rows[snowflake-upsert]",
    "test_each_mode_among_other_rows[snowflake-swap]",
    "test_a_supervisor_killed_at_each_call_of_the_control_store[snowflake-swap]",
    "test_partitions_of_a_series_are_committed_once[snowflake]",
    "test_one_of_several_callers_adds_a_record[snowflake]",
    "test_changes_by_several_callers_are_not_lost[snowflake]",
    "test_a_transaction_is_all_or_nothing[snowflake-Hold.ALONE]",
    "test_many_records_at_once[snowflake]",
    "test_changed_rows_are_found[snowflake]",
    "test_usual_types_agree_with_the_kinds[snowflake]",
    "test_values_of_each_type[snowflake]",
)
# Rows per statement: inserting them one by one takes as long as the copy.
AT_ONCE = 100


class Snowflake(SqlDatabase):
    name = "snowflake"
    table = "public.t"
    quote = ""
    statements = ((110, 70), (12, 36))
    many = 5
    made_type = "number(21,0)"

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    def left_out(cls, test: str) -> str:
        if test in CHOSEN or os.environ.get(EXTERNAL) or os.environ.get(ALL):
            return ""
        return f"the emulator is slow: it runs where {EXTERNAL} names an account, or with {ALL}=1"

    @classmethod
    @contextmanager
    def opened(cls, places: Places) -> Iterator[Database]:
        with places.snowflake() as url:
            yield cls(url)

    @property
    def source(self) -> Mapping[str, Any]:
        # The emulator has no time travel.
        return {**super().source, "snapshot": "none"} if is_emulated(self.url) else super().source

    def insert_all(self, cursor: Any, statement: str, rows: Rows) -> None:
        # The driver binds times as numbers, which the emulator rounds, and decimals, which it does
        # not support.
        values = [
            [str(v) if isinstance(v, date | time | Decimal) else v for v in row]
            for row in rows.rows
        ]
        before, places = statement.split(" VALUES ")
        for start in range(0, len(values), AT_ONCE):
            some = values[start : start + AT_ONCE]
            cursor.execute(
                f"{before} VALUES {', '.join([places] * len(some))}",
                [value for row in some for value in row],
            )

    def in_sql(self, name: str) -> str:
        return name.upper()

    def connected(self) -> AbstractContextManager[Any]:
        return closing(connect_snowflake(self.url))

    def everything(self) -> list[str]:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_schema || '.' || table_name || ' ' || created"
                " FROM information_schema.tables WHERE table_schema <> 'INFORMATION_SCHEMA'"
            )
            return sorted(name for (name,) in cursor.fetchall())
