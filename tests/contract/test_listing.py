"""The list of runs, with the details that each kind of target stores about them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from penstock import RunEntry, UsageError, create, runs, status

from ..cli import run_cli, run_script
from .copying import ROWS, Pair
from .test_reports import COUNT, CUT, DYING, LATER


def listed(pair: Pair, **filters: object) -> dict[str, RunEntry]:
    found = runs(target=pair.ends["target"], **filters)  # type: ignore[arg-type]
    return {entry.run_id: entry for entry in found}


def test_a_target_without_runs_lists_none(pair: Pair) -> None:
    assert listed(pair) == {}
    done = run_cli("runs", "--target", pair.ends["target"])
    assert (done.returncode, done.stdout.strip()) == (0, "no runs"), done.stderr


def test_done_and_unstarted_runs_are_listed(pair: Pair) -> None:
    pair.make()
    pair.copy(run_id="first", mode="truncate", **CUT)
    create(pair.spec(run_id="second", mode="append"))
    found = listed(pair)
    assert [*found] == ["second", "first"], "the newest first"
    first, second = found["first"], found["second"]
    assert (first.status, first.at_work, first.mode) == ("done", False, "truncate")
    assert (first.partitions, first.committed, first.rows) == (COUNT, COUNT, len(ROWS.rows))
    assert first.seconds is not None
    assert first.seconds > 0
    assert first.finished_at is not None
    assert (second.status, second.committed, second.rows) == ("created", 0, 0)
    assert second.finished_at is None
    assert [*listed(pair, limit=1)] == ["second"]
    assert [*listed(pair, status=["done"])] == ["first"]
    assert [*listed(pair, since="1h")] == ["second", "first"]
    assert listed(pair, since="2999-01-01") == {}
    assert listed(pair, table="nothing*") == {}
    assert listed(pair, batch="first") == {}
    for wrong in ({"since": "yesterday"}, {"status": ["well"]}, {"limit": 0}):
        with pytest.raises(UsageError, match="--"):
            listed(pair, **wrong)
    done = run_cli("runs", "--target", pair.ends["target"], "--json")
    assert [entry["run_id"] for entry in json.loads(done.stdout)] == ["second", "first"]
    assert "second" in run_cli("runs", "--target", pair.ends["target"], "--limit", "1").stdout


def test_a_killed_run_is_listed(pair: Pair) -> None:
    pair.make()
    stored = {**pair.spec(run_id="r", mode="truncate", **CUT).stored(), **pair.ends}
    options = {name: value for name, value in stored.items() if value is not None}
    assert run_script(DYING, repr(options)) == -signal.SIGKILL
    seen = pair.theirs.sees_executions
    (entry,) = listed(pair).values()
    assert (entry.status, entry.at_work) == (("killed", False) if seen else ("running", None))
    assert status("r", target=pair.ends["target"]).at_work is entry.at_work
    shown = run_cli("status", "r", "--target", pair.ends["target"]).stdout
    assert ("penstock resume" in shown) is seen
    assert [*listed(pair, status=[entry.status])] == ["r"]
    pair.resume("r", **LATER)
    assert listed(pair)["r"].status == "done"


def test_a_running_run_is_listed(pair: Pair) -> None:
    if not pair.theirs.sees_executions:
        pytest.skip("nobody can tell")
    pair.make()
    create(pair.spec(run_id="r", mode="truncate", **CUT))
    script = (
        "import sys; from penstock import Committed, resume\n"
        "for event in resume('r', **eval(sys.argv[1])):\n"
        "    if isinstance(event, Committed):\n"
        "        print('begun', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, repr({**pair.ends, **LATER})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        (entry,) = listed(pair).values()
        process.communicate("", timeout=120)
    assert (entry.status, entry.at_work) == ("running", True)
    assert listed(pair)["r"].status == "done"
