"""Whoever may create functions in a schema on the search path gets none of them called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import BatchSpec, copy_all, tune
from penstock.engine import windows
from penstock.events import BatchFinished

from .traps import plant, sprung

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

KEYS = {
    "int": "n",
    "bigint": "n",
    "text": "'k' || n",
    "varchar(20)": "'k' || n",
    "citext": "'K' || n",
    "uuid": "md5(n::text)::uuid",
    "numeric(10,2)": "n / 4.0",
    "date": "date '2026-01-01' + n",
    "timestamptz": "timestamptz '2026-01-01 UTC' + n * interval '1 hour'",
    "code": "'k' || n",
    "mood": "(ARRAY['low', 'mid', 'high'])[n]::mood",
    "pairing": "ROW(n, 'p' || n)::pairing",
}
TYPES = (
    "CREATE EXTENSION citext SCHEMA public",
    "CREATE DOMAIN public.code AS varchar(20)",
    "CREATE TYPE public.mood AS ENUM ('low', 'mid', 'high')",
    "CREATE TYPE public.pairing AS (a int, b text)",
)


def rows_of(type_: str) -> int:
    return 3 if type_ == "mood" else 60


@pytest.fixture
def trapped(pair: Pair) -> Pair:
    """Both databases, with a table for each type of key, and traps in `public`."""
    pair.both(*TYPES, "CREATE SCHEMA shop")
    for number, (type_, value) in enumerate(KEYS.items()):
        pair.both(
            f"CREATE TABLE shop.t{number} (k {type_} PRIMARY KEY, v varchar(9), w text[],"
            " at timestamptz NOT NULL DEFAULT now())"
        )
        pair.source.run(
            f"INSERT INTO shop.t{number} SELECT {value}, 'v' || n % 7, ARRAY['w'] FROM"
            f" generate_series(1, {rows_of(type_)}) AS n",
            f"ANALYZE shop.t{number}",
        )
    for side in (pair.source, pair.target):
        (database,) = side.connection.execute("SELECT current_database()").fetchone() or ("",)
        side.run(f"ALTER DATABASE \"{database}\" SET track_functions = 'all'")
        plant(side)
    return pair


def check(pair: Pair) -> None:
    assert (sprung(pair.source), sprung(pair.target)) == ({}, {})


def tables() -> list[tuple[str, str]]:
    return [(f"shop.t{number}", type_) for number, type_ in enumerate(KEYS)]


def test_the_traps_work(trapped: Pair) -> None:
    with psycopg.connect(trapped.source.url, autocommit=True) as other:
        other.execute("SELECT unnest(ARRAY['a']::text[])")
        other.execute("SELECT 'a'::varchar = 'b'::varchar, max('a'::varchar)")
        other.execute(
            "SELECT 'low'::mood = 'mid'::mood, ROW(1, 'a')::pairing < ROW(2, 'b')::pairing"
        )
    found = sprung(trapped.source)
    assert "unnest(text[])" in found
    assert len(found) == 5


@pytest.mark.parametrize("mode", ["append", "truncate", "recreate", "swap", "upsert", "replace"])
def test_in_a_copy(trapped: Pair, mode: str) -> None:
    for table, type_ in tables():
        options: dict[str, Any] = {"mode": mode, "partitions": 3, "verify": "checksums"}
        if mode == "replace":
            options |= {
                "strategy": "values" if type_ in ("mood", "pairing") else "hash",
                "key": "k",
            }
        trapped.copy(table, **options)
        trapped.assert_same(table)
    check(trapped)


@pytest.mark.parametrize("strategy", ["blocks", "range", "ntile", "hash", "values", "time"])
def test_in_each_strategy(trapped: Pair, strategy: str) -> None:
    for table, type_ in tables():
        if strategy == "time" and type_ not in ("date", "timestamptz"):
            continue
        if strategy in ("range", "ntile") and type_ in ("citext", "mood", "pairing"):
            continue
        options: dict[str, Any] = {"strategy": strategy, "partitions": 3, "mode": "truncate"}
        if strategy != "blocks":
            options["key"] = "k"
        if strategy == "time":
            options |= {"interval": "1 day"}
            del options["partitions"]
        if strategy in ("values", "time"):
            options.pop("partitions", None)
        trapped.copy(table, **options, verify="checksums")
        trapped.assert_same(table)
    check(trapped)


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_in_nights(trapped: Pair, deletes: str) -> None:
    for table, _ in tables():
        if deletes == "soft":
            trapped.target.run(f"ALTER TABLE {table} ADD COLUMN deleted_at timestamptz")
        for _ in range(3):
            trapped.copy(
                table,
                mode="upsert",
                incremental="xmin",
                deletes="hard" if deletes == "hard" else "soft:deleted_at",
                verify="checksums",
                partitions=2,
            )
            trapped.source.run(
                f"UPDATE {table} SET v = 'changed' WHERE ctid = '(0,1)'::tid",
                f"DELETE FROM {table} WHERE ctid = '(0,2)'::tid",
            )
    check(trapped)


def test_in_nights_by_column(trapped: Pair) -> None:
    for table, _ in tables():
        for _ in range(2):
            trapped.copy(table, mode="upsert", incremental="at", lookback="1h", verify="checksums")
            trapped.source.run(
                f"UPDATE {table} SET v = 'changed', at = clock_timestamp()"
                " WHERE ctid = '(0,1)'::tid"
            )
    check(trapped)


def test_in_commands(trapped: Pair) -> None:
    """A batch, its resumption, verification and repair, and the commands that only look."""
    ends = trapped.ends
    done = trapped.cli(
        "copy-all", *ends, "--tables", "shop.*", "--mode", "recreate", "--verify", "checksums",
        "--run-id", "b",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    trapped.target.run("DELETE FROM shop.t3 WHERE k OPERATOR(pg_catalog.=) 'k7'::text")
    copied = trapped.cli(
        "copy", *ends, "--table", "shop.t2", "--mode", "truncate", "--strategy", "range", "--key",
        "k", "--partitions", "3", "--run-id", "r",
    )  # fmt: skip
    assert copied.returncode == 0, copied.stdout + copied.stderr
    trapped.target.run("DELETE FROM shop.t2 WHERE k OPERATOR(pg_catalog.=) 'k7'::text")
    for arguments, code in (
        (("verify", "r", "--checksum", *ends), 65),
        (("verify", "r", "--checksum", "--repair", *ends), 0),
        (("resume", "r", *ends), 0),
        (("runs", "--target", trapped.target.url), 0),
        (("status", "r", "--target", trapped.target.url), 0),
        (("schema", *ends, "--tables", "shop.t4"), 0),
        (("plan", *ends, "--table", "shop.t3", "--strategy", "ntile", "--key", "k"), 0),
    ):
        done = trapped.cli(*arguments)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
    check(trapped)


def test_in_masks(trapped: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are Penstock's own expressions, in nights and without snapshots, too."""
    monkeypatch.setenv("SALT", "pepper")
    trapped.both("CREATE TABLE shop.m (k int PRIMARY KEY, a text, b text, c text, d date, e text)")
    trapped.source.run(
        "INSERT INTO shop.m SELECT n, 'a' || n, 'b', 'ccccc', date '2026-05-05', 'e' FROM"
        " generate_series(1, 60) AS n"
    )
    masks = ("a=hash", "b=hmac:env:SALT", "c=last4", "d=year", "e=null")
    for options in (
        {"mode": "truncate", "partitions": 2, "verify": "checksums"},
        {"mode": "upsert", "incremental": "xmin", "deletes": "hard", "verify": "checksums"},
        {"mode": "replace", "snapshot": "none", "strategy": "hash", "key": "k"},
    ):
        trapped.copy("shop.m", mask=masks, **options)
    check(trapped)


