"""The user's own expressions, tables and triggers find what is on the user's search path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import BatchSpec, copy_all
from penstock.events import BatchFinished, Finished

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

SETUP = (
    "CREATE SCHEMA tools",
    "SET search_path = public, tools",
    "CREATE EXTENSION citext SCHEMA tools",
    "CREATE EXTENSION hstore SCHEMA tools",
    "CREATE FUNCTION tools.doubled(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2'",
    "CREATE FUNCTION tools.told(n int) RETURNS int LANGUAGE sql STABLE AS 'SELECT doubled(n)'",
)
TABLE = "CREATE TABLE t (id int PRIMARY KEY, c tools.citext, h tools.hstore, v text)"
ROWS = (
    "INSERT INTO t SELECT n, 'K' || n, ('a=>' || n)::tools.hstore, 'v' || n FROM"
    " generate_series(1, 20) AS n"
)


@pytest.fixture
def shops(pair: Pair) -> Pair:
    """Databases whose sessions have extensions and functions on their path."""
    pair.both(*SETUP, TABLE)
    pair.source.run(ROWS, "ANALYZE t")
    for side in (pair.source, pair.target):
        (database,) = side.connection.execute("SELECT current_database()").fetchone() or ("",)
        side.run(f'ALTER DATABASE "{database}" SET search_path = public, tools')
    return pair


WHERE = {
    "c = 'k5'": 1,
    "doubled(id) = 10": 1,
    "told(id) = 10": 1,
    "h @> 'a=>5'": 1,
    "h -> 'a' = '5'": 1,
    "c::citext = 'k5'": 1,
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("snapshot", ["shared", "none"])
def test_conditions(shops: Pair, where: str, snapshot: str) -> None:
    report = shops.copy(
        where=where,
        snapshot=snapshot,
        mode="replace",
        strategy="hash",
        key="id",
        verify="checksums",
    )
    assert report.rows == WHERE[where]
    assert shops.target.rows("SELECT id FROM t") == [(5,)]
    # Deletes under the target's path.
    shops.target.run("UPDATE t SET v = 'old'", "INSERT INTO t VALUES (50, 'k50', '', 'mine')")
    shops.copy(where=where, snapshot=snapshot, mode="replace", strategy="hash", key="id")
    assert shops.target.rows("SELECT id, v FROM t ORDER BY id") == [(5, "v5"), (50, "mine")]


@pytest.mark.parametrize(
    ("strategy", "key"),
    [
        ("values", "c"), ("hash", "c"), ("range", "id"), ("ntile", "id"), ("blocks", None),
        ("values", "told(id) % 4"), ("hash", "doubled(id)"),
    ],
)  # fmt: skip
def test_keys(shops: Pair, strategy: str, key: str | None) -> None:
    shops.source.run("INSERT INTO t SELECT id + 100, lower(c::text), h, v FROM t")
    options: dict[str, Any] = {"key": key} if key else {}
    if strategy != "values":
        options["partitions"] = 3
    report = shops.copy(strategy=strategy, verify="checksums", mode="truncate", **options)
    assert report.rows == 40
    shops.assert_same()


def test_values_of_a_list(shops: Pair) -> None:
    """Values that are equal by the type's own operator are in one partition."""
    shops.source.run("INSERT INTO t SELECT id + 100, lower(c::text), h, v FROM t")
    report = shops.copy(
        strategy="values", key="c", where="id % 100 < 5", verify="checksums", mode="truncate"
    )
    # Four values, NULL, and any other.
    assert (report.partitions, report.rows) == (6, 8)


def test_queries_and_computed_columns(shops: Pair) -> None:
    shops.copy(
        None,
        query="SELECT id, c, h, doubled(id)::text AS v FROM t WHERE c = 'k5'",
        target_table="public.t",
        key="id",
        verify="checksums",
    )
    assert shops.target.rows("SELECT id, v FROM t") == [(5, "10")]
    shops.copy(set=("v=doubled(id)::text || (h -> 'a')",), mode="truncate", verify="checksums")
    assert shops.target.value("SELECT v FROM t WHERE id = 7") == "147"


