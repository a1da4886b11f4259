"""upsert: new rows are inserted, those that differ updated, all others left unchanged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from penstock import PlanningError, RunFailed, status
from penstock.events import Committed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.backends.conftest import Pair

    from penstock.events import Finished

TABLE = "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, note text, amount numeric(12, 2))"
ROWS = """
    INSERT INTO t
    SELECT n, timestamptz '2026-01-01' + n * interval '1 hour', 'note ' || n, n / 7.0
    FROM generate_series({first}, {last}) AS n
"""


def counts(report: Finished) -> tuple[int, int | None, int | None]:
    """Return the rows copied, inserted and updated."""
    return report.rows, report.inserted, report.updated


def versions(pair: Pair, table: str = "t", key: str = "id") -> dict[Any, Any]:
    """Return where each row version is, and which transaction wrote it."""
    return dict(pair.target.rows(f"SELECT {key}, (tableoid, ctid, xmin)::text FROM {table}"))


def failure(pair: Pair, **options: Any) -> str:
    """Copy, expect a partition to fail permanently, and return its error."""
    with pytest.raises(RunFailed) as caught:
        pair.copy(mode="upsert", **options)
    return "\n".join(caught.value.__notes__)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both(TABLE)
    pair.source.run(ROWS.format(first=1, last=2000), "ANALYZE t")
    return pair


STRATEGIES: dict[str, dict[str, Any]] = {
    "whole": {"strategy": "whole"},
    "ctid": {"strategy": "ctid", "partitions": 4},
    "range": {"strategy": "range", "key": "id", "partitions": 4},
    "hash": {"strategy": "hash", "key": "id", "partitions": 3},
    "time": {"strategy": "time", "key": "at", "interval": "1 month"},
}


class TestCounts:
    @pytest.mark.parametrize("cut", STRATEGIES.values(), ids=STRATEGIES)
    def test_rows_are_inserted_updated_or_unchanged(
        self, filled: Pair, cut: dict[str, Any]
    ) -> None:
        filled.target.run(
            ROWS.format(first=501, last=1500),
            "UPDATE t SET note = 'mine' WHERE id % 10 = 0",
            "UPDATE t SET note = NULL WHERE id % 100 = 1",
            "UPDATE t SET amount = amount + 1 WHERE id % 100 = 2",
            "INSERT INTO t VALUES (0, NULL, 'mine', 0), (9999, NULL, 'mine', 0)",
        )
        before = versions(filled)
        report = filled.copy(mode="upsert", degree=2, **cut)
        assert counts(report) == (2000, 1000, 120)
        filled.assert_same(where="id BETWEEN 1 AND 2000")
        assert filled.target.rows("SELECT id FROM t WHERE note = 'mine' ORDER BY id") == [
            (0,), (9999,),
        ]  # fmt: skip
        after = versions(filled)
        changed = {id_ for id_, version in before.items() if after[id_] != version}
        assert changed == {n for n in range(501, 1501) if n % 10 == 0 or n % 100 in (1, 2)}

        again = filled.copy(mode="upsert", **cut)
        assert counts(again) == (2000, 0, 0)
        assert versions(filled) == after

    def test_counts_are_in_commit_records_and_events(self, filled: Pair) -> None:
        filled.target.run(ROWS.format(first=1, last=1000), "UPDATE t SET note = '' WHERE id < 11")
        events = filled.events(mode="upsert", run_id="r1", **STRATEGIES["ctid"])
        records = status("r1", target=filled.target.url).committed
        assert sum(record.inserted or 0 for record in records) == 1000
        assert sum(record.updated or 0 for record in records) == 10
        changes = {
            e.partition_id: (e.inserted, e.updated) for e in events if isinstance(e, Committed)
        }
        assert changes == {
            record.partition_id: (record.inserted, record.updated) for record in records
        }

    def test_other_modes_have_no_counts(self, filled: Pair) -> None:
        assert counts(filled.copy()) == (2000, None, None)

    def test_counts_of_an_empty_source(self, pair: Pair) -> None:
        pair.both(TABLE)
        assert counts(pair.copy(mode="upsert")) == (0, 0, 0)

    def test_counts_of_tpch_lineitem_with_a_tenth_changed(self, pair: Pair) -> None:
        pair.both(LINEITEM)
        pair.source.run(LINES, "ANALYZE lineitem")
        key = "(l_orderkey, l_linenumber)"
        first = pair.copy("public.lineitem", mode="upsert", strategy="ctid", partitions=3)
        assert counts(first) == (12_000, 12_000, 0)
        before = versions(pair, "lineitem", key)
        pair.source.run("UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey % 10 = 7")
        second = pair.copy("public.lineitem", mode="upsert", strategy="ctid", partitions=3)
        assert counts(second) == (12_000, 0, 1_200)
        pair.assert_same("lineitem")
        after = versions(pair, "lineitem", key)
        changed = [where for where, version in before.items() if after[where] != version]
        assert len(changed) == 1_200


LINEITEM = """
    CREATE TABLE lineitem (
        l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL,
        l_linenumber int NOT NULL, l_quantity numeric(15, 2) NOT NULL,
        l_extendedprice numeric(15, 2) NOT NULL, l_returnflag char(1) NOT NULL,
        l_shipdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_comment varchar(44) NOT NULL,
        PRIMARY KEY (l_orderkey, l_linenumber)
    )