PARTS = (
    "CREATE TABLE shop.p (id int NOT NULL, day date NOT NULL, v varchar(9), PRIMARY KEY (id, day))"
    " PARTITION BY RANGE (day)",
)


def test_in_partitioned_tables(trapped: Pair) -> None:
    """They are recreated, loaded night by night, filled by attaching, and replaced at once."""
    trapped.source.run(
        *PARTS,
        *(
            f"CREATE TABLE shop.p{n} PARTITION OF shop.p FOR VALUES FROM ('2026-01-0{n}') TO"
            f" ('2026-01-0{n + 1}')"
            for n in (1, 2, 3)
        ),
        "INSERT INTO shop.p SELECT n, date '2026-01-01' + n % 3, 'v' FROM generate_series(1, 90)"
        " AS n",
        "ANALYZE shop.p",
    )
    trapped.copy("shop.p", mode="recreate", partitioning=True, verify="checksums")
    for _ in range(2):
        trapped.copy("shop.p", mode="upsert", incremental="xmin", deletes="hard")
        trapped.source.run("DELETE FROM shop.p WHERE ctid = '(0,2)'::tid")
    trapped.target.run("DROP TABLE shop.p", *PARTS)
    days: dict[str, Any] = {"strategy": "time", "key": "day", "interval": "1 day"}
    for _ in range(2):
        trapped.copy("shop.p", mode="attach", **days, verify="checksums")
    trapped.copy("shop.p", mode="replace", **days, verify="checksums", atomic="table")
    check(trapped)


def test_in_tuning(trapped: Pair) -> None:
    trapped.source.run(
        "INSERT INTO shop.t0 (k, v) SELECT n, 'v' FROM generate_series(100, 9000) AS n",
        "ANALYZE shop.t0",
    )
    spec = trapped.spec(table="shop.t0", mode="append", partitions="64kB")
    for _ in tune(spec, degrees=(1, 2), sample=100_000):
        pass
    check(trapped)


def test_in_windows_of_a_batch(trapped: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", 4)
    tables_ = {"tables": "shop.*", "verify": "checksums"}
    ends = {"source": trapped.source.url, "target": trapped.target.url}
    for options in ({"mode": "recreate"}, {"mode": "upsert", "incremental": "xmin"}):
        *_, finished = copy_all(BatchSpec.from_mapping({**ends, **tables_, **options}, "test"))
        assert isinstance(finished, BatchFinished)
        assert finished.status == "done"
    check(trapped)
