"""A server with fewer connections than streams: the degree drops, and the run completes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from penstock.events import DegreeChanged, Retrying

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
