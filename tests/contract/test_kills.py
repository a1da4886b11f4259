"""A process killed before and after each hook: `resume` ends the run with each row once."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock import MODES, create
from penstock.backends.api.capabilities import ROLL_FORWARD, STAGED, TRANSACTIONAL
from penstock.backends.api.execution.attempt import (
    StagedHooks,
    StagedTransaction,
    TransactionalHooks,
)
from penstock.backends.api.execution.roll_forward import RollForwardHooks
from penstock.errors import PenstockError
from penstock.spec.modes import RECREATE, SWAP, Entry, Mode, mode_of

from ..cli import run_cli
from .copying import Pair
from .database import SqlDatabase

FOLDER = "PENSTOCK_KILLING"
CUT = {"strategy": "ntile", "key": "id"}
# Otherwise Penstock would wait a long time to find out whether the source was written to.
LATER = {"on_snapshot_lost": "accept"}
HOOKS: dict[str, Sequence[type]] = {
    TRANSACTIONAL: (TransactionalHooks,),
    STAGED: (StagedHooks, StagedTransaction),
    ROLL_FORWARD: (RollForwardHooks,),
}
# Not called by an attempt that is alone and commits.
ELSEWHERE = {"abandon", "claim", "disconnect", "end_older", "interrupt", "switch_run"}
MERGE = mode_of({"mode": "upsert", "atomic": "table"})
OF_REPLACE = {"delete", "count_selected", "delete_other_rows"}
# Calls that only read change no state.
LOOKING = {
    *("check", "find", "history", "in_effect", "in_series", "is_intact", "latest", "load", "of"),
    *("done", "outlook", "running_attempts", "storages"),
}


class Killing:
    """The folder that controls which processes are killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def forget(self) -> None:
        (self._folder / "passed").unlink(missing_ok=True)

    def passed(self) -> list[str]:
        """Return the moments passed, each once, in order."""
        lines = (self._folder / "passed").read_text(encoding="ascii").splitlines()
        return list(dict.fromkeys(lines))

    def count(self, moment: str) -> int:
        """Return how often a moment has passed."""
        return (self._folder / "passed").read_text(encoding="ascii").splitlines().count(moment)

    def leave_unchanged(self) -> None:
        """Leave attempts as they are, so that those at small partitions call fewer hooks."""
        (self._folder / "unchanged").touch()

    def at(self, moment: str, partition_id: str = "") -> None:
        (self._folder / f"{partition_id} {moment}".strip()).touch()

    def pending(self) -> list[str]:
        """Return the moments at which no process has died yet."""
        names = {path.name for path in self._folder.iterdir()} - {"passed"}
        return sorted(name for name in names if not name.endswith(", died"))


@pytest.fixture
def killing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killing:
    folder = tmp_path / "killing"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    return Killing(folder)


@pytest.fixture
def dying(pair: Pair) -> Pair:
    """Return a pair whose processes the fixture `killing` kills."""
    return replace(pair, prefix="dying+")


@pytest.mark.parametrize("mode", ["replace", "upsert", "attach"])
def test_a_worker_killed_at_each_hook(dying: Pair, killing: Killing, mode: str) -> None:
    """Mode `replace` calls every hook, except those of modes that load apart.

    If the backend lacks it, the test uses `truncate`.
    """
    target = dying.theirs.backend.target_capabilities
    if mode == "replace" and MODES[mode] not in target.modes:
        mode = "truncate"
    if MODES[mode] not in target.modes:
        pytest.skip("the backend has no such mode")
    dying.make(key="id" if mode == "upsert" else "")
    if mode == "attach":
        _partition(dying)
    options: dict[str, Any] = {"mode": mode, **CUT}
    dying.copy(run_id="watched", partitions=1, **options)
    moments = [each for each in killing.passed() if is_of_attempt(each)]
    _check_hooks(moments, target.commits, MODES[mode])
    # Between two hooks, nothing persistent happens.
    chosen = [each for each in moments if each.endswith("before")] + [moments[-1]]
    if MODES[mode].entry.loads_apart:
        chosen = [each for each in moments if ".merge " in each or ".open_stream after" in each]
    if mode == "attach":  # the first run's children would conflict with other bounds
        _partition(dying)

    # As many partitions as moments, so that each partition's first attempt dies at its own moment.
    spec = dying.spec(run_id="r", partitions=len(chosen), **options)
    ids = [partition.id for partition in create(spec).run.plan.partitions]
    assert len(ids) >= len(chosen)
    for partition_id, moment in zip(ids, chosen, strict=False):
        killing.at(moment, partition_id)
    # One by one, because checking a dead attempt's partition may publish another's commit.
    with pytest.raises(PenstockError):
        dying.resume("r", attempts=1, on_error="continue", degree=1, **LATER)
    assert killing.pending() == []
    finished = dying.resume("r", **LATER)
    assert finished.status == "done"
    dying.check()


