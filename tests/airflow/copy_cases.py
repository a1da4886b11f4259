"""What a copy must do with any executor."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from penstock_testkit.airflow import AirflowStack, Run, until

from .lines import (
    DAGS,
    PARTITIONS,
    PATIENCE,
    PROMISED,
    SLOWER,
    VARIANTS,
    Lines,
    check_gone,
    family,
    partition_id,
    tries,
)


def prepare(stack: AirflowStack) -> None:
    """Give a new stack the DAGs of these cases."""
    stack.add_dag(DAGS, f"lines_{VARIANTS[0]}")
    for name in VARIANTS[1:]:
        stack.unpause(f"lines_{name}")


def held(lines: Lines, run: Run, index: int) -> list[psutil.Process]:
    """The processes of a mapped task that stands at a gate, which are as they should be."""
    task, children = run.process("lines.copy", index), family(run, index)
    for child in children:
        # So that Airflow's signals reach them whoever forgets to.
        assert os.getpgid(child.pid) == os.getpgid(task.pid)
    # A task's stdin is the socket of its supervisor: who reads from it steals answers.
    sockets = {_descriptors(task)[0]}
    assert "socket" in "".join(sockets)
    for child in children:
        assert not sockets & set(_descriptors(child).values())
    return children


def _descriptors(process: psutil.Process) -> dict[int, str]:
    folder = Path(f"/proc/{process.pid}/fd")
    return {int(entry.name): os.readlink(entry) for entry in folder.iterdir()}


def plain_run(lines: Lines) -> None:
    run = lines.run("truncate")
    lines.check_done(run)
    copies = run.mapped("lines.copy")
    assert [task.state for task in copies] == ["success"] * PARTITIONS
    assert tries(run) == {}
    assert [task.rendered_map_index for task in copies] == [
        entry["label"] for entry in run.xcom("lines.plan")
    ]
    verify = run.log("lines.verify")
    assert "the run's report" in verify
    assert "600,572" in verify or "600572" in verify
    for task in run.tasks():
        assert "error" not in _levels(run.log(task.task_id, task.map_index))


def _levels(log: str) -> set[str]:
    return {word for line in log.splitlines() for word in line.split()[:3] if word == "error"}


def killed_in_mid_copy(lines: Lines) -> None:
    gate = lines.gate(5)
    run = lines.run("truncate")
    gate.reached()
    children = held(lines, run, gate.index)
    run.process("lines.copy", gate.index).kill()
    # Nobody has told the children: they see that the task is gone.
    check_gone(children)
    gate.open()
    lines.check_done(run)
    assert tries(run) == {gate.index: 2}
    assert run.tries("lines.copy", gate.index)[0].state == "failed"


def marked_failed_in_mid_copy(lines: Lines) -> None:
    gate = lines.gate(5)
    run = lines.run("truncate")
    gate.reached()
    task, children = run.process("lines.copy", gate.index), held(lines, run, gate.index)
    run.mark("lines.copy", gate.index, state="failed")
    check_gone([*children, task])
    lines.check_no_backend(f":{partition_id(gate.partition)}:")
    # What else there is to copy is copied, and the run fails, since one part is not there.
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    states = [task.state for task in run.mapped("lines.copy")]
    assert states == ["failed" if n == gate.index else "success" for n in range(PARTITIONS)]
    assert "the task was told to end" in run.log("lines.copy", gate.index)
    assert run.task("lines.verify").state == "upstream_failed"
    assert len(lines.records(run)) == PARTITIONS - 1
    lines.check_no_backend()

    gate.open()
    before = lines.records(run)
    run.clear(("lines.copy", gate.index), "lines.verify")
    run.wait_for("lines.copy", gate.index, ["success"], try_number=2)
    lines.check_done(run)
    after = lines.records(run)
    assert {name for name in after if after[name] != before.get(name)} == {
        partition_id(gate.partition)
    }


def cleared_after_success(lines: Lines) -> None:
    run = lines.run("replace")
    lines.check_done(run)
    before = lines.records(run)
    clear_copy(run, 3)
    lines.check_done(run)
    after = lines.records(run)
    assert changed(before, after) == {partition_id(4)}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Partitions that were committed again."""
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def clear_copy(run: Run, index: int) -> str:
    """Clear one mapped task that was successful, wait until it is again, and return its log."""
    number = run.task("lines.copy", index).try_number + 1
    run.clear(("lines.copy", index))
    run.wait_for("lines.copy", index, ["success"], try_number=number)
    run.succeeded()
    return run.log("lines.copy", index)


def killed_after_commit(lines: Lines) -> None:
    gate = lines.gate(5)
    proxy = lines.proxy("target")
    run = lines.run("truncate")
    gate.reached()
    committed = partition_id(gate.partition)
    killed = run.process("lines.copy", gate.index)

    def strike() -> None:
        # Of this partition it is known only now, and only to the server.
        if committed in lines.records(run) and killed.is_running():
            killed.kill()

    proxy.on_bytes(b"COMMIT\0", "to_client", strike, once=False)
    gate.open()
    run.wait_for("lines.copy", gate.index, ["success"], try_number=2)
    proxy.watches.clear()
    lines.check_done(run)
    assert tries(run) == {gate.index: 2}
    assert "committed before; nothing was copied" in run.log("lines.copy", gate.index)


def timed_out_in_mid_copy(lines: Lines) -> None:
    gate = lines.gate(3, partitions=4)
    run = lines.run("limited")
    gate.reached()
    task, children = run.process("lines.copy", gate.index), held(lines, run, gate.index)
    until(lambda: None if task.is_running() else True, PATIENCE, lambda: f"{task} goes on")
    check_gone(children, within=PROMISED * SLOWER)
    gate.open()
    lines.check_done(run, partitions=4)
    assert run.tries("lines.copy", gate.index)[0].state == "failed"
    assert "AirflowTaskTimeout" in run.log("lines.copy", gate.index, try_number=1)
