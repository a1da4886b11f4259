"""swap: the table is replaced, and everything else stays the same."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.backends.postgresql.definitions import definitions
from tests.backends.postgresql.test_recreate import LOADED, PAST, ROWS, TYPES, everything

from penstock import PermanentError, PlanningError, copy
from penstock.backends.postgresql.ddl.text import temporary_name
from penstock.events import Committed, StepChanged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.backends.conftest import Pair

ATTACHED = """
    CREATE TABLE app.other (id int PRIMARY KEY);
    INSERT INTO app.other SELECT generate_series(1, 50);
    ALTER TABLE app."T a" ADD CONSTRAINT away FOREIGN KEY (id) REFERENCES app.other
        ON DELETE CASCADE DEFERRABLE;
    ALTER TABLE app."T a" ADD CONSTRAINT home FOREIGN KEY (id) REFERENCES app."T a" MATCH FULL;
    ALTER TABLE app."T a" ADD CONSTRAINT unsure FOREIGN KEY (small) REFERENCES app.other NOT VALID;
    COMMENT ON CONSTRAINT away ON app."T a" IS 'foreign';
    CREATE FUNCTION app.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER "One" BEFORE INSERT OR UPDATE OF small ON app."T a" FOR EACH ROW
        WHEN (NEW.id > 7) EXECUTE FUNCTION app.f('a', 'b');
    CREATE CONSTRAINT TRIGGER two AFTER DELETE ON app."T a" DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION app.f();
    CREATE TRIGGER three AFTER INSERT ON app."T a" REFERENCING NEW TABLE AS fresh
        FOR EACH STATEMENT EXECUTE FUNCTION app.f();
    ALTER TABLE app."T a" DISABLE TRIGGER "One";
    ALTER TABLE app."T a" ENABLE ALWAYS TRIGGER two;
    COMMENT ON TRIGGER two ON app."T a" IS 'trigger';
    ALTER TABLE app."T a" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY polite ON app."T a" AS RESTRICTIVE FOR UPDATE TO reader, owner_of_it
        USING (id > 5) WITH CHECK (id < 100);
    CREATE POLICY open ON app."T a" USING (true);
    COMMENT ON POLICY open ON app."T a" IS 'policy';
    ALTER TABLE app."T a" OWNER TO owner_of_it;
    GRANT CREATE, USAGE ON SCHEMA app TO owner_of_it;
    GRANT SELECT, DELETE ON app."T a" TO reader WITH GRANT OPTION;
    GRANT UPDATE ("Text", id), REFERENCES (id) ON app."T a" TO reader;
    REVOKE TRUNCATE ON app."T a" FROM owner_of_it;
    GRANT SELECT ON app."T a" TO PUBLIC;
    ALTER DEFAULT PRIVILEGES GRANT INSERT ON TABLES TO reader;
    CREATE PUBLICATION spread FOR TABLE app."T a" (id, "Text") WHERE (id > 3);
    SELECT setval('app."T a_id_seq"', 4711), setval('app."T a_number_seq"', 815, false);