@pytest.mark.parametrize("mode", ["append", "truncate", "upsert", "replace"])
@pytest.mark.parametrize("deferred", [False, True])
def test_triggers(shops: Pair, mode: str, deferred: bool) -> None:
    when = "DEFERRABLE INITIALLY DEFERRED " if deferred else ""
    shops.target.run(
        "CREATE TABLE noted (id int, twice int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO noted VALUES (NEW.id, doubled(NEW.id)); RETURN NULL; END$$",
        f"CREATE {'CONSTRAINT ' if deferred else ''}TRIGGER noting AFTER INSERT ON t"
        f" {when}FOR EACH ROW EXECUTE FUNCTION note()",
    )
    shops.copy(mode=mode, verify="checksums", strategy="hash", key="id", partitions=2)
    assert shops.target.rows("SELECT count(*), sum(twice) FROM noted") == [(20, 420)]


def test_triggers_of_truncate(shops: Pair) -> None:
    shops.target.run(
        "CREATE TABLE noted (twice int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO noted VALUES (doubled(7)); RETURN NULL; END$$",
        "CREATE TRIGGER noting BEFORE TRUNCATE ON t EXECUTE FUNCTION note()",
    )
    shops.copy(mode="truncate", verify="checksums")
    assert shops.target.rows("SELECT twice FROM noted") == [(14,)]


def test_triggers_of_nights(shops: Pair) -> None:
    shops.target.run(
        "CREATE TABLE noted (what text, twice int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " INSERT INTO noted VALUES (TG_OP, doubled(coalesce(NEW.id, OLD.id))); RETURN NULL; END$$",
        "CREATE CONSTRAINT TRIGGER noting AFTER INSERT OR UPDATE OR DELETE ON t"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()",
    )
    night: dict[str, Any] = {"mode": "upsert", "incremental": "xmin", "deletes": "hard"}
    shops.copy(**night, verify="checksums", where="doubled(id) > 0")
    shops.source.run("UPDATE t SET v = 'new' WHERE id = 3", "DELETE FROM t WHERE id = 4")
    shops.copy(**night, verify="checksums", where="doubled(id) > 0")
    shops.assert_same()
    found = shops.target.rows("SELECT what, count(*) FROM noted GROUP BY 1 ORDER BY 1")
    assert found == [("DELETE", 1), ("INSERT", 20), ("UPDATE", 1)]


def test_defaults_and_checks_of_the_target(shops: Pair) -> None:
    shops.target.run(
        "CREATE SEQUENCE tools.numbers",
        "CREATE FUNCTION tools.next_number() RETURNS bigint LANGUAGE plpgsql AS"
        " $$BEGIN RETURN nextval('numbers'); END$$",
        "ALTER TABLE t ADD number bigint DEFAULT tools.next_number(),"
        " ADD CHECK (tools.told(id) > 0)",
    )
    for mode in ("append", "truncate", "replace"):
        cut: dict[str, Any] = {"strategy": "hash", "key": "id", "partitions": 2}
        shops.copy(mode=mode, verify="checksums", columns=("id", "c", "h", "v"), **cut)
        assert shops.target.value("SELECT count(DISTINCT number) FROM t") == 20
        shops.target.run("TRUNCATE t")


def test_views(shops: Pair) -> None:
    """A function in a view runs under the path of the session that reads it."""
    shops.source.run("CREATE VIEW w AS SELECT id, tools.told(id) AS twice FROM t")
    shops.target.run("CREATE TABLE w (id int, twice int)")
    report = shops.copy("public.w", where="twice = 10", verify="checksums")
    assert report.rows == 1
    assert isinstance(report, Finished)


def test_a_batch(shops: Pair) -> None:
    shops.source.run("CREATE TABLE u AS SELECT * FROM t", "ALTER TABLE u ADD PRIMARY KEY (id)")
    batch = BatchSpec.from_mapping(
        {
            "source": shops.source.url,
            "target": shops.target.url,
            "tables": ["t", "u"],
            "mode": "recreate",
            "where": "c = 'k5' AND told(id) = 10",
            "verify": "checksums",
        },
        "test",
    )
    *_, report = copy_all(batch)
    assert isinstance(report, BatchFinished)
    assert report.status == "done"
    assert (shops.target.count("t"), shops.target.count("u")) == (1, 1)


def test_types_that_the_user_names(shops: Pair) -> None:
    shops.target.run("DROP TABLE t")
    shops.copy(mode="recreate", verify="checksums")
    shops.assert_same()
