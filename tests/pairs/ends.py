"""Every kind of source and target, as these tests fill and read it: with Python values, none of
Penstock's own means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from psycopg import sql

from penstock_testkit import S3Server

from ..plain_rows import plain

Row = tuple[Any, ...]

LAST_MICROSECOND = "1969-12-31 23:59:59.999999"


@dataclass(frozen=True)
class Kind:
    """A kind of column that every system has, in each one's words, and values at its ends."""

    postgresql: str
    duckdb: str
    arrow: pa.DataType
    values: tuple[Any, ...]


KINDS: Mapping[str, Kind] = {
    "boolean": Kind("boolean", "BOOLEAN", pa.bool_(), (True, False)),
    "smallint": Kind("smallint", "SMALLINT", pa.int16(), (-32768, 0, 32767)),
    "integer": Kind("integer", "INTEGER", pa.int32(), (-(2**31), 0, 2**31 - 1)),
    "bigint": Kind("bigint", "BIGINT", pa.int64(), (-(2**63), 0, 2**63 - 1)),
    "real": Kind("real", "FLOAT", pa.float32(), (1.5, -0.25, math.inf, -math.inf, math.nan)),
    "double": Kind(
        "double precision",
        "DOUBLE",
        pa.float64(),
        (
            0.1,
            1e15,
            1e16,
            1e-7,
            5e-324,
            1.7976931348623157e308,
            math.inf,
            -math.inf,
            math.nan,
            -0.0,
        ),
    ),
    "decimal": Kind(
        "numeric(38,10)",
        "DECIMAL(38,10)",
        pa.decimal128(38, 10),
        (
            Decimal("0"),
            Decimal("-1.5"),
            Decimal("1200.0000000001"),
            Decimal("9" * 28 + "." + "9" * 10),
        ),
    ),
    "money": Kind("numeric(15,2)", "DECIMAL(15,2)", pa.decimal128(15, 2), (Decimal("-0.01"), 10)),
    "text": Kind(
        "text", "VARCHAR", pa.string(), ("", " a ", 'é"\n\t\\N,;{}', "🐘" * 10, "NULL", "\\")
    ),
    "bytes": Kind("bytea", "BLOB", pa.binary(), (b"", b"\x00\xff'\\", bytes(range(256)))),
    "date": Kind(
        "date", "DATE", pa.date32(), (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31))
    ),
    "time": Kind("time", "TIME", pa.time64("us"), (time(0), time(23, 59, 59, 999999))),
    "timestamp": Kind(
        "timestamp",
        "TIMESTAMP",
        pa.timestamp("us"),
        tuple(map(datetime.fromisoformat, ("0001-01-01", LAST_MICROSECOND, "9999-12-31"))),
    ),
    "timestamptz": Kind(
        "timestamptz",
        "TIMESTAMPTZ",
        pa.timestamp("us", "UTC"),
        (datetime(2024, 1, 31, 23, 59, 59, 123456, UTC), datetime(1900, 1, 1, tzinfo=UTC)),
    ),
    "uuid": Kind("uuid", "UUID", pa.uuid(), (UUID(int=0), UUID(int=2**128 - 1))),
    "integers": Kind(
        "integer[]", "INTEGER[]", pa.list_(pa.int32()), ([], [1, None, -(2**31)], [None])
    ),
    "texts": Kind(
        "text[]", "VARCHAR[]", pa.list_(pa.string()), ([], ["", "a,b", '"', "NULL", None, "{}"])
    ),
}


@dataclass(frozen=True)
class Rows:
    """A table: the kinds of its columns by name, and its rows."""

    columns: Mapping[str, str]
    rows: Sequence[Row]

    @property
    def plain(self) -> list[Row]:
        return sorted((plain(row) for row in self.rows), key=repr)

    def arrow(self) -> pa.Table:
        arrays = []
        for place, kind in enumerate(self.columns.values()):
            wanted = KINDS[kind].arrow
            values = [row[place] for row in self.rows]
            if kind == "uuid":
                values = [None if value is None else value.bytes for value in values]
                storage = pa.array(values, wanted.storage_type)
                arrays.append(pa.ExtensionArray.from_storage(wanted, storage))
            else:
                arrays.append(pa.array(values, wanted))
        return pa.table(arrays, names=list(self.columns))


def every_kind() -> Rows:
    """A column of each kind; each value, and NULL, in some row."""
    height = max(len(kind.values) for kind in KINDS.values()) + 1
    rows = [
        (
            number,
            *(
                kind.values[number] if number < len(kind.values) else None
                for kind in KINDS.values()
            ),
        )
        for number in range(height)
    ]
    return Rows({"id": "integer", **{f"c_{name}": name for name in KINDS}}, rows)


def numbered(count: int, groups: int = 5) -> Rows:
    """Rows that can be cut in every way."""
    return Rows(
        {"id": "bigint", "grp": "text", "day": "date", "amount": "money"},
        [
            (
                number,
                None if number % 11 == 0 else f"g{number % groups}",
                date.fromordinal(date(2024, 1, 1).toordinal() + number % 30),
                Decimal(number) / 4,
            )
            for number in range(count)
        ],
    )


