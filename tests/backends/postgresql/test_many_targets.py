"""Planning queries of the target: no more for many tables than for one, and a bad table fails
alone."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import pq

from penstock import PartitionPlan, PenstockError, create, resume
from penstock.backends.api.facts import Siblings
from penstock.backends.api.optional.bulk_catalogs import describing
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.engine.connections import connect
from penstock.planning.asking.rounds import plan_tables
from penstock.planning.request import PlanRequest
from penstock.spec.modes import Table
from penstock.workers.degree import streams_of

from ..conftest import Pair

if TYPE_CHECKING:
    from penstock.backends.postgresql.connection import Connection

Make = Callable[[int], Sequence[str]]


def plain(number: int) -> list[str]:
    return [
        f"CREATE TABLE t{number} (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),"
        f" name varchar({number + 5}), amount numeric(9,2))",
        f"CREATE INDEX ON t{number} (name, at DESC)",
    ]


def checked(number: int) -> list[str]:
    """Return the statements for a table whose definition has to be rehearsed."""
    return [
        f"CREATE TABLE t{number} (id int GENERATED ALWAYS AS IDENTITY, mood mood, n int,"
        f" CHECK (n > {number}), twice int GENERATED ALWAYS AS (n * 2) STORED)",
        f"CREATE UNIQUE INDEX ON t{number} (abs(n)) WHERE n > 1",
        f"CREATE STATISTICS s{number} ON n, mood FROM t{number}",
    ]


def shared(number: int) -> list[str]:
    """Return the statement for a table with a function and a sequence that it does not own."""
    return [
        f"CREATE TABLE t{number} (id bigint DEFAULT nextval('all_ids'), n int DEFAULT f({number}))"
    ]


BEFORE = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE SEQUENCE all_ids",
    "CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql RETURN $1",
)
FUNCTION = BEFORE[-1]


@contextmanager
def statements(connection: Connection, path: Path) -> Iterator[list[str]]:
    """Yield a list that receives the session's statements when the block ends."""
    found: list[str] = []
    with path.open("w+b") as file:
        connection.pgconn.trace(file.fileno())
        connection.pgconn.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield found
        finally:
            connection.pgconn.untrace()
        file.seek(0)
        messages = re.split(r"^(?=[FB]\t\d+\t)", file.read().decode(), flags=re.MULTILINE)
        found += [each for each in messages if re.match(r"F\t\d+\t(Query|Parse)\t", each)]


class Plans:
    """Plans of the tables t0, t1, ..., and the queries they sent to the target."""

    def __init__(self, pair: Pair, tmp_path: Path) -> None:
        self.pair = pair
        self.path = tmp_path / "traced"
        self.plans: dict[str, PartitionPlan] = {}
        self.errors: dict[str, PenstockError] = {}
        self.url = pair.target.url
        self.role = ""
        self.elsewhere: dict[int, str] = {}

    def limit(self) -> None:
        """Make an otherwise unprivileged user the owner of the tables."""
        role = f"limited_{uuid.uuid4().hex[:8]}"
        self.pair.target.run(
            f"CREATE ROLE {role} LOGIN",
            f"GRANT CREATE ON SCHEMA public TO {role}",
            f"DO $$ DECLARE t record; BEGIN FOR t IN SELECT tablename FROM pg_tables"
            f" WHERE schemaname = 'public' LOOP"
            f" EXECUTE format('ALTER TABLE public.%I OWNER TO {role}', t.tablename);"
            f" END LOOP; END $$",
        )
        self.role = role
        self.url = psycopg.conninfo.make_conninfo(self.pair.target.url, user=role)

    def unlimit(self) -> None:
        self.pair.target.run(f"DROP OWNED BY {self.role} CASCADE", f"DROP ROLE {self.role}")

    def make(self, count: int, mode: str, **options: Any) -> list[str]:
        """Plan all tables in one go, and return the statements."""
        specs = [
            self.pair.spec(
                f"public.t{number}", mode=mode, target_table=self.elsewhere.get(number), **options
            )
            for number in range(count)
        ]
        ends = connect(self.pair.source.url, self.pair.target.url)
        siblings = Siblings(
            {spec.table_ref: spec.target_ref for spec in specs},
            frozenset(spec.target_ref for spec in specs if spec.load_mode.table is Table.RECREATED),
        )
        self.plans, self.errors = {}, {}
        with ExitStack() as stack:
            source = stack.enter_context(closing(PostgresSource(self.pair.source.url)))
            target = stack.enter_context(closing(PostgresTarget(self.url, "penstock")))
            queries = stack.enter_context(statements(target._connection, self.path))
            stack.enter_context(describing(source, [spec.relation for spec in specs]))
            stack.enter_context(describing(target, [spec.target_ref for spec in specs]))
            requests = [
                PlanRequest.of(
                    spec,
                    streams_of(1),
                    f"run-{spec.source_name}",
                    ends.capabilities,
                    siblings=siblings,
                )
                for spec in specs
            ]
            for spec, found in zip(specs, plan_tables(requests, source, target), strict=True):
                if isinstance(found.result, PenstockError):
                    self.errors[spec.source_name] = found.result
                else:
                    self.plans[spec.source_name] = found.result
        return queries


