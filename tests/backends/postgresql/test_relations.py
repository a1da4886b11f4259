"""Every kind of relation as a source: what `auto` chooses and why, with contents compared by
value."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from penstock import PlanningError, copy, resume
from penstock.events import Committed, Finished
from penstock.model.extents import ChildBlocks, Children
from penstock_testkit.statistics import settle_statistics

if TYPE_CHECKING:
    from tests.backends.conftest import Pair, Side

COLUMNS = "id int, name text, at timestamptz"
ROWS = (
    "SELECT n, CASE WHEN n % 7 > 0 THEN 'name ' || n END, timestamptz '2026-01-01 00:00:00+00'"
    " + n * interval '1 hour' FROM generate_series(1, {count}) AS n"
)


def rows(count: int = 1000) -> str:
    return ROWS.format(count=count)


@dataclass(frozen=True)
class Kind:
    make: tuple[str, ...]
    """Statements that create and fill the relation public.s in the source."""
    strategy: str
    """The strategy that auto chooses for five partitions."""
    why: str
    """Part of the reason for the strategy."""


PLAIN = (f"CREATE TABLE s ({COLUMNS})", f"INSERT INTO s {rows()}")
BASE = (f"CREATE TABLE base ({COLUMNS})", f"INSERT INTO base {rows()}", "ANALYZE base")
FOREIGN = (
    "CREATE EXTENSION postgres_fdw",
    "CREATE SERVER beside FOREIGN DATA WRAPPER postgres_fdw OPTIONS (port '{port}', dbname '{db}',"
    " host '{host}')",
    "CREATE USER MAPPING FOR CURRENT_USER SERVER beside OPTIONS (user 'postgres')",
)

KINDS = {
    "plain": Kind(PLAIN, "ctid", "heap table"),
    "unlogged": Kind((PLAIN[0].replace("TABLE", "UNLOGGED TABLE"), PLAIN[1]), "ctid", "heap table"),
    "without a column": Kind(
        ("CREATE TABLE s ()", "INSERT INTO s SELECT FROM generate_series(1, 300)"),
        "ctid",
        "heap table",
    ),
    "by range": Kind(
        (
            f"CREATE TABLE s ({COLUMNS}) PARTITION BY RANGE (id)",
            "CREATE TABLE s1 PARTITION OF s FOR VALUES FROM (1) TO (300)",
            "CREATE TABLE s2 PARTITION OF s FOR VALUES FROM (300) TO (900)",
            "CREATE TABLE s3 PARTITION OF s DEFAULT",
            f"INSERT INTO s {rows()}",
        ),
        "children",
        "a partitioned table of 3 tables",
    ),
    "by list": Kind(
        (
            f"CREATE TABLE s ({COLUMNS}) PARTITION BY LIST (name)",
            "CREATE TABLE s1 PARTITION OF s FOR VALUES IN ('name 1', NULL)",
            "CREATE TABLE s2 PARTITION OF s DEFAULT",
            f"INSERT INTO s {rows()}",
        ),
        "children",
        "a partitioned table of 2 tables",
    ),
    "by hash": Kind(
        (
            f"CREATE TABLE s ({COLUMNS}) PARTITION BY HASH (id)",
            "CREATE TABLE s1 PARTITION OF s FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            "CREATE TABLE s2 PARTITION OF s FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            f"INSERT INTO s {rows()}",
        ),
        "children",
        "a partitioned table of 2 tables",
    ),
    "nested, with columns in other orders": Kind(
        (
            f"CREATE TABLE s ({COLUMNS}) PARTITION BY RANGE (id)",
            "CREATE TABLE s1 (gone int, at timestamptz, name text, id int)",
            "ALTER TABLE s1 DROP COLUMN gone",
            "ALTER TABLE s ATTACH PARTITION s1 FOR VALUES FROM (1) TO (300)",
            "CREATE TABLE s2 PARTITION OF s DEFAULT PARTITION BY HASH (name)",
            'CREATE TABLE "S 2.0" PARTITION OF s2 FOR VALUES WITH (MODULUS 2, REMAINDER 0)',
            "CREATE TABLE s21 PARTITION OF s2 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            f"INSERT INTO s {rows()}",
        ),
        "children",
        "a partitioned table of 3 tables",
    ),
    "with a foreign partition": Kind(
        (
            *FOREIGN,
            f"CREATE TABLE s ({COLUMNS}) PARTITION BY RANGE (id)",
            "CREATE TABLE s1 PARTITION OF s FOR VALUES FROM (1) TO (700)",
            f"CREATE TABLE away ({COLUMNS})",
            "CREATE FOREIGN TABLE s2 PARTITION OF s DEFAULT SERVER beside"
            " OPTIONS (table_name 'away')",
            f"INSERT INTO s {rows()}",
        ),
        "children",
        "a partitioned table of 2 tables",
    ),
    "partitioned, without partitions": Kind(
        (f"CREATE TABLE s ({COLUMNS}) PARTITION BY RANGE (id)",),
        "whole",
        "a partitioned table without partitions",
    ),
    "inherited": Kind(
        (
            *PLAIN,
            "CREATE TABLE more (extra int) INHERITS (s)",
            f"INSERT INTO more {rows(300)}",
            "CREATE TABLE most (note text) INHERITS (more)",
            f"INSERT INTO most {rows(40)}",
        ),
        "children",
        "a table that 2 others inherit from",
    ),
    "a view": Kind((*BASE, "CREATE VIEW s AS TABLE base"), "whole", "a view"),
    "a materialized view": Kind(
        (*BASE, "CREATE MATERIALIZED VIEW s AS TABLE base"), "ctid", "heap table"
    ),
    "foreign": Kind(
        (
            *BASE,
            *FOREIGN,
            f"CREATE FOREIGN TABLE s ({COLUMNS}) SERVER beside OPTIONS (table_name 'base')",
        ),
        "whole",
        "a foreign table",
    ),
    "with row security, as its owner": Kind(
        (*PLAIN, "ALTER TABLE s ENABLE ROW LEVEL SECURITY"), "ctid", "heap table"
    ),
}


def test_the_manual_lists_what_auto_chooses() -> None:
    page = (Path(__file__).parents[3] / "docs" / "strategies.md").read_text(encoding="utf-8")
    body = page.partition("### Each kind of relation")[2].partition("\n## ")[0]
    rows_ = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in body.splitlines()
        if line.startswith("| ")
    ][2:]
    assert {row[0]: row[1].strip("`") for row in rows_} == {
        name: kind.strategy for name, kind in KINDS.items()
    }
    for name, _, because in rows_:
        assert because in KINDS[name].why


def make(pair: Pair, kind: Kind) -> None:
    found = urlsplit(pair.source.url)
    for statement in kind.make:
        pair.source.run(
            statement.replace("{port}", str(found.port))
            .replace("{db}", found.path.lstrip("/"))
            .replace("{host}", str(found.hostname))
        )
    columns = "" if kind is KINDS["without a column"] else COLUMNS
    pair.target.run(f"CREATE TABLE t ({columns})")


def assert_copied(pair: Pair, columns: str = "id, name, at", where: str = "true") -> None:
    mine = sorted(pair.source.rows(f"SELECT row({columns})::text FROM s WHERE {where}"))
    assert mine == pair.target.contents("t", "true", columns)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_is_copied(pair: Pair, kind: Kind) -> None:
    make(pair, kind)
    plan = pair.plan("public.s", target_table="public.t", partitions=5)
    assert plan.strategy == kind.strategy, plan.reasons
    assert kind.why in plan.reasons[0]
    columns = "" if kind is KINDS["without a column"] else "id, name, at"
    for options in ({"partitions": 5}, {"strategy": "whole"}):
        report = pair.copy("public.s", target_table="public.t", mode="truncate", **options)
        assert report.rows == pair.source.count("s")
        assert_copied(pair, columns)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_is_copied_by_key(pair: Pair, kind: Kind) -> None:
    make(pair, kind)
    if kind is KINDS["without a column"]:
        with pytest.raises(PlanningError, match="no such column"):
            pair.plan("public.s", target_table="public.t", strategy="ntile", key="id")
        return
    cuts: tuple[dict[str, Any], ...] = (
        {"strategy": "ntile", "key": "id", "partitions": 3, "where": "id > 10"},
        {"strategy": "ntile", "key": "name", "partitions": 3, "where": "s.name LIKE '%1%'"},
        {"strategy": "hash", "key": "name", "partitions": 3},
        {"strategy": "time", "key": "at", "interval": "3 weeks"},
    )
    for options in cuts:
        report = pair.copy("public.s", target_table="public.t", mode="truncate", **options)
        where = str(options.get("where", "true"))
        assert report.rows == pair.source.count("s", where)
        assert_copied(pair, where=where)


class TestChildren:
    """Tables with children, which are partitioned, packed, and changed after planning."""

    @pytest.fixture
    def sales(self, pair: Pair) -> Pair:
        columns = f"{COLUMNS}, CHECK (id > 0)"
        pair.both(f"CREATE TABLE s ({columns}) PARTITION BY RANGE (id)")
        for low in range(0, 20_000, 1000):
            bounds = f"FOR VALUES FROM ({low}) TO ({low + 1000 if low < 19_000 else 90_000})"
            pair.source.run(f"CREATE TABLE s_{low} PARTITION OF s {bounds}")
        pair.target.run("CREATE TABLE every PARTITION OF s DEFAULT")
        pair.source.run(f"INSERT INTO s {rows(80_000)}", "ANALYZE s")
        return pair

    def test_large_children_are_cut_and_small_ones_packed(self, sales: Pair) -> None:
        plan = sales.plan("public.s", partitions=6)
        extents = [partition.extent for partition in plan.partitions]
        blocks = [each for each in extents if isinstance(each, ChildBlocks)]
        assert {each.table.name for each in blocks} == {"s_19000"}
        assert len(blocks) > 2
        packed = [each for each in extents if isinstance(each, Children)]
        assert sum(len(each.tables) for each in packed) == 19
        assert len(packed) < 4
        assert any("1 table partitioned by blocks" in reason for reason in plan.reasons)
        assert plan.rows == 80_000
        assert sum(partition.rows or 0 for partition in plan.partitions) == pytest.approx(80_000, 9)
        sales.copy("public.s", partitions=6, degree=2, where="s.id % 3 = 0 -- with its name")
        sales.assert_same("s", "t.id % 3 = 0")
        assert sales.target.count("s") == sales.source.count("s", "id % 3 = 0")

    def test_children_plans_one_partition_for_each(self, sales: Pair) -> None:
        plan = sales.plan("public.s", strategy="children")
        assert len(plan.partitions) == 20
        assert all(len(part.extent.tables) == 1 for part in plan.partitions)  # type: ignore[union-attr]
        sales.copy("public.s", strategy="children")
        sales.assert_same("s")
        done = sales.cli("verify", self.run_id(sales), *sales.ends)
        assert done.returncode == 0, done.stdout

    def test_a_run_with_auto_is_verified(self, sales: Pair) -> None:
        sales.copy("public.s", partitions=6, mode="truncate")
        done = sales.cli("verify", self.run_id(sales), *sales.ends)
        assert done.returncode == 0, done.stdout
        assert "counted as a whole" not in done.stdout  # the rows show which run loaded them

    @staticmethod
    def run_id(pair: Pair) -> str:
        found: str = pair.target.value("SELECT run_id FROM penstock.run")
        return found

    def test_without_a_snapshot_rows_could_move(self, sales: Pair) -> None:
        plan = sales.plan("public.s", partitions=6, snapshot="none")
        assert plan.strategy == "whole"
        assert "needs a shared snapshot" in plan.reasons[0]

    def test_replace_partitions_by_key(self, sales: Pair) -> None:
        sales.target.run(f"INSERT INTO s {rows(500)}")
        sales.copy("public.s", mode="replace", key="id", partitions=4)
        sales.assert_same("s")

    @pytest.mark.parametrize("committed", [False, True], ids=["nothing done", "some done"])
    @pytest.mark.parametrize(
        "change",
        [
            "CREATE TABLE late PARTITION OF s FOR VALUES FROM (90000) TO (99000);"
            " INSERT INTO s VALUES (90001)",
            "ALTER TABLE s DETACH PARTITION s_3000",
            "DROP TABLE s_3000;"
            " CREATE TABLE s_3000 PARTITION OF s FOR VALUES FROM (3000) TO (4000)",
        ],
        ids=["attached", "detached", "made anew"],
    )
    def test_changed_children_end_a_run(self, sales: Pair, change: str, committed: bool) -> None:
        self.leave_unfinished(sales, committed)
        sales.source.run(*change.split(";"))
        for policy in ("fail", "accept"):
            with pytest.raises(PlanningError, match="consists of other tables than when"):
                list(self.resume(sales, policy))
        assert sales.target.count("s", "id > 89999") == 0

    def test_a_rewritten_child_is_noticed(self, sales: Pair) -> None:
        self.leave_unfinished(sales, committed=True)
        sales.source.run("VACUUM FULL s_19000")
        with pytest.raises(PlanningError, match="was rewritten"):
            list(self.resume(sales, "accept"))

    def test_a_run_is_resumed_if_nothing_changed(self, sales: Pair) -> None:
        settle_statistics(sales.source.connection)
        self.leave_unfinished(sales, committed=True)
        *_, report = self.resume(sales, "fail")
        assert isinstance(report, Finished)
        assert report.status == "done"
        sales.assert_same("s")

    def leave_unfinished(self, pair: Pair, committed: bool) -> None:
        events = copy(pair.spec("public.s", partitions=6, run_id="r"))
        for event in events:
            if isinstance(event, Committed) or (event.name == "planned" and not committed):
                break
        events.close()

    def resume(self, pair: Pair, policy: str) -> Iterator[Any]:
        return resume(
            "r",
            source=pair.source.url,
            target=pair.target.url,
            on_snapshot_lost=policy,
            degree=1,
        )

    def test_a_missing_privilege_on_a_child(self, sales: Pair) -> None:
        with reader(sales, "GRANT SELECT ON s TO {}", "GRANT SELECT ON s_0 TO {}") as url:
            plan = sales.plan("public.s", source=url, partitions=5)
            assert plan.strategy == "whole"
            assert "may not read 19 of its tables directly" in plan.reasons[0]
            with pytest.raises(PlanningError, match="may not read 19 of its tables"):
                sales.plan("public.s", source=url, strategy="children")
            sales.copy("public.s", source=url, key="id", partitions=3)
            sales.assert_same("s")

    def test_row_policies_of_children_hide_nothing(self, sales: Pair) -> None:
        sales.source.run("ALTER TABLE s_1000 ENABLE ROW LEVEL SECURITY")
        with reader(sales, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}") as url:
            plan = sales.plan("public.s", source=url, partitions=5)
            assert plan.strategy == "whole"
            assert "row security" in plan.reasons[0]
            sales.copy("public.s", source=url)
            sales.assert_same("s")


@contextmanager
def reader(pair: Pair, *grants: str, options: str = "", side: Side | None = None) -> Iterator[str]:
    """Return the URL of the source, or of another side, for a new user with these privileges."""
    side = side or pair.source
    name = f"reader_{uuid.uuid4().hex[:8]}"
    side.run(
        f"CREATE USER {name} {options}",
        f"GRANT USAGE ON SCHEMA public TO {name}",
        *(grant.format(name) for grant in grants),
    )
    parts = urlsplit(side.url)
    try:
        yield urlunsplit(parts._replace(netloc=f"{name}@{parts.hostname}:{parts.port}"))
    finally:
        side.run(f"DROP OWNED BY {name}", f"DROP USER {name}")


class TestRowSecurity:
    @pytest.fixture
    def guarded(self, pair: Pair) -> Pair:
        pair.source.run(
            *PLAIN,
            "ALTER TABLE s ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY few ON s USING (id < 10)",
        )
        pair.target.run(f"CREATE TABLE s ({COLUMNS})")
        return pair

    def test_an_ordinary_user_is_refused(self, guarded: Pair) -> None:
        with (
            reader(guarded, "GRANT SELECT ON s TO {}") as url,
            pytest.raises(PlanningError, match=r"row security on public.s .* BYPASSRLS"),
        ):
            guarded.copy("public.s", source=url)
        assert not guarded.has_control_schema()

    def test_through_a_view_too(self, guarded: Pair) -> None:
        guarded.source.run("CREATE VIEW seen AS TABLE s", "ALTER TABLE s FORCE ROW LEVEL SECURITY")
        with reader(
            guarded, "GRANT SELECT ON s, seen TO {0}", "ALTER VIEW seen OWNER TO {0}"
        ) as url:
            with pytest.raises(PlanningError, match="row-level security"):
                guarded.copy("public.seen", source=url, target_table="public.s")
            guarded.source.run("DROP VIEW seen")

    def test_a_user_who_bypasses_it_sees_all_rows(self, guarded: Pair) -> None:
        with reader(guarded, "GRANT SELECT ON s TO {}", options="BYPASSRLS") as url:
            guarded.copy("public.s", source=url)
        guarded.assert_same("s")


NO_SOURCES = {
    "a sequence": (("CREATE SEQUENCE s",), "found a sequence"),
    "an index": (("CREATE TABLE x (id int)", "CREATE INDEX s ON x (id)"), "found an index"),
    "a composite type": (("CREATE TYPE s AS (id int)",), "found a composite type"),
    "a materialized view that was never filled": (
        ("CREATE MATERIALIZED VIEW s AS SELECT 1 AS id WITH NO DATA",),
        "REFRESH MATERIALIZED VIEW",
    ),
}


@pytest.mark.parametrize(("statements", "words"), NO_SOURCES.values(), ids=NO_SOURCES)
def test_a_relation_without_rows_is_refused(
    pair: Pair, statements: tuple[str, ...], words: str
) -> None:
    pair.source.run(*statements)
    pair.target.run("CREATE TABLE s (id int)")
    with pytest.raises(PlanningError, match=words):
        pair.copy("public.s")
    assert not pair.has_control_schema()


def test_a_temporary_table_and_a_toast_table_are_refused(pair: Pair) -> None:
    pair.source.run("CREATE TEMP TABLE s (id int)", "CREATE TABLE fat (doc text)")
    pair.target.run("CREATE TABLE s (id int)")
    schema = pair.source.value("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()")
    with pytest.raises(PlanningError, match="only the session that created it"):
        pair.copy(f"{schema}.s", target_table="public.s")
    toast = pair.source.value("SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'fat'")
    with pytest.raises(PlanningError, match="found a TOAST table"):
        pair.copy(toast, target_table="public.s")


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("pg_catalog.pg_class", 'oid oid, relname name, relnatts int2, relkind "char"'),
        ("pg_catalog.pg_statistic", "starelid oid, staattnum int2, stanumbers1 float4[]"),
        ("information_schema.sql_features", "feature_id information_schema.character_data"),
        ("pg_catalog.pg_tables", "schemaname name, tablename name, hasindexes bool"),
    ],
)
def test_system_catalogs_are_copied(pair: Pair, table: str, columns: str) -> None:
    pair.source.run("CREATE TABLE x (id int)", "INSERT INTO x VALUES (1)", "ANALYZE x")
    pair.target.run(f"CREATE TABLE s ({columns})")
    names = [column.split()[0] for column in columns.split(", ")]
    pair.copy(table, target_table="public.s", columns=tuple(names))
    listed = ", ".join(names)
    mine = sorted(pair.source.rows(f"SELECT row({listed})::text FROM {table}"))
    assert mine
    assert mine == pair.target.contents("s", "true", listed)