"""
# PostgreSQL 14 publishes whole tables only.
PUBLISHED_PART = """ (id, "Text") WHERE (id > 3)"""


@pytest.fixture
def roles(pair: Pair) -> Iterator[None]:
    pair.both("CREATE ROLE reader", "CREATE ROLE owner_of_it")
    yield
    for side in (pair.source, pair.target):
        side.run("DROP OWNED BY reader, owner_of_it CASCADE")
    for side in (pair.source, pair.target):
        side.run("DROP ROLE IF EXISTS reader, owner_of_it")


@pytest.mark.usefixtures("roles")
def test_every_part_of_a_table_is_kept(pair: Pair) -> None:
    pair.both(TYPES, everything(pair.version))
    pair.source.run(ROWS, PAST)
    attached = ATTACHED if pair.version >= 15 else ATTACHED.replace(PUBLISHED_PART, "")
    pair.target.run(PAST, attached)
    before = definitions(pair.target.url)
    oid = pair.target.value("""SELECT 'app."T a"'::regclass::oid""")
    # Forced policies apply to the owner too, but not to this superuser.
    for _ in range(2):
        pair.copy('app."T a"', mode="swap", columns=LOADED)
        assert definitions(pair.target.url) == before
        pair.assert_same('app."T a"', columns=", ".join(f'"{name}"' for name in LOADED))
    assert pair.target.value("""SELECT 'app."T a"'::regclass::oid""") != oid
    assert pair.target.rows("SELECT relname FROM pg_class WHERE relname LIKE '%penstock%'") == []
    assert pair.target.value("""SELECT nextval('app."T a_id_seq"')""") == 4712
    assert pair.target.value("""SELECT nextval('app."T a_number_seq"')""") == 815


def test_a_name_of_maximum_length(pair: Pair) -> None:
    name = "ü" * 31
    pair.both(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"CREATE INDEX ON {name} (id)")
    pair.source.run(f"INSERT INTO {name} VALUES (1), (2)")
    before = definitions(pair.target.url)
    pair.copy(f"public.{name}", mode="swap")
    assert definitions(pair.target.url) == before
    pair.assert_same(f"public.{name}")


def test_readers_see_the_old_rows_or_the_new(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, note text)")
    fill = "INSERT INTO t SELECT n, '{note}' FROM generate_series(1, {rows}) AS n"
    pair.source.run(fill.format(note="new", rows=20_000), "ANALYZE t")
    pair.target.run(fill.format(note="old", rows=7_000))
    seen: set[tuple[int, str, str]] = set()
    ended = threading.Event()

    def read() -> None:
        with psycopg.connect(pair.target.url, autocommit=True) as connection:
            while not ended.is_set():
                query = "SELECT count(*), min(note), max(note) FROM t"
                seen.add(connection.execute(query).fetchone())  # type: ignore[arg-type]

    reader = threading.Thread(target=read)
    reader.start()
    try:
        pair.copy(mode="swap", partitions=4, strategy="ctid")
        deadline = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        ended.set()
        reader.join()
    assert seen == {(7_000, "old", "old"), (20_000, "new", "new")}


def test_waiting_for_a_reader_lets_others_read(pair: Pair) -> None:
    """The lock is requested repeatedly, and others may read in between."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t VALUES (1)")
    holder = psycopg.connect(pair.target.url)
    holder.execute("SELECT FROM t")
    released: list[bool] = []
    for event in copy(pair.spec(mode="swap")):
        if isinstance(event, StepChanged) and event.state == "retrying" and not released:
            assert event.step_id == "swap"
            assert "lock timeout" in event.message
            assert pair.target.count() == 0  # not blocked
            holder.close()
            released.append(True)
    assert released
    pair.assert_same()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD late int",
        "CREATE INDEX late ON t (id)",
        "GRANT SELECT ON t TO PUBLIC",
        "ALTER TABLE t ALTER id SET DEFAULT 7",
        "CREATE VIEW late AS TABLE t",
    ],
)
def test_a_target_altered_since_planning_is_left_alone(pair: Pair, change: str) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t VALUES (1)")
    pair.target.run("INSERT INTO t VALUES (-1)")

    def change_in_between() -> None:
        for event in copy(pair.spec(mode="swap")):
            if isinstance(event, Committed):
                pair.target.run(change)

    with pytest.raises(PermanentError, match=r"was altered after|other objects depend on it"):
        change_in_between()
    assert pair.target.count(where="id = -1") == 1


