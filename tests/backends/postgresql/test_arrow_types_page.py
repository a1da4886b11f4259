"""Each line of the PostgreSQL and Arrow types in `tests/types/`, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.backends.postgresql.arrow.encoder import Encoder
from penstock.backends.postgresql.arrow.types import column_type_for
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.backends.shared.values.arrow import arrow_type
from penstock.model.tables import Column, TableRef

from ...types.arrow_types import ARROW_TYPES
from ...types.type_files import examples, lines

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

# Their scale is negative, or larger than their precision.
SCALES_SINCE_15 = ("numeric(5, -2)", "numeric(2, 5)")


def test_types_read_from_a_server(pair: Pair) -> None:
    pair.both(examples("postgresql"))
    source = PostgresSource(pair.source.url)
    try:
        for type_, expected in lines("postgresql/to_arrow"):
            if type_ in SCALES_SINCE_15 and pair.version < 15:
                continue
            pair.source.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {type_})")
            ref = TableRef("public", "t")
            (found,) = source.in_arrow(ref, source.columns(ref))
            assert str(arrow_type(found)) == expected, type_
    finally:
        source.close()


def test_types_written_to_a_server(pair: Pair) -> None:
    pair.both(examples("postgresql"))
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        for mine, theirs, stream, kind, warning in lines("postgresql/from_arrow"):
            type_ = ARROW_TYPES[mine]
            pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {theirs})")
            columns = target.columns(TableRef("public", "t"))
            (fit,) = target.fit([Column("a", mine, traits={"arrow": type_})], columns)
            details = (mine, theirs, fit)
            assert bool(fit.reason) == (stream == "refused"), details
            if fit.reason:
                continue
            encoder = Encoder(pa.schema([("a", type_)]), columns, "t", all_send=True)
            assert encoder.format.partition("-")[2] == stream, details
            assert (fit.warning, fit.canonical) == (warning, kind), details
    finally:
        target.close()


def test_types_of_created_columns(pair: Pair) -> None:
    for mine, theirs in lines("postgresql/new_columns"):
        assert column_type_for(ARROW_TYPES[mine]) == theirs, mine
        # The server's own name for the type.
        pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {theirs})")
        found = pair.target.value(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 't'::regclass AND attnum = 1"
        )
        assert found == theirs