class End(Protocol):
    """A place that rows can be copied from and to."""

    name: str

    def fill(self, rows: Rows) -> None:
        """Make the table, or the files, and fill them."""
        ...

    def make(self, rows: Rows, key: str = "") -> None:
        """Make the table empty, where a target needs one.

        Parameters:
            key: the column of its primary key; none by default.
        """
        ...

    def read(self) -> list[Row]:
        """All rows, plain and sorted; columns in the table's order."""
        ...

    @property
    def source(self) -> Mapping[str, Any]:
        """Options of a copy from here."""
        ...

    @property
    def target(self) -> Mapping[str, Any]:
        """Options of a copy to here."""
        ...


@dataclass
class PostgresEnd:
    url: str
    name: str = "postgresql"

    def _create(self, rows: Rows) -> sql.Composed:
        columns = [
            sql.SQL("{} " + KINDS[kind].postgresql).format(sql.Identifier(name))
            for name, kind in rows.columns.items()
        ]
        return sql.SQL("CREATE TABLE public.t ({})").format(sql.SQL(", ").join(columns))

    def make(self, rows: Rows, key: str = "") -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(self._create(rows))
            if key:
                name = sql.Identifier(key)
                connection.execute(
                    sql.SQL("ALTER TABLE public.t ADD PRIMARY KEY ({})").format(name)
                )

    def fill(self, rows: Rows) -> None:
        self.make(rows)
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            places = sql.SQL(", ").join(
                sql.SQL("%s::" + KINDS[kind].postgresql) for kind in rows.columns.values()
            )
            cursor.executemany(
                sql.SQL("INSERT INTO public.t VALUES ({})").format(places), rows.rows
            )

    def read(self) -> list[Row]:
        with psycopg.connect(self.url) as connection:
            return sorted(
                (plain(row) for row in connection.execute("SELECT * FROM public.t")), key=repr
            )

    @property
    def source(self) -> Mapping[str, Any]:
        return {"source": self.url, "table": "public.t"}

    @property
    def target(self) -> Mapping[str, Any]:
        return {"target": self.url, "target_table": "public.t"}


@dataclass
class DuckEnd:
    path: Path
    name: str = "duckdb"

    @property
    def url(self) -> str:
        return f"duckdb:///{self.path}"

    def make(self, rows: Rows, key: str = "") -> None:
        columns = ", ".join(f'"{name}" {KINDS[kind].duckdb}' for name, kind in rows.columns.items())
        with closing(duckdb.connect(str(self.path))) as connection:
            primary = f', PRIMARY KEY ("{key}")' if key else ""
            connection.execute(f"CREATE TABLE main.t ({columns}{primary})")

    def fill(self, rows: Rows) -> None:
        self.make(rows)
        with closing(duckdb.connect(str(self.path))) as connection:
            places = ", ".join("?" for _ in rows.columns)
            connection.begin()
            for row in rows.rows:
                connection.execute(f"INSERT INTO main.t VALUES ({places})", row)
            connection.commit()

    def read(self) -> list[Row]:
        with closing(duckdb.connect(str(self.path), read_only=True)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found: pa.Table = connection.sql("SELECT * FROM main.t").to_arrow_table()
        return sorted((plain(row.values()) for row in found.to_pylist()), key=repr)

    @property
    def source(self) -> Mapping[str, Any]:
        return {"source": self.url, "table": "main.t"}

    @property
    def target(self) -> Mapping[str, Any]:
        return {"target": self.url, "target_table": "main.t"}


@dataclass
class FilesEnd:
    """Parquet files in a folder."""

    folder: Path
    name: str = "parquet"
    files: int = 3

    def make(self, rows: Rows, key: str = "") -> None:
        """A target of files needs nothing beforehand."""

    def fill(self, rows: Rows) -> None:
        table = rows.arrow()
        self.folder.mkdir(parents=True, exist_ok=True)
        step = -(-table.num_rows // self.files) or 1
        for number, start in enumerate(range(0, max(table.num_rows, 1), step)):
            path = self.folder / f"part-{number}.parquet"
            pq.write_table(table.slice(start, step), path, row_group_size=max(1, step // 4))

    def read(self) -> list[Row]:
        if not list(self.folder.rglob("*.parquet")):
            return []
        found = ds.dataset(self.folder, format="parquet").to_table()
        return sorted((plain(row.values()) for row in found.to_pylist()), key=repr)

    @property
    def source(self) -> Mapping[str, Any]:
        return {"source": f"{self.folder}/*.parquet"}

    @property
    def target(self) -> Mapping[str, Any]:
        return {"target": f"{self.folder}/"}


@dataclass
class BucketEnd:
    """Parquet files in a bucket: written and read here through a folder of our own."""

    s3: S3Server
    bucket: str
    folder: Path
    name: str = "s3"
    prefix: str = "lake/t"
    files: int = field(default=3)

    def make(self, rows: Rows, key: str = "") -> None:
        """A target of files needs nothing beforehand."""

    def fill(self, rows: Rows) -> None:
        FilesEnd(self.folder, files=self.files).fill(rows)
        for path in self.folder.glob("*.parquet"):
            self.s3.put(self.bucket, f"{self.prefix}/{path.name}", path)

    def read(self) -> list[Row]:
        for key in self.s3.keys(self.bucket, f"{self.prefix}/"):
            if key.endswith(".parquet"):
                path = self.folder / "read" / key.replace("/", "-")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.s3.read(self.bucket, key))
        return FilesEnd(self.folder / "read").read()

    @property
    def source(self) -> Mapping[str, Any]:
        return {"source": self.s3.url(f"{self.bucket}/{self.prefix}/*.parquet")}

    @property
    def target(self) -> Mapping[str, Any]:
        return {"target": self.s3.url(f"{self.bucket}/{self.prefix}/")}