class TestRefused:
    def refused(self, pair: Pair, *parts: str, **options: object) -> None:
        before = definitions(pair.target.url)
        with pytest.raises(PlanningError) as caught:
            pair.copy(**{"mode": "swap", **options})  # type: ignore[arg-type]
        for part in parts:
            assert part in caught.value.message
        assert definitions(pair.target.url) == before
        assert not pair.has_control_schema()

    @pytest.mark.parametrize(
        ("statement", "name"),
        [
            ("CREATE VIEW v AS SELECT id FROM t", "view public.v"),
            ("CREATE MATERIALIZED VIEW v AS SELECT id FROM t", "materialized view public.v"),
            (
                "CREATE TABLE o (id int CONSTRAINT points REFERENCES t)",
                "foreign key points of public.o",
            ),
            ("CREATE TABLE o (whole t[])", "column whole of table public.o"),
            (
                "CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'TABLE t'",
                "function public.f()",
            ),
            ("CREATE TABLE o () INHERITS (t)", "inherited from"),
            ("CREATE RULE ruled AS ON DELETE TO t DO INSTEAD NOTHING", "ruled"),
            (
                "CREATE TABLE o (id int); CREATE POLICY p ON o USING (id IN (SELECT id FROM t))",
                "policy p on table public.o",
            ),
        ],
    )
    def test_dependents_of_the_target(self, pair: Pair, statement: str, name: str) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY)")
        pair.target.run(statement)
        self.refused(pair, "--mode swap", "public.t", name)

    def test_partitioned_tables(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id int)")
        pair.target.run("CREATE TABLE t (id int) PARTITION BY LIST (id)")
        self.refused(pair, "expected public.t to be a table that is not partitioned")

    def test_missing_privileges(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int)")
        pair.target.run(
            "CREATE ROLE swapper LOGIN", "GRANT ALL ON t TO swapper",
            # Everybody has it before PostgreSQL 15.
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        )  # fmt: skip
        try:
            target = pair.target.url.replace("postgres@", "swapper@")
            self.refused(pair, 'GRANT "postgres" TO "swapper"', target=target)
            pair.target.run("ALTER TABLE t OWNER TO swapper")
            self.refused(pair, 'GRANT CREATE ON SCHEMA "public" TO "swapper"', target=target)
        finally:
            pair.target.run("DROP OWNED BY swapper", "DROP ROLE swapper")


def test_a_member_of_the_owning_role_may_swap(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t VALUES (1)")
    database = pair.target.connection.info.dbname
    pair.target.run(
        "CREATE ROLE team", "CREATE ROLE player LOGIN IN ROLE team",
        "ALTER TABLE t OWNER TO team", "GRANT CREATE ON SCHEMA public TO team, player",
        f"GRANT CREATE ON DATABASE {database} TO player",
    )  # fmt: skip
    try:
        before = definitions(pair.target.url)
        target = pair.target.url.replace("postgres@", "player@")
        pair.copy(mode="swap", target=target)
        assert definitions(pair.target.url) == before
        pair.assert_same()
    finally:
        pair.target.run("DROP OWNED BY player, team", "DROP ROLE player, team")


def test_grants_and_foreign_keys_do_not_collide(pair: Pair) -> None:
    """Both update the table's row in the catalog; a grant does so without a lock."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    pair.source.run("INSERT INTO t SELECT n, n % 5, n % 5 FROM generate_series(1, 100) AS n")
    pair.target.run(
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO other SELECT generate_series(0, 4)",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES other",
        "ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES other",
        "GRANT SELECT ON t TO PUBLIC",
        # So that both take a while.
        """CREATE FUNCTION slowly() RETURNS event_trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep(0.3); END'""",
        """CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('GRANT', 'ALTER TABLE')
            EXECUTE FUNCTION slowly()""",
    )
    before = definitions(pair.target.url)
    pair.copy(mode="swap", degree=4)
    assert definitions(pair.target.url) == before
    pair.assert_same()


def test_a_grant_waits_for_a_session_that_alters_the_table(pair: Pair) -> None:
    """As if another process executed the same run."""
    pair.both("CREATE TABLE t (id int, a int)")
    pair.source.run("INSERT INTO t VALUES (1, 1)")
    pair.target.run("GRANT SELECT ON t TO PUBLIC", "CREATE TABLE other (id int PRIMARY KEY)")
    new = f'"{temporary_name("r", "t")}"'
    states = []
    with psycopg.connect(pair.target.url) as other:
        for event in copy(pair.spec(mode="swap", run_id="r")):
            if isinstance(event, Committed):
                other.execute(f"ALTER TABLE {new} ADD FOREIGN KEY (a) REFERENCES other NOT VALID")
                threading.Timer(1.0, other.commit).start()
            if isinstance(event, StepChanged) and event.step_id == "complete":
                states.append(event.state)
    assert states == ["started", "done"]
