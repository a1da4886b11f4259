"""What planning asks of the target: as much for many tables as for one, and one bad one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from penstock import CopySpec, PartitionPlan, PlanningError
from penstock.backends.api.described import describing
from penstock.backends.api.facts import LoadRequest, Siblings
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.model.plans import LoadPlan
from penstock.model.tables import TableRef
from penstock.planning.build import build_plan, expect_tables
from penstock.run.connections import connect
from penstock.spec.modes import MODES
from penstock.workers.degree import streams_of

from ..conftest import Pair

Make = Callable[[int], Sequence[str]]


def plain(number: int) -> list[str]:
    return [
        f"CREATE TABLE t{number} (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),"
        f" name varchar({number + 5}), amount numeric(9,2))",
        f"CREATE INDEX ON t{number} (name, at DESC)",
    ]


def checked(number: int) -> list[str]:
    """What has to be tried."""
    return [
        f"CREATE TABLE t{number} (id int GENERATED ALWAYS AS IDENTITY, mood mood, n int,"
        f" CHECK (n > {number}), twice int GENERATED ALWAYS AS (n * 2) STORED)",
        f"CREATE UNIQUE INDEX ON t{number} (abs(n)) WHERE n > 1",
        f"CREATE STATISTICS s{number} ON n, mood FROM t{number}",
    ]


def shared(number: int) -> list[str]:
    """With a sequence that none of them owns, and a function."""
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
def statements(connection: psycopg.Connection[tuple[object, ...]], path: Path) -> Iterator[list[str]]:
    """The statements that the session has put to its server, when it is over."""
    found: list[str] = []
    with path.open("w+b") as file:
        connection.pgconn.trace(file.fileno())
        connection.pgconn.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield found
        finally:
            connection.pgconn.untrace()
        file.seek(0)
        for line in file.read().decode().splitlines():
            if line.startswith(("F\t", "F ")) and line.split("\t")[2:3] in (["Query"], ["Parse"]):
                found.append(line)


class Plans:
    """Plans of the tables t0, t1, ... and what they have asked of the target."""

    def __init__(self, pair: Pair, tmp_path: Path) -> None:
        self.pair = pair
        self.path = tmp_path / "traced"
        self.plans: dict[str, PartitionPlan] = {}
        self.errors: dict[str, PlanningError] = {}

    def make(self, count: int, mode: str) -> list[str]:
        """Plan them in one go. Returns the statements."""
        specs = [self.pair.spec(f"public.t{number}", mode=mode) for number in range(count)]
        ends = connect(self.pair.source.url, self.pair.target.url)
        siblings = Siblings(
            {spec.table_ref: spec.target_ref for spec in specs},
            frozenset(spec.target_ref for spec in specs if spec.load_mode.recreates),
        )
        self.plans, self.errors = {}, {}
        with ExitStack() as stack:
            source = stack.enter_context(closing(PostgresSource(self.pair.source.url)))
            target = stack.enter_context(closing(PostgresTarget(self.pair.target.url, "penstock")))
            asked = stack.enter_context(statements(target._connection, self.path))
            stack.enter_context(describing(source, [spec.relation for spec in specs]))
            stack.enter_context(describing(target, [spec.target_ref for spec in specs]))
            expect_tables(specs, source, target)
            for spec in specs:
                try:
                    self.plans[spec.source_name] = build_plan(
                        spec,
                        streams_of(1),
                        f"run-{spec.source_name}",
                        source,
                        target,
                        ends.capabilities,
                        siblings=siblings,
                    )
                except PlanningError as error:
                    self.errors[spec.source_name] = error
        return asked


@pytest.fixture
def plans(pair: Pair, tmp_path: Path) -> Plans:
    return Plans(pair, tmp_path)


@pytest.mark.parametrize("make", [plain, checked, shared])
@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_recreating_many_asks_what_one_does(
    pair: Pair, plans: Plans, make: Make, there: bool
) -> None:
    pair.source.run(*BEFORE)
    pair.target.run(FUNCTION)
    for number in range(50):
        pair.source.run(*make(number))
        if there:
            pair.target.run(f"CREATE TABLE t{number} (id int, gone text UNIQUE)")
    one = plans.make(1, "recreate")
    assert len(plans.plans) == 1
    many = plans.make(50, "recreate")
    assert not plans.errors
    assert len(plans.plans) == 50
    assert one
    assert len(many) <= len(one) + 2, "\n".join(many)


@pytest.mark.parametrize("mode", ["append", "truncate", "swap"])
def test_loading_many_asks_what_one_does(pair: Pair, plans: Plans, mode: str) -> None:
    """But for what the control store is asked of each."""
    pair.both(*BEFORE)
    for number in range(50):
        pair.both(*plain(number))
    one = plans.make(1, mode)
    assert len(plans.plans) == 1
    many = plans.make(50, mode)
    assert not plans.errors
    of_control = [line for line in many if "step_record" in line or "penstock" in line]
    assert len(many) - len(of_control) <= len(one) + 2, "\n".join(many)