@pytest.fixture
def plans(pair: Pair, tmp_path: Path) -> Plans:
    return Plans(pair, tmp_path)


@pytest.mark.parametrize("make", [plain, checked, shared])
@pytest.mark.parametrize("exists", [False, True], ids=["new", "there"])
def test_recreating_many_tables_sends_as_many_queries_as_one(
    pair: Pair, plans: Plans, make: Make, exists: bool
) -> None:
    pair.source.run(*BEFORE)
    pair.target.run(FUNCTION)
    for number in range(50):
        pair.source.run(*make(number))
        if exists:
            pair.target.run(f"CREATE TABLE t{number} (id int, gone text UNIQUE)")
    one = plans.make(1, "recreate")
    assert len(plans.plans) == 1
    many = plans.make(50, "recreate")
    assert not plans.errors
    assert len(plans.plans) == 50
    assert one
    assert len(many) <= len(one) + 2, "\n".join(many)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "append"},
        {"mode": "truncate"},
        {"mode": "swap"},
        {"mode": "upsert"},
        {"mode": "truncate", "unlogged": True},
        {"mode": "append", "indexes": "defer"},
    ],
    ids=str,
)
def test_loading_many_tables_sends_as_many_queries_as_one(
    pair: Pair, plans: Plans, options: dict[str, Any]
) -> None:
    for number in range(50):
        pair.both(*plain(number))
    one = plans.make(1, **options)
    assert len(plans.plans) == 1
    many = plans.make(50, **options)
    assert not plans.errors
    assert len(plans.plans) == 50
    assert len(many) <= len(one) + 1, "\n".join(many)


def test_attaching_to_many_tables_sends_as_many_queries_as_one(pair: Pair, plans: Plans) -> None:
    """Apart from creating the children, to prove that they can be created."""
    for number in range(50):
        pair.source.run(
            f"CREATE TABLE t{number} (id int)",
            f"INSERT INTO t{number} SELECT generate_series(1, 9)",
        )
        pair.target.run(f"CREATE TABLE t{number} (id int) PARTITION BY RANGE (id)")
    options: dict[str, Any] = {"mode": "attach", "strategy": "range", "key": "id", "partitions": 1}
    one = plans.make(1, **options)
    assert len(plans.plans) == 1, plans.errors
    many = plans.make(50, **options)
    assert not plans.errors
    assert len(many) > 50
    questions = [_questions(queries) for queries in (one, many)]
    assert questions[0]
    assert len(questions[1]) <= len(questions[0]) + 1, "\n".join(questions[1])


def _questions(queries: Sequence[str]) -> list[str]:
    """Return the queries that are not about a table created for the rehearsal."""
    return [each for each in queries if "FROM pg_catalog." in each and "pg_temp." not in each]


