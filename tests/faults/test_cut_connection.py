"""Connections cut in mid-stream between worker and server."""

from __future__ import annotations

import pytest

from penstock.events import Failed, Opened, SnapshotChanged

from .gate import cut_this_connection
from .pair import FLOWS, PARTITIONS, Pair, Side, middle, needle, partition_id

STRUCK = 3


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("strategy", ["ctid", "range"])
def test_a_cut_stream_is_retried(pair: Pair, side: Side, strategy: str) -> None:
    pair.proxy(side).on_bytes(needle(middle(STRUCK)), FLOWS[side], cut_this_connection)
    run = pair.copy(strategy=strategy)
    run.ended(0)
    (failed,) = run.of(Failed)
    assert failed.partition_id == partition_id(STRUCK)
    assert failed.error["transient"]
    assert failed.error["side"] == side
    assert len(run.of(Opened)) == PARTITIONS + 1
    pair.check_resumes()


@pytest.mark.usefixtures("both_paths")
def test_a_stream_cut_at_both_ends_is_retried(pair: Pair) -> None:
    target = pair.proxy("target")
    target.on_bytes(needle(middle(STRUCK)), "to_server", cut_this_connection)
    pair.proxy("source").on_bytes(needle(middle(STRUCK) + 1), "to_client", cut_this_connection)
    run = pair.copy()
    run.ended(0)
    assert {failed.partition_id for failed in run.of(Failed)} == {partition_id(STRUCK)}
    pair.check_resumes()


def test_a_run_survives_the_loss_of_all_connections_to_the_target(pair: Pair) -> None:
    proxy = pair.proxy("target")
    gates = pair.gates(3, 4)
    run = pair.copy()
    for gate in gates:
        gate.reached()
    assert proxy.cut() == 3  # two workers', and the run's own
    for gate in gates:
        gate.open()
    run.ended(0)
    assert len(run.of(Failed)) == 2
    pair.check_resumes()


@pytest.mark.parametrize("sides", [("source",), ("source", "target")])
def test_cutting_all_connections_to_the_source_loses_the_snapshot(
    pair: Pair, sides: tuple[Side, ...]
) -> None:
    for side in sides:
        pair.proxy(side)
    pair.gate(middle(STRUCK), lambda: [proxy.cut() for proxy in pair.proxies.values()]).open()
    run = pair.copy()
    run.ended(65)
    assert [event.state for event in run.of(SnapshotChanged)] == ["taken", "lost"]
    assert pair.status().run.status == "failed"
    resumed = pair.check_resumes()
    assert [event.state for event in resumed.of(SnapshotChanged)] == ["renewed"]
    assert resumed.finished.snapshots == 1, "all rows are as of the first one's moment"


def test_cutting_all_connections_to_the_source_is_harmless_without_a_snapshot(pair: Pair) -> None:
    pair.gate(middle(STRUCK), lambda: pair.proxy("source").cut()).open()
    run = pair.copy("--snapshot", "none", strategy="range")
    run.ended(0)
    assert run.of(Failed)
    pair.check_resumes()


@pytest.mark.parametrize("cut_at", [b"ROLLBACK", b"SHARE MODE\x00"])
def test_a_connection_cut_while_the_snapshot_waits_for_locks_fails_the_run(
    pair: Pair, cut_at: bytes
) -> None:
    """Another session has just locked the table, so it cannot be locked at once."""
    proxy, other = pair.proxy("source"), pair.connect("source")

    def lock() -> None:
        other.execute("BEGIN; LOCK TABLE item")
        proxy.on_bytes(cut_at, "to_server", cut_this_connection)

    proxy.on_bytes(b"NOWAIT", "to_server", lock)
    run = pair.copy()
    run.ended(75)
    assert "source" in run.errors
    other.execute("ROLLBACK")
    pair.copy().ended(0)
    pair.check_done()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_server_may_be_unreachable_for_a_while(pair: Pair, side: Side) -> None:
    proxy = pair.proxy(side)

    def vanish() -> None:
        proxy.refuse()
        proxy.cut()

    gate = pair.gate(middle(STRUCK), vanish)
    gate.open()
    run = pair.copy("--snapshot", "none", strategy="range")
    run.wait_for(Failed, partition_id=partition_id(STRUCK), attempt=2)
    proxy.refuse(False)
    run.ended(0)
    pair.check_resumes()
