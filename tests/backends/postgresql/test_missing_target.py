"""A mode that finds the table missing creates it with all its parts, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import PartitionPlan, create, resume
from penstock.backends.postgresql.session.statements import statement
from penstock.backends.postgresql.target import PostgresTarget
from penstock.errors import MissingTarget, PenstockError, PlanningError
from penstock.events import Finished
from penstock.planning.asking.catalogs import Catalogs

from ...control_calls import prepare
from ...faults.cli import PATIENCE, eventually

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
)
REPLACING: dict[str, Any] = {
    "mode": "replace",
    "strategy": "range",
    "key": "id",
    "create": True,
}
TABLE = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE TABLE other (id int PRIMARY KEY)",
    "INSERT INTO other VALUES (1)",
    "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial,"
    " day date NOT NULL DEFAULT current_date, feeling mood, price numeric(8, 2) CHECK (price >= 0),"
    " label text UNIQUE, twice int GENERATED ALWAYS AS (n * 2) STORED,"
    " other_id int REFERENCES other, above int REFERENCES t)",
    "COMMENT ON TABLE t IS 'kept'",
    "CREATE INDEX ON t (day)",
    "CREATE INDEX ON t (lower(label)) WHERE day > '2024-01-01'",
    "CREATE STATISTICS t_stat (dependencies) ON day, other_id FROM t",
    "INSERT INTO t (day, feeling, price, label, other_id, above)"
    " SELECT date '2024-01-01' + i / 10, 'glad', i, 'l' || i, 1, NULL"
    " FROM generate_series(1, 99) AS i",
    "UPDATE t SET price = NULL WHERE id = 5",
    "ALTER TABLE t ADD CHECK (price IS NOT NULL) NOT VALID",
)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.source.run(*TABLE)
    return pair


def parts(pair: Pair, side: str) -> list[Any]:
    """Return the table's definition from the catalog."""
    of = getattr(pair, side)
    return [
        of.rows("SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
                " a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid)"
                " FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid"
                " AND d.adnum = a.attnum WHERE a.attrelid = 't'::regclass AND a.attnum > 0"
                " ORDER BY a.attnum"),
        of.rows("SELECT pg_get_indexdef(indexrelid) FROM pg_index"
                " WHERE indrelid = 't'::regclass ORDER BY 1"),
        of.rows("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE conrelid = 't'::regclass AND contype <> 'f' AND convalidated ORDER BY 1"),
        of.rows("SELECT stxname FROM pg_statistic_ext WHERE stxrelid = 't'::regclass"),
        of.rows("SELECT obj_description('t'::regclass)"),
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["append", "truncate", "replace", "upsert"])
def test_the_created_table_is_like_the_source(filled: Pair, mode: str) -> None:
    options = {**REPLACING, "mode": mode, "verify": "checksums"}
    planned = filled.plan(**options)
    assert any("and created there: table public.t" in each for each in planned.warnings)
    assert not filled.target.rows("SELECT FROM pg_class WHERE relname = 't'")
    finished = filled.copy(**options)
    filled.assert_same()
    assert parts(filled, "target") == parts(filled, "source")
    assert {(item.kind, item.name) for item in finished.not_copied} == {
        ("foreign keys", "t_other_id_fkey"),
        ("foreign keys", "t_above_fkey"),
        ("check constraints", "t_price_check1"),
    }
    # The listed statements create the remaining parts, once their prerequisites exist.
    filled.target.run("CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    for item in finished.not_copied:
        filled.target.run(item.remedy)
    # The next row gets a new number.
    filled.target.run("INSERT INTO t (label, price) VALUES ('next', 1)")
    assert filled.target.rows("SELECT id, n FROM t WHERE label = 'next'") == [(100, 100)]


def test_a_missing_schema_is_refused_unless_it_is_to_be_created(filled: Pair) -> None:
    filled.target.run("CREATE SCHEMA dwh")
    options = {**REPLACING, "create": False, "target_table": "dhw.t"}
    expected = "schema 'dhw' does not exist; did you mean dwh\\? To create it, pass --create"
    with pytest.raises(PlanningError, match=expected) as caught:
        filled.plan(**options)
    assert caught.value.exit_code == 65
    with pytest.raises(PlanningError, match=expected):
        filled.copy(**options)
    with pytest.raises(PlanningError, match=expected):
        create(filled.spec(**options))
    night = {"mode": "upsert", "incremental": "xmin", "target_table": "dhw.t"}
    with pytest.raises(PlanningError, match=expected):
        filled.copy(**night)
    assert not filled.target.rows("SELECT FROM pg_namespace WHERE nspname = 'dhw'")
    filled.copy(**{**options, "target_table": "dwh.t"})
    assert filled.target.count("dwh.t") == 99


def test_recreate_makes_the_schema(filled: Pair) -> None:
    filled.copy(mode="recreate", target_table="dw.t")
    assert filled.target.count("dw.t") == 99


def test_a_missing_schema_is_named(filled: Pair) -> None:
    planned = filled.plan(target_table="misspelt.t", **REPLACING)
    (warning,) = [each for each in planned.warnings if "missing in the target" in each]
    assert (
        warning == "missing in the target, and created there: schema misspelt and table misspelt.t"
    )
    filled.copy(target_table="misspelt.t", **REPLACING)
    assert filled.target.count("misspelt.t") == 99


def test_without_the_privilege_the_grant_is_named(filled: Pair) -> None:
    filled.target.run(
        "CREATE ROLE made_nothing LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    )
    try:
        url = filled.target.url.replace("//postgres", "//made_nothing", 1)
        with pytest.raises(PlanningError, match='ON SCHEMA "public" TO'):
            filled.plan(target=url, **REPLACING)
    finally:
        filled.target.run("DROP ROLE made_nothing")


@pytest.mark.parametrize(
    "options", [{"mode": "truncate", "unlogged": True}, {"indexes": "defer"}], ids=str
)
def test_options_that_change_an_existing_table(filled: Pair, options: dict[str, Any]) -> None:
    with pytest.raises(PlanningError, match=r"public\.t does not exist"):
        filled.plan(**options)


@pytest.mark.parametrize("mode", ["swap", "attach"])
def test_other_modes_require_the_table(filled: Pair, mode: str) -> None:
    with pytest.raises(MissingTarget):
        filled.plan(mode=mode, strategy="range", key="id")


DAYS = [f"day = '2024-01-{day:02}'" for day in range(1, 9)]


def start(pair: Pair, number: int, table: str = "t") -> None:
    create(
        pair.spec(
            run_id=f"day{number}", where=DAYS[number], target_table=f"dw.{table}", **REPLACING
        )
    )


def resume_day(pair: Pair, day: int | str) -> Finished:
    *_, last = resume(
        f"day{day}" if isinstance(day, int) else day, source=pair.source.url, target=pair.target.url
    )
    assert isinstance(last, Finished)
    return last


def test_several_days_start_at_once(filled: Pair) -> None:
    """All of them find schema, type and table missing."""
    for number in range(len(DAYS)):
        start(filled, number)
    with ThreadPoolExecutor(len(DAYS)) as pool:
        found = list(pool.map(lambda number: resume_day(filled, number), range(len(DAYS))))
    assert {each.status for each in found} == {"done"}
    days = " OR ".join(DAYS)
    assert filled.target.count("dw.t") == filled.source.count("t", days)
    assert filled.target.rows(
        "SELECT count(*) FROM pg_index WHERE indrelid = 'dw.t'::regclass"
    ) == [(4,)]


def test_a_day_waits_for_the_one_that_creates_the_table(filled: Pair) -> None:
    """The other day has not created anything yet when this one checks."""
    start(filled, 0)
    making = "SELECT pg_advisory_xact_lock(hashtextextended('penstock:making', 0))"
    with psycopg.connect(filled.target.url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(making)
        waiting = pool.submit(resume_day, filled, 0)
        waits = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database"
            " = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        eventually("it waits", lambda: filled.target.value(waits) == 1, PATIENCE)
        for definition in (TABLE[0], "CREATE SCHEMA dw", f"CREATE TABLE dw.t ({ALIKE})"):
            other.execute(definition.encode())
        before = other.execute("SELECT 'dw.t'::regclass::oid").fetchone()
        other.commit()
        assert waiting.result().status == "done"
    assert before == (filled.target.value("SELECT 'dw.t'::regclass::oid"),)
    assert filled.target.count("dw.t") == filled.source.count("t", DAYS[0])


@pytest.mark.parametrize("mode", ["replace", "recreate"])
def test_planning_while_another_run_creates_the_schema_and_the_type(
    filled: Pair, mode: str
) -> None:
    """A plan rehearses what it creates, so it meets what another run has not committed yet."""
    making = "SELECT pg_advisory_xact_lock(hashtextextended('penstock:making', 0))"
    with psycopg.connect(filled.target.url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(making)
        other.execute("CREATE SCHEMA dw")
        other.execute(TABLE[0].encode())
        spec = filled.spec(run_id="r", target_table="dw.t", **{**REPLACING, "mode": mode})
        waiting = pool.submit(create, spec)
        eventually("it waits", lambda: filled.target.value(WAITING) == 1, PATIENCE)
        other.commit()
        waiting.result()
    assert resume_day(filled, "r").status == "done"
    assert filled.target.count("dw.t") == filled.source.count("t")


def test_a_session_that_has_missed_the_schema_sees_it_once_it_is_created(pair: Pair) -> None:
    """A session remembers that a schema is missing until it next locks a relation."""
    create_schema = b"CREATE SCHEMA IF NOT EXISTS dw"
    lock = statement("lock_making").as_bytes(None)
    with (
        psycopg.connect(pair.target.url, autocommit=True) as remembering,
        psycopg.connect(pair.target.url) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        # From now on, it needs to read nothing to create a schema.
        remembering.execute(b"BEGIN; %b; ROLLBACK" % create_schema)
        remembering.execute("SELECT to_regnamespace('dw')")
        other.execute(lock)
        other.execute(create_schema)
        script = b"BEGIN; %b; %b; COMMIT" % (lock, create_schema)
        waiting = pool.submit(remembering.execute, script)
        eventually("it waits", lambda: pair.target.value(WAITING) == 1, PATIENCE)
        other.commit()
        waiting.result()


def test_days_of_two_tables_at_once(filled: Pair) -> None:
    """They also share a missing schema and type."""
    filled.source.run("DROP STATISTICS t_stat")  # its name is a schema's
    for number in range(4):
        start(filled, number, f"t{number % 2}")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: resume_day(filled, number), range(4)))
    assert {each.status for each in found} == {"done"}


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("(LIKE t)", None),
        ("(id bigint, day date)", "id integer IDENTITY"),
        ("AS SELECT 'x' AS id", "day date"),
        ("(LIKE t, more int)", None),
        ("(without)", 'sequence "dw"."t_n_seq"'),
    ],
)
def test_another_session_creates_it_first(
    filled: Pair, definition: str, message: str | None
) -> None:
    """Existing objects are used as they are, or left alone."""
    start(filled, 0)
    filled.target.run("CREATE SCHEMA IF NOT EXISTS dw", TABLE[0])
    definition = definition.replace("LIKE t", ALIKE).replace(
        "without", ALIKE.replace("serial", "int")
    )
    filled.target.run(f"CREATE TABLE dw.t {definition}")
    before = filled.target.value("SELECT 'dw.t'::regclass::oid")
    with closing(PostgresTarget(filled.target.url, "penstock")) as target:
        run = target.control.runs.find("day0")
        assert run is not None
        if message is None:
            assert prepare(target.control, "day0", run.plan.load)
        else:
            with pytest.raises(PenstockError, match="created by another session") as caught:
                prepare(target.control, "day0", run.plan.load)
            assert message in str(caught.value)
    assert filled.target.value("SELECT 'dw.t'::regclass::oid") == before
    assert filled.target.count("dw.t") == (1 if "AS SELECT" in definition else 0)


ALIKE = (
    "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, day date, feeling mood,"
    " price numeric(8, 2), label text, twice int GENERATED ALWAYS AS (n * 2) STORED,"
    " other_id int, above int"
)


def test_the_table_is_created_while_another_run_is_planned(filled: Pair, monkeypatch: Any) -> None:
    """The other run then uses the table, and does not replace it."""
    start(filled, 0)
    known = Catalogs.fits
    seen: list[int] = []

    def making(*args: Any) -> Any:
        if not seen:
            seen.append(1)
            resume_day(filled, 0)
        return known(*args)

    monkeypatch.setattr(Catalogs, "fits", making)
    planned: PartitionPlan = filled.plan(where=DAYS[1], target_table="dw.t", **REPLACING)
    assert seen
    assert not [
        each for each in planned.warnings if "is called" in each or "missing in the target" in each
    ]
    assert not [step for step in planned.load.before if step.id == "make"]