def test_a_single_table_is_queried_once(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by `plan`: one rehearsal, and no query twice."""
    pair.source.run(*BEFORE, *checked(0))
    pair.target.run("CREATE TABLE t0 (id int)", FUNCTION)
    with ExitStack() as stack:
        found: list[list[str]] = []

        class Traced(PostgresTarget):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                tracing = statements(self._connection, tmp_path / "traced")
                found.append(stack.enter_context(tracing))

            def close(self) -> None:
                stack.close()
                super().close()

        monkeypatch.setattr("penstock.backends.postgresql.target.PostgresTarget", Traced)
        pair.plan("public.t0", mode="recreate")
    (queries,) = found
    assert sum(each.count("CREATE UNLOGGED TABLE") for each in queries) == 1
    questions = [each for each in queries if "FROM" in each]
    assert len(questions) > 5
    assert len(set(questions)) == len(questions), questions


CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {
    # Mode, statements for the bad table at the source and at the target, and parts of the message.
    "view of it": ("recreate", (), ("CREATE VIEW v AS SELECT * FROM t7",), "view public.v"),
    "no table": ("recreate", (), ("DROP TABLE t7", "CREATE VIEW t7 AS SELECT 1 AS x"), "a view"),
    "a part": (
        "recreate",
        (),
        (
            "DROP TABLE t7",
            "CREATE TABLE whole (id int) PARTITION BY RANGE (id)",
            "CREATE TABLE t7 PARTITION OF whole DEFAULT",
        ),
        "is a child table, and its parent would lose it",
    ),
    "owner": ("recreate", (), ("ALTER TABLE t7 OWNER TO somebody",), "does not own public.t7"),
    "function": (
        "recreate",
        (
            "CREATE FUNCTION g() RETURNS int LANGUAGE sql RETURN 1",
            "ALTER TABLE t7 ADD y int DEFAULT g()",
        ),
        (),
        r"function public.g\(\)",
    ),
    "type": (
        "recreate",
        ("CREATE TYPE hue AS ENUM ('red')", "ALTER TABLE t7 ADD h hue"),
        ("CREATE TYPE hue AS ENUM ('green')",),
        'type "public"."hue" differs',
    ),
    "row type": (
        "recreate",
        ("CREATE TABLE other (id int)", "ALTER TABLE t7 ADD o other"),
        (),
        "is the row type of public.other",
    ),
    "rehearsal": (
        "recreate",
        ("ALTER TABLE t7 ADD CHECK (id > 7)",),
        (
            """CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS c
                    WHERE c.object_identity LIKE 'public.t7%')
                THEN RAISE 'not this one'; END IF; END $$""",
            "CREATE EVENT TRIGGER refused ON ddl_command_end EXECUTE FUNCTION refuse()",
        ),
        "not this one",
    ),
    "sequence": (
        "recreate",
        (
            "CREATE SEQUENCE numbers",
            "ALTER TABLE t7 ADD z int DEFAULT nextval('numbers')",
        ),
        ("CREATE TABLE numbers (id int)",),
        "expected a sequence in the target, or nothing with that name",
    ),
    "privilege": ("append", (), ("ALTER TABLE t7 OWNER TO somebody",), "may not INSERT"),
    "row security": (
        "append",
        (),
        ("ALTER TABLE t7 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",),
        "row security on public.t7",
    ),
    "gone": ("swap", (), ("DROP TABLE t7",), "does not exist"),
    "referenced": (
        "truncate",
        (),
        (
            "ALTER TABLE t7 ADD UNIQUE (id)",
            "CREATE TABLE child (id int CONSTRAINT away REFERENCES t7 (id))",
        ),
        "away of public.child",
    ),
    "rules": ("swap", (), ("CREATE RULE r AS ON DELETE TO t7 DO NOTHING",), "has rules"),
    "dependent": ("swap", (), ("CREATE VIEW v AS SELECT id FROM t7",), "view public.v"),
    "no key": ("upsert", (), ("ALTER TABLE t7 DROP CONSTRAINT t7_pkey",), "primary key or unique"),
    "no update": (
        "upsert",
        (),
        ("ALTER TABLE t7 OWNER TO somebody", "GRANT SELECT, INSERT ON t7 TO PUBLIC"),
        r"may not UPDATE on public.t7",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_bad_table_fails_alone(pair: Pair, plans: Plans, case: str) -> None:
    mode, source, target, message = CASES[case]
    for number in range(10):
        pair.source.run(f"CREATE TABLE t{number} (id int NOT NULL)")
        key = " PRIMARY KEY" if mode == "upsert" else ""
        pair.target.run(f"CREATE TABLE t{number} (id int NOT NULL{key})")
    pair.target.run(
        "DO $$ BEGIN CREATE ROLE somebody; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    limited = case in ("owner", "privilege", "row security", "no update")
    if limited:
        plans.limit()
    pair.source.run(*source)
    pair.target.run(*target)
    plans.make(10, mode)
    assert list(plans.errors) == ["public.t7"], plans.errors
    assert re.search(message, plans.errors["public.t7"].message)
    assert len(plans.plans) == 9
    if limited:
        plans.unlimit()


def test_an_unusable_schema_does_not_affect_other_tables(pair: Pair, plans: Plans) -> None:
    """The server refuses any lookup in it, together with the other tables' lookups."""
    for number in range(10):
        pair.both(f"CREATE TABLE t{number} (id int)")
    pair.target.run("CREATE SCHEMA hidden", "CREATE TABLE hidden.t (id int)")
    plans.limit()
    plans.elsewhere = {3: "hidden.t", 6: "hidden.absent"}
    plans.make(10, "append")
    plans.unlimit()
    assert list(plans.errors) == ["public.t3", "public.t6"]
    assert all("permission denied for schema" in e.message for e in plans.errors.values())


def test_a_view_created_after_planning_is_noticed_when_the_run_is_prepared(
    pair: Pair,
) -> None:
    """Planning may read the facts of all tables long before one of them is recreated."""
    pair.both("CREATE TABLE t (id int)")
    created = create(pair.spec(mode="recreate"))
    pair.target.run("CREATE VIEW v AS SELECT id FROM t")
    with pytest.raises(PenstockError, match="depend"):
        list(resume(created.run.run_id, source=pair.source.url, target=pair.target.url))
    assert pair.target.count() == 0
