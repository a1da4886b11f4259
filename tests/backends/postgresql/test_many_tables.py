"""The number of planning queries does not grow with the tables, and a bad table fails alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from penstock import BatchSpec, PlanningError, RunFailed, copy_all
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.location import resolve
from penstock.backends.postgresql.snapshot.exported import SnapshotSession
from penstock.backends.postgresql.source import PostgresSource
from penstock.events import BatchFinished, Event
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

MANY = 50
# Statements that frame the queries of a round trip.
FRAMES = ("SAVEPOINT", "ROLLBACK TO", "RELEASE", "SELECT pg_catalog.set_config('search_path'")
ROLE = "reader_of_most"
# A savepoint, and the end of a transaction that the target's queries do not share.
SPREAD = 3


def fill(pair: Pair, count: int) -> list[TableRef]:
    """Create tables with sequences, indexes, checks, comments and types of their own."""
    pair.source.run(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN short AS varchar(9) CHECK (VALUE <> '')",
        "CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql RETURN $1 * 2",
        "CREATE SEQUENCE shared_numbers",
    )
    pair.target.run(
        "CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql RETURN $1 * 2",
        "CREATE SEQUENCE shared_numbers",
    )
    for number in range(count):
        pair.source.run(
            f"CREATE TABLE t{number} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, w text,"
            " m mood, s short[] CHECK (s IS NOT NULL), n int DEFAULT nextval('shared_numbers'),"
            f" k{number} int DEFAULT twice(2))",
            f"CREATE INDEX ON t{number} (twice(n))",
            f"CREATE STATISTICS s{number} ON w, n FROM t{number}",
            f"COMMENT ON TABLE t{number} IS 'of {number}'",
            f"INSERT INTO t{number} (w, m, s) SELECT 'x', 'sad', '{{a,b}}'"
            f" FROM generate_series(1, {number})",
        )
    return [TableRef("public", f"t{number}") for number in range(count)]


def batch(pair: Pair, **options: Any) -> BatchSpec:
    arguments = {"source": pair.source.url, "target": pair.target.url, "degree": 2, **options}
    return BatchSpec.from_mapping(arguments, "test")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record the statements that this process sends to the source."""
    queries: list[str] = []
    execute = psycopg.Connection.execute

    def counting(self: Connection, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if getattr(self, "side", "") == "source":
            query = args[0]
            statement = query.as_string(self) if isinstance(query, sql.Composable) else str(query)
            if not statement.startswith(FRAMES):
                queries.append(" ".join(statement.split())[:100])
        return execute(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", counting)
        yield queries


@pytest.mark.parametrize("mode", ["recreate", "truncate"])
def test_a_batch_sends_as_many_queries_about_many_tables_as_about_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    fill(pair, MANY)
    if mode != "recreate":
        for _ in copy_all(batch(pair, tables=["public.*"], mode="recreate", where="false")):
            pass
    queries = {}
    for pattern in ("public.t1", "public.*"):
        # Positions of sequences are read at the end, and are not part of planning.
        spec = batch(pair, tables=[pattern], mode=mode, sequences="keep")
        with counted(monkeypatch) as statements:
            *_, end = copy_all(spec)
        assert isinstance(end, BatchFinished)
        assert end.status == "done"
        queries[pattern] = statements
    one, many = queries.values()
    more = len(many) - len(one)
    assert more <= SPREAD, sorted(set(many).difference(one)) or many
    assert len(many) < MANY


@pytest.fixture
def described(pair: Pair) -> Iterator[tuple[PostgresSource, list[TableRef]]]:
    tables = fill(pair, 7)
    with closing(PostgresSource(resolve(pair.source.url, {}, "--source"))) as source:
        yield source, tables


def test_answers_equal_those_for_a_single_table(
    described: tuple[PostgresSource, list[TableRef]],
) -> None:
    source, tables = described
    alone = [answers(source, table) for table in tables]
    with source.describing(tables):
        assert [answers(source, table) for table in tables] == alone


def answers(source: PostgresSource, table: TableRef) -> list[Any]:
    return [
        source.columns(table),
        source.definition(table, partitioning=True).native,
        source.heirs(table),
        source.positions(table),
        source.statistics(table, None),
        source.state(table).layout,
    ]


def test_tables_dropped_after_the_description_are_missing_alone(
    pair: Pair, described: tuple[PostgresSource, list[TableRef]]
) -> None:
    source, tables = described
    dropped, *others = tables
    with source.describing([*tables, TableRef("public", "never"), TableRef("nowhere", "t")]):
        source.columns(tables[1])
        pair.source.run(f"DROP TABLE {dropped.name} CASCADE")
        for table in others:
            assert answers(source, table)
        with pytest.raises(PlanningError, match=r"public\.t0 was dropped or recreated"):
            source.definition(dropped, partitioning=True)
        for name in (dropped, TableRef("public", "never"), TableRef("nowhere", "t")):
            with pytest.raises(PlanningError, match=rf"table {name} does not exist"):
                source.columns(name)


def test_tables_of_another_snapshot_are_read_again(
    pair: Pair, described: tuple[PostgresSource, list[TableRef]]
) -> None:
    source, tables = described
    with source.describing(tables):
        before = source.columns(tables[0])
        pair.source.run(f"ALTER TABLE {tables[0].name} ADD COLUMN added int")
        assert source.columns(tables[0]) == before
        with closing(SnapshotSession(pair.source.url).hold(tables)) as holder:
            source.adopt(holder.snapshot)
            assert [column.name for column in source.columns(tables[0])][-1] == "added"


@pytest.fixture
def reader(pair: Pair) -> Iterator[str]:
    """The source's URL for a user who may read most of it."""
    fill(pair, 7)
    pair.source.run(
        f"CREATE ROLE {ROLE} LOGIN",
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.t (id int)",
        "CREATE SEQUENCE hidden.numbers",
        "ALTER TABLE t5 ALTER n SET DEFAULT nextval('hidden.numbers')",
        "ALTER TABLE t3 ENABLE ROW LEVEL SECURITY",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}",
        f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
        f"GRANT SELECT ON hidden.numbers TO {ROLE}",
        f"REVOKE SELECT ON t2 FROM {ROLE}",
        f"REVOKE SELECT ON SEQUENCE t4_id_seq FROM {ROLE}",
    )
    parts = urlsplit(pair.source.url)
    login = f"{ROLE}@{parts.netloc.rpartition('@')[2]}"
    try:
        yield urlunsplit(parts._replace(netloc=login))
    finally:
        pair.source.run(f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_unreadable_tables_fail_alone(reader: str, *, with_snapshot: bool) -> None:
    """Even if the server refuses the statement about all of them, in a transaction."""
    tables = [TableRef("public", f"t{number}") for number in range(7)]
    tables.append(TableRef("hidden", "t"))
    refused = {
        "t2": "table public.t2: permission denied for table t2",
        "t3": "row security on public.t3 may hide rows",
        # Allowed to read the sequence, but not to use its schema.
        "t5": "public.t5: permission denied for schema hidden",
        "t": "table hidden.t: permission denied for schema hidden",
    }
    url = resolve(reader, {}, "--source")
    with closing(PostgresSource(url)) as source, ExitStack() as stack:
        holder = None
        if with_snapshot:
            holder = stack.enter_context(closing(SnapshotSession(url).hold(tables[:1])))
        stack.enter_context(source.describing(tables))
        for table in tables:
            if holder is not None:
                source.adopt(holder.snapshot)
            if table.name in refused:
                with pytest.raises(PlanningError, match=refused[table.name]):
                    answers(source, table)
            else:
                assert answers(source, table)
        if holder is not None:
            source.adopt(holder.snapshot)
        assert source.positions(tables[4]).keys() == {"n"}
        assert source.positions(tables[6]).keys() == {"n", "id"}


def test_a_batch_continues_without_unreadable_tables(pair: Pair, reader: str) -> None:
    seen: list[Event] = []
    with pytest.raises(RunFailed):
        seen.extend(copy_all(batch(pair, source=reader, tables=["public.*"], mode="recreate")))
    end = seen[-1]
    assert isinstance(end, BatchFinished)
    failed = {each.table for each in end.tables if each.status != "done"}
    assert failed == {"public.t2", "public.t3", "public.t5"}