def test_a_lone_attempt_locks_its_partition_once(dying: Pair, killing: Killing) -> None:
    """An attempt that finds its own lock would wait for itself."""
    if dying.theirs.backend.target_capabilities.commits != STAGED:
        pytest.skip("other ways of committing have no such hook")
    dying.make()
    killing.leave_unchanged()
    finished = dying.copy(mode="append", partitions=3, **CUT)
    assert killing.count("hooks.lock before") == finished.partitions


def _partition(pair: Pair) -> None:
    """Recreate the target's table as partitioned, without rows and children."""
    target = pair.theirs
    assert isinstance(target, SqlDatabase)
    target.execute(
        f"CREATE TABLE parted (LIKE {target.table}) PARTITION BY RANGE (id);"
        f"DROP TABLE {target.table}; ALTER TABLE parted RENAME TO {target.table.split('.')[-1]}"
    )


def is_of_attempt(moment: str) -> bool:
    """Whether a lone attempt passes the moment, up to right after its commit."""
    part, *_, call = moment.split(maxsplit=1)[0].split(".")
    return part not in ("control", "reader") and call not in ELSEWHERE


def _check_hooks(moments: Sequence[str], commits: str, mode: Mode) -> None:
    """Check that the moments include every hook up to the commit that the mode calls."""
    called = {moment.split()[0].rpartition(".")[2] for moment in moments}
    for protocol in HOOKS[commits]:
        for hook in vars(protocol):
            if not hook.startswith("_") and hook not in ELSEWHERE:
                expected = mode.entry is Entry.REPLACE or hook not in OF_REPLACE
                if hook == "merge":
                    expected = mode.entry.loads_apart
                if mode.entry is Entry.BY_KEY and hook == "insert":
                    expected = False  # `merge` inserts the rows
                assert (hook in called) == expected, hook


@pytest.mark.parametrize("mode", [SWAP, RECREATE, MERGE], ids=["swap", "recreate", "merge"])
def test_a_supervisor_killed_at_each_call_of_the_control_store(
    dying: Pair, killing: Killing, mode: Mode
) -> None:
    """Mode `swap`, if supported, has steps before the first partition and after the last.

    So have `recreate` of an existing table, and an upsert that merges all rows at the end.
    """
    modes = dying.theirs.backend.target_capabilities.modes
    if mode is MERGE and MERGE not in modes:
        pytest.skip("the target merges no rows at the end")
    dying.make(key="id" if mode is MERGE else "")
    options = {"mode": mode.name if mode in modes else "truncate", "strategy": "whole"}
    if mode is MERGE:
        options["atomic"] = "table"
    dying.copy(run_id="watched", where="id < 100", **options)
    calls = {moment.split()[0] for moment in killing.passed() if moment.startswith("control.")}
    changing = {call for call in calls if call.rpartition(".")[2] not in LOOKING}
    # An execution that finds everything done writes no journal, and leaves old stages to the next
    # night.
    changing -= {"control.journals.put", "control.nights.drop_overtaken"}
    assert {
        "control.runs.create",
        "control.generations.prepare",
        "control.runs.set_statuses",
    } <= changing
    for call in changing:
        killing.at(f"{call} after")
    words = [*dying.words, *(f"--{name}={value}" for name, value in options.items())]
    while pending := killing.pending():
        assert _exit_code(words) == -signal.SIGKILL
        assert len(killing.pending()) == len(pending) - 1
    assert _exit_code(words) == 0
    dying.check()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_supervisor_killed_as_it_writes_its_journal(
    dying: Pair, killing: Killing, moment: str
) -> None:
    """It writes the journal at its end, and also earlier if the copy takes a long time."""
    dying.make()
    killing.at(f"control.journals.put {moment}")
    words = [*dying.words, "--strategy=whole", "--mode=truncate"]
    assert _exit_code(words) == -signal.SIGKILL
    assert killing.pending() == []
    assert _exit_code(words) == 0
    dying.check()


def _exit_code(words: Sequence[str]) -> int:
    """Return the exit code of a process that begins or continues a run."""
    return run_cli("copy", *words, "--run-id=r", "--on-snapshot-lost=accept").returncode


def test_a_worker_killed_in_mid_stream(dying: Pair, killing: Killing) -> None:
    dying.make()
    spec = dying.spec(run_id="r", partitions=3, **CUT)
    partition = create(spec).run.plan.partitions[1]
    killing.at("reader.read before the end", partition.id)
    finished = dying.resume("r", **LATER)
    assert finished.status == "done"
    assert killing.pending() == []
    dying.check()
