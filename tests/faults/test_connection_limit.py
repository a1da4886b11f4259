"""A server with fewer connections than streams: the degree drops, and the run completes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from penstock.events import DegreeChanged, Failed, Retrying, Warned

from .cli import PATIENCE, eventually
from .pair import PARTITIONS, Pair, Side, execute

LIMIT = 3


@pytest.fixture(params=["source", "target"])
def limited(pair: Pair, request: pytest.FixtureRequest) -> Iterator[Side]:
    """Return the side whose user may open only three connections."""
    side: Side = request.param
    url = pair.url(side)
    name = f"limited_{uuid.uuid4().hex[:8]}"
    execute(
        url,
        f"CREATE ROLE {name} LOGIN PASSWORD 'secret' CONNECTION LIMIT {LIMIT}",
        f"GRANT SELECT, INSERT ON item TO {name}",
        "DO $$ BEGIN EXECUTE format("
        f"'GRANT CREATE ON DATABASE %I TO {name}', current_database()); END $$",
    )
    pair.users[side] = f"{name}:secret"
    yield side
    execute(url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_the_degree_drops_to_the_available_connections(pair: Pair, limited: Side) -> None:
    # No stream ends before the fourth has been rejected.
    gates = pair.gates(1, 2)
    run = pair.copy(degree=4)
    lowered = run.wait_for(DegreeChanged, count=2)
    for gate in gates:
        gate.open()
    run.ended(0)
    # The run itself needs one connection: for its snapshot in the source, for its records in the
    # target.
    assert [event.degree for event in run.of(DegreeChanged)] == [3, 2]
    assert lowered.message.startswith(f"{limited}: ")
    assert "too many connections" in lowered.message
    assert run.finished.degree == 2
    assert not run.of(Retrying)
    assert len(pair.attempts()) == PARTITIONS
    pair.check_resumes()


@pytest.mark.parametrize("limited", ["target"], indirect=True)
def test_a_single_stream_retries_until_a_connection_is_free(pair: Pair, limited: Side) -> None:
    connections = [pair.connect(limited) for _ in range(LIMIT - 1)]
    gates = pair.gates(1)
    run = pair.copy(degree=1)
    run.wait_for(Retrying)
    for connection in connections:
        connection.close()
    for gate in gates:
        gate.open()
    run.ended(0)
    pair.check_resumes()


def test_the_automatic_degree_keeps_to_the_available_connections(pair: Pair, limited: Side) -> None:
    connection = pair.connect(limited)
    gates = pair.gates(1)
    run = pair.copy(degree="auto")
    run.wait_for(DegreeChanged)
    for gate in gates:
        gate.open()
    run.ended(0)
    connection.close()
    lowered = run.of(DegreeChanged)
    assert {event.cause for event in lowered} == {"connections"}
    assert lowered[-1].degree == run.finished.degree == 1
    pair.check_resumes()


PLAN = ("--table", "public.item", "--strategy", "ctid", "--partitions", str(PARTITIONS))


def test_a_process_of_work_begins_once_a_connection_is_free(pair: Pair, limited: Side) -> None:
    connections = [pair.connect(limited) for _ in range(LIMIT)]
    run = pair.work(*PLAN)
    waits = run.wait_for(Warned)
    assert waits.message.startswith(f"{limited}: ")
    assert waits.message.endswith("waiting up to 300 s for a connection")
    for connection in connections:
        connection.close()
    run.ended(0)
    assert len(run.of(Warned)) == 1
    pair.check_done()


def test_a_process_of_work_takes_nothing_while_others_have_the_connections(
    pair: Pair, limited: Side
) -> None:
    gates = pair.gates(1)
    first = pair.work(*PLAN, streams=1)
    gates[0].reached()
    second = pair.work("--wait", "60s", streams=1)

    def is_refused() -> bool:
        # A connection for its beginning may be left, but none for a stream.
        refused = second.of(Failed)
        assert {each.error["error"] for each in refused} <= {"TooManyConnections"}
        return bool(refused or second.of(Warned))

    eventually("the second process is refused", is_refused, PATIENCE)
    for gate in gates:
        gate.open()
    for run in (first, second):
        run.ended(0)
    assert not second.of(Retrying)
    pair.check_done()