"""
LINES = """
    INSERT INTO lineitem
    SELECT o, o * 31 % 2000, o * 7 % 100, l, l * 3, o * 10.5, 'R', date '1995-01-01' + l, 'NONE',
        md5(o::text || l)
    FROM generate_series(1, 3000) AS o, generate_series(1, 4) AS l
"""


class TestKeys:
    def test_a_unique_index_without_a_primary_key(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (a int NOT NULL, b text NOT NULL, c int, UNIQUE (b, a))")
        pair.source.run("INSERT INTO t SELECT n % 10, 'b' || n, n FROM generate_series(1, 99) AS n")
        pair.target.run("INSERT INTO t VALUES (1, 'b1', 0), (1, 'b2', 0)")
        assert pair.plan(mode="upsert").load.conflict_columns == ("b", "a")
        assert counts(pair.copy(mode="upsert")) == (99, 98, 1)
        pair.assert_same(where="c > 0")
        assert pair.target.count() == 100

    @pytest.mark.parametrize("key", [("a", "b"), ("b", "a")])
    def test_the_requested_key_in_any_order(self, pair: Pair, key: tuple[str, ...]) -> None:
        pair.both(
            "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, c int UNIQUE)",
            "CREATE UNIQUE INDEX ON t (b, a) INCLUDE (c)",
        )
        pair.source.run("INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2)")
        pair.target.run("INSERT INTO t VALUES (7, 1, 1, 7)")
        report = pair.copy(mode="upsert", conflict_columns=key)
        assert counts(report) == (2, 1, 1)
        pair.assert_same()

    def test_columns_that_are_not_copied_keep_their_values(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (id int PRIMARY KEY, a int, b int)",
            "INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)",
        )
        pair.target.run(
            "CREATE TABLE t (id int PRIMARY KEY, a int, b int DEFAULT 7,"
            " twice int GENERATED ALWAYS AS (a * 2) STORED, own text DEFAULT 'new')",
            "INSERT INTO t VALUES (1, 1, 1, DEFAULT, 'old')",
        )
        assert counts(pair.copy(mode="upsert", columns=("id", "a"))) == (2, 1, 1)
        assert pair.target.rows("SELECT id, a, b, twice, own FROM t ORDER BY id") == [
            (1, 10, 1, 20, "old"),
            (2, 20, 7, 40, "new"),
        ]

    def test_renamed_columns_by_position(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)"
        )
        pair.target.run(
            'CREATE TABLE t ("The Key" int PRIMARY KEY, "s" int)', "INSERT INTO t VALUES (2, 0)"
        )
        assert counts(pair.copy(mode="upsert", map="position")) == (2, 1, 1)
        assert pair.target.rows('SELECT "The Key", s FROM t ORDER BY 1') == [(1, 1), (2, 2)]

    def test_a_table_of_key_columns_only(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY)")
        pair.source.run("INSERT INTO t VALUES (1), (2)")
        pair.target.run("INSERT INTO t VALUES (2), (3)")
        assert counts(pair.copy(mode="upsert")) == (2, 1, 0)
        assert pair.target.count() == 3

    def test_identity_always_in_the_key(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int)")
        pair.source.run("INSERT INTO t (v) SELECT n FROM generate_series(1, 9) AS n")
        pair.target.run("INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (3, 0), (4, 4)")
        assert counts(pair.copy(mode="upsert")) == (9, 7, 1)
        assert counts(pair.copy(mode="upsert")) == (9, 0, 0)
        pair.assert_same()

    def test_identity_always_outside_the_key(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int PRIMARY KEY, v int)")
        pair.source.run("INSERT INTO t (k, v) VALUES (10, 1), (11, 2)")
        pair.target.run("INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (77, 10, 0)")
        (warning,) = pair.plan(mode="upsert").warnings
        assert "id is GENERATED ALWAYS AS IDENTITY" in warning
        assert counts(pair.copy(mode="upsert")) == (2, 1, 1)
        assert pair.target.rows("SELECT * FROM t ORDER BY k") == [(77, 10, 1), (2, 11, 2)]

    def test_a_partitioned_target(self, pair: Pair) -> None:
        pair.source.run(TABLE, ROWS.format(first=1, last=500), "ANALYZE t")
        pair.target.run(
            TABLE + " PARTITION BY RANGE (id)",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (200)",
            "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (200) TO (400)",
            "CREATE TABLE t3 PARTITION OF t DEFAULT",
            ROWS.format(first=101, last=300),
            "UPDATE t SET note = 'mine' WHERE id % 10 = 0",
        )
        assert counts(pair.copy(mode="upsert", strategy="ctid", partitions=2)) == (500, 300, 20)
        pair.assert_same()
        assert counts(pair.copy(mode="upsert")) == (500, 0, 0)

    def test_tables_that_inherit_from_the_target_are_left_alone(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
        pair.target.run("CREATE TABLE child () INHERITS (t)", "INSERT INTO child VALUES (1, 0)")
        pair.source.run("INSERT INTO t VALUES (1, 1)")
        assert counts(pair.copy(mode="upsert")) == (1, 1, 0)
        assert pair.target.rows("SELECT id, v FROM ONLY t") == [(1, 1)]
        assert pair.target.rows("SELECT id, v FROM child") == [(1, 0)]

    def test_values_that_an_index_considers_equal_are_one_key(self, pair: Pair) -> None:
        # The type's operators are outside every search_path; numeric's are built in.
        pair.both(
            "CREATE SCHEMA apart",
            "CREATE EXTENSION citext SCHEMA apart",
            "CREATE TABLE t (name apart.citext, n numeric NOT NULL, UNIQUE (n))",
        )
        pair.target.run(
            "ALTER TABLE t ADD PRIMARY KEY (name)",
            "INSERT INTO t VALUES ('ADA', 1.0), ('bob', 2.00)",
        )
        pair.source.run("INSERT INTO t VALUES ('Ada', 1.0), ('bob', 2.0), ('Cid', 3)")
        # 2.00 equals 2.0, and one name is spelled differently.
        for key in (("name",), ("n",)):
            pair.target.run("DELETE FROM t WHERE name = 'Cid'")
            pair.target.run("UPDATE t SET name = 'ADA', n = 1.0 WHERE n = 1")
            pair.target.run("UPDATE t SET n = 2.00 WHERE n = 2")
            assert counts(pair.copy(mode="upsert", conflict_columns=key)) == (3, 1, 2)
            pair.assert_same()
            assert counts(pair.copy(mode="upsert", conflict_columns=key)) == (3, 0, 0)
        pair.source.run("INSERT INTO t VALUES ('CID', 4)")
        assert "Key (name)=(" in failure(pair, conflict_columns=("name",))

    def test_types_without_equality_are_compared(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY, j json, p point, x path, big text)")
        pair.source.run(
            """INSERT INTO t VALUES (1, '{"a": 1}', '(1,2)', '((0,0),(1,1))', repeat('x', 100000)),
                (2, '{"a":1}', '(1,2)', '((0,0),(1,1))', (SELECT string_agg(md5(n::text), '')
                    FROM generate_series(1, 5000) AS n)), (3, NULL, NULL, NULL, NULL)"""
        )
        assert counts(pair.copy(mode="upsert")) == (3, 3, 0)
        assert counts(pair.copy(mode="upsert")) == (3, 0, 0)
        pair.source.run("""UPDATE t SET j = '{"a":  1}' WHERE id = 1""")
        pair.source.run("UPDATE t SET big = big || 'y' WHERE id = 2")
        pair.source.run("UPDATE t SET p = '(0,0)' WHERE id = 3")
        assert counts(pair.copy(mode="upsert")) == (3, 0, 3)
        pair.assert_same()


class TestNulls:
    DEFINITION = "CREATE TABLE t (a int, b int, v int, UNIQUE {} (a, b))"

    def test_in_a_key_are_refused_if_nulls_are_distinct(self, pair: Pair) -> None:
        pair.both(self.DEFINITION.format(""))
        pair.source.run("INSERT INTO t VALUES (1, 1, 1), (2, NULL, 2), (3, NULL, 3)")
        (warning,) = pair.plan(mode="upsert").warnings
        assert "a, b may be NULL" in warning
        message = failure(pair)
        assert "expected every row to have a value in a, b" in message
        assert "found 2 rows with NULL" in message
        assert "'transient': False" in message
        assert pair.target.count() == 0
        assert counts(pair.copy(mode="upsert", where="b IS NOT NULL")) == (1, 1, 0)

    def test_in_a_key_are_equal_if_the_index_says_so(self, pair: Pair) -> None:
        pair.needs(15, "NULLS NOT DISTINCT")
        pair.both(self.DEFINITION.format("NULLS NOT DISTINCT"))
        pair.source.run(
            "INSERT INTO t VALUES (1, 1, 1), (2, NULL, 2), (NULL, 3, 3), (NULL, NULL, 4)"
        )
        pair.target.run("INSERT INTO t VALUES (NULL, 3, 0), (2, NULL, 2)")
        assert pair.plan(mode="upsert").warnings == ()
        assert counts(pair.copy(mode="upsert")) == (4, 2, 1)
        pair.assert_same()
        assert counts(pair.copy(mode="upsert")) == (4, 0, 0)


class TestRefusedAtRunTime:
    def test_a_duplicate_key(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id int, v int)", "INSERT INTO t VALUES (1, 1), (5, 2)")
        pair.target.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (5, 0)")
        pair.source.run("INSERT INTO t VALUES (5, 3)")
        message = failure(pair)
        assert "expected each key (id) once" in message
        assert "Key (id)=(5) is duplicated." in message
        assert "'transient': False" in message
        assert pair.target.rows("SELECT * FROM t") == [(5, 0)]

    def test_rows_dropped_by_a_trigger(self, filled: Pair) -> None:
        filled.target.run(
            "CREATE FUNCTION drop_some() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER drop_some BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION drop_some()",
        )
        message = failure(filled)
        assert "1,000 of 2,000 rows are not in public.t" in message
        assert filled.target.count() == 0

    def test_rows_kept_by_a_trigger(self, filled: Pair) -> None:
        filled.copy(mode="upsert")
        filled.target.run(
            "UPDATE t SET note = 'old' WHERE id % 2 = 0",
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RETURN NULL; END $$",
            "CREATE TRIGGER keep BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION keep()",
        )
        message = failure(filled)
        assert "1,000 rows of public.t still differ" in message

    def test_rows_updated_differently_by_a_trigger(self, filled: Pair) -> None:
        filled.copy(mode="upsert")
        filled.target.run(
            "UPDATE t SET note = 'old' WHERE id % 2 = 0",
            "CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.note = 'marked'; RETURN NEW; END $$",
            "CREATE TRIGGER mark BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION mark()",
        )
        filled.copy(mode="upsert")
        assert filled.target.value("SELECT count(*) FROM t WHERE note = 'marked'") == 1_000

    def test_a_row_that_violates_a_constraint(self, filled: Pair) -> None:
        filled.target.run("ALTER TABLE t ADD CHECK (id < 2000)")
        assert "t_id_check" in failure(filled)
        assert filled.target.count() == 0

    def test_a_dropped_key(self, filled: Pair) -> None:
        filled.copy(mode="upsert", run_id="r1", where="id < 10")
        filled.target.run("DELETE FROM penstock.commit_record")
        filled.target.run("ALTER TABLE t DROP CONSTRAINT t_pkey")
        with pytest.raises(RunFailed):
            filled.copy(mode="upsert", run_id="r1", where="id < 10")


class TestRefusedAtPlanning:
    def refused(self, pair: Pair, *parts: str, **options: Any) -> None:
        with pytest.raises(PlanningError) as caught:
            pair.plan(mode="upsert", **options)
        for part in parts:
            assert part in caught.value.message
        assert not pair.has_control_schema()

    def test_no_unique_key(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int, v int)")
        self.refused(pair, "--mode upsert", "public.t", "found none")

    def test_unusable_keys_are_listed(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int, v int, w int UNIQUE DEFERRABLE)")
        pair.target.run(
            "CREATE UNIQUE INDEX half ON t (id) WHERE v > 0",
            "CREATE UNIQUE INDEX computed ON t (id, (v % 10))",
        )
        self.refused(
            pair,
            "half (id): partial",
            "computed (id, expression): with an expression",
            "t_w_key (w): deferrable",
        )
        self.refused(pair, "--conflict-columns id:", "half (id): partial", conflict_columns=("id",))

    def test_several_keys_to_choose_from(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (a int UNIQUE, b int UNIQUE)")
        self.refused(pair, "--conflict-columns", "t_a_key (a)", "t_b_key (b)")
        assert pair.plan(mode="upsert", conflict_columns=("b",)).load.conflict_columns == ("b",)

    def test_part_of_a_key(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))")
        self.refused(pair, "--conflict-columns a:", "t_pkey (a, b)", conflict_columns=("a",))

    def test_a_key_that_is_not_copied(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id serial PRIMARY KEY, v int)")
        self.refused(pair, "t_pkey (id)", "all copied", columns=("v",))
        self.refused(
            pair, "--conflict-columns id:", "copied", columns=("v",), conflict_columns=("id",)
        )

    @pytest.mark.parametrize(
        ("granted", "expected"),
        [
            (("SELECT", "UPDATE"), 'GRANT INSERT ON "public"."t" TO'),
            (("INSERT", "SELECT"), 'GRANT UPDATE ON "public"."t" TO'),
            (("INSERT", "UPDATE"), 'GRANT SELECT ON "public"."t" TO'),
            (("INSERT", "UPDATE", "SELECT"), "GRANT TEMPORARY ON DATABASE"),
        ],
    )
    def test_missing_privileges(
        self, filled: Pair, granted: tuple[str, ...], expected: str
    ) -> None:
        with role(filled, granted) as url:
            self.refused(filled, expected, target=url)

    def test_column_privileges_suffice(self, filled: Pair) -> None:
        columns = "(id, at, note, amount)"
        with role(filled, [f"{what} {columns}" for what in ("INSERT", "UPDATE", "SELECT")]) as url:
            filled.target.run(
                f"DO $$ BEGIN EXECUTE format('GRANT TEMPORARY, CREATE ON DATABASE %I TO {ROLE}',"
                " current_database()); END $$"
            )
            assert counts(filled.copy(mode="upsert", target=url)) == (2000, 2000, 0)
            assert counts(filled.copy(mode="upsert", target=url)) == (2000, 0, 0)


ROLE = "upserter"


@contextmanager
def role(pair: Pair, granted: Iterable[str]) -> Iterator[str]:
    """Return the target's URL for a user with these privileges on the table and none on the
    database."""
    pair.target.run(
        f"CREATE ROLE {ROLE} LOGIN",
        *(f"GRANT {privilege} ON t TO {ROLE}" for privilege in granted),
        "DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC',"
        " current_database()); END $$",
    )
    parts = urlsplit(pair.target.url)
    try:
        yield urlunsplit(parts._replace(netloc=f"{ROLE}@{parts.netloc.rpartition('@')[2]}"))
    finally:
        pair.target.run(
            f"DROP OWNED BY {ROLE} CASCADE",
            f"DROP ROLE {ROLE}",
        )


def test_a_column_with_a_comma_in_its_name(pair: Pair) -> None:
    pair.both('CREATE TABLE t ("a,b" int PRIMARY KEY, c int)')
    pair.source.run("INSERT INTO t VALUES (1, 2)")
    pair.target.run("INSERT INTO t VALUES (1, 1)")
    words = ["--table", "public.t", "--mode", "upsert", "--conflict-columns", '"a,b"']
    done = pair.cli("copy", *pair.ends, *words, "--columns", '"a,b", c')
    assert done.returncode == 0, done.stderr
    pair.assert_same()
