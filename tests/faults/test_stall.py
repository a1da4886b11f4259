"""A network that falls silent: no bytes arrive, and the connection does not end."""

from __future__ import annotations

import pytest

from penstock.events import Committed, Failed, Opened

from .gate import Gate
from .pair import FLOWS, PARTITIONS, Pair, Side, middle, needle, partition_id

STRUCK = 3
# A server on a busy machine answers within this time.
STALL = "5s"


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_stalled_stream_is_retried(pair: Pair, side: Side) -> None:
    proxy = pair.proxy(side)
    proxy.on_bytes(needle(middle(STRUCK)), FLOWS[side], proxy.freeze)
    run = pair.copy("--stall-timeout", STALL, degree=1)
    failed = run.wait_for(Failed)
    proxy.thaw()
    run.ended(0)
    assert failed.partition_id == partition_id(STRUCK)
    assert failed.error["error"] == "StallError"
    assert failed.error["message"].startswith(side)
    assert "5 s" in failed.error["message"]
    assert run.of(Failed) == [failed]
    assert len(run.of(Opened)) == PARTITIONS + 1
    pair.check_resumes()


@pytest.mark.usefixtures("both_paths")
def test_one_stream_stalls_while_another_continues(pair: Pair) -> None:
    gate = Gate(pair.proxy("target"), needle(middle(STRUCK)), "to_server")
    run = pair.copy("--stall-timeout", STALL, "--grace", "1s")
    failed = run.wait_for(Failed)
    # The server has not noticed yet that its client is gone.
    run.wait_for(Committed, partition_id=partition_id(STRUCK), attempt=2)
    gate.open()
    run.ended(0)
    assert (failed.partition_id, failed.error["error"]) == (partition_id(STRUCK), "StallError")
    assert run.of(Failed) == [failed]
    pair.check_resumes()


@pytest.mark.parametrize("moment", [b"INSERT INTO", b"SET rows =", b"COMMIT\0"])
def test_a_stall_outside_the_stream_is_noticed(pair: Pair, moment: bytes) -> None:
    proxy = pair.proxy("target")
    gate = pair.gate(middle(STRUCK), lambda: proxy.on_bytes(moment, "to_server", proxy.freeze))
    gate.open()
    run = pair.copy("--stall-timeout", STALL, degree=1)
    failed = run.wait_for(Failed)
    proxy.thaw()
    run.ended(0)
    assert failed.error["error"] == "StallError"
    assert failed.error["message"] == "target: no answer for 5 s"
    pair.check_resumes()
