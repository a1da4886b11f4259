"""The requirements on a copy with any executor."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

from penstock_airflow.runs.results import taken_text
from penstock_testkit.airflow import AirflowStack, Run, TaskInstance, until

from .lines import (
    DAGS,
    DEGREE,
    FEW,
    PACK,
    PARTITIONS,
    PATIENCE,
    VARIANTS,
    Lines,
    at_gate,
    check_ended,
    family,
    partition_id,
    tries,
)


def prepare(stack: AirflowStack) -> None:
    """Add the DAGs of these cases to a new stack."""
    stack.add_dag(DAGS, f"lines_{VARIANTS[0]}")
    for name in VARIANTS[1:]:
        stack.unpause(f"lines_{name}")


def processes_at_gate(run: Run, index: int) -> list[psutil.Process]:
    """Return the processes of a mapped task at a gate, after checking them."""
    task, children = run.process("lines.copy", index), family(run, index)
    # A task's stdin is its supervisor's socket, and any other reader would take its answers.
    stdin = _descriptors(task)[0]
    assert stdin.startswith("socket")
    for child in children:
        assert stdin not in _descriptors(child).values()
        # Airflow's signals reach it, even if another process forgets to pass them on.
        assert os.getpgid(child.pid) == os.getpgid(task.pid)
    return children


def _descriptors(process: psutil.Process) -> dict[int, str]:
    found: dict[int, str] = {}
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        # Its threads may open or close some at any time.
        with contextlib.suppress(FileNotFoundError):
            found[int(entry.name)] = os.readlink(entry)
    return found


def levels(run: Run, task: TaskInstance) -> set[str]:
    """Return the log levels of a task's last try."""
    path = f"{run.path}/taskInstances/{task.task_id}/logs/{task.try_number}"
    answer = run.rest.get(path, map_index=task.map_index, full_content="true")
    return {entry["level"] for entry in answer["content"] if "level" in entry}


def plain_run(lines: Lines, variant: str, partitions: int = PARTITIONS, pack: int = PACK) -> None:
    run = lines.run(variant)
    lines.check_done(run, partitions=partitions)
    copies = run.mapped("lines.copy")
    assert [task.state for task in copies] == ["success"] * (partitions // pack)
    assert tries(run) == {}
    executor = "CeleryExecutor" if variant == "celery" else None
    assert {task.raw["executor"] for task in copies} == {executor}
    assert [task.rendered_map_index for task in copies] == [
        entry["label"] for entry in run.xcom("lines.plan")
    ]
    report = run.log("lines.verify")
    # Covers all tasks, whichever process copied, because the target stores the figures.
    assert "the report, with charts: button Run report" in report
    assert "waiting for target" in report
    assert f"{lines.content[0]:,}" in report
    # Output of workers on stderr would be logged as errors.
    for task in run.tasks():
        log = run.log(task.task_id, task.map_index)
        assert not levels(run, task) & {"error", "critical"}, log


def killed_in_mid_copy(lines: Lines, variant: str = "packed") -> None:
    gate = lines.gate(5, pack=PACK)
    run = lines.run(variant)
    gate.reached()
    children = processes_at_gate(run, gate.index)
    run.process("lines.copy", gate.index).kill()
    # The children get no signal, but notice that the task has died.
    check_ended(children)
    lines.check_no_backend(f":{partition_id(gate.partition)}:1")
    gate.open()
    lines.check_done(run)
    assert tries(run) == {gate.index: 2}
    assert run.tries("lines.copy", gate.index)[0].state == "failed"


def killed_after_commit(lines: Lines) -> None:
    gate = lines.gate(2, of=FEW)
    proxy = lines.proxy("target")
    run = lines.run("few")
    gate.reached()
    committed = partition_id(gate.partition)
    killed = run.process("lines.copy", gate.index)

    def strike() -> None:
        # Strike when the server has answered this partition's COMMIT, and no other.
        if killed.is_running() and committed in lines.records(run):
            # An earlier strike may already have killed it.
            with contextlib.suppress(psutil.NoSuchProcess):
                killed.kill()

    proxy.on_bytes(b"COMMIT\0", "to_client", strike, once=False)
    gate.open()
    run.wait_for("lines.copy", gate.index, ["success"], try_number=2)
    lines.check_done(run, partitions=FEW)
    assert tries(run) == {gate.index: 2}
    assert "already committed; nothing was copied" in run.log("lines.copy", gate.index)


def check_shared(lines: Lines, run: Run) -> None:
    """Check that workers copied each partition once, and show what each has copied."""
    lines.check_done(run)
    copies = run.mapped("lines.copy")
    assert [task.state for task in copies] == ["success"] * DEGREE
    results = [run.xcom("lines.copy", task.map_index) for task in copies]
    for task, result in zip(copies, results, strict=True):
        label = taken_text(f"worker {task.map_index}", len(result["partitions"]), result["bytes"])
        assert task.rendered_map_index == label
        assert label in run.log("lines.copy", task.map_index)


def shared_run(lines: Lines, variant: str = "workers") -> None:
    """Workers go on past a partition that one of them holds."""
    gate = lines.gate(5)
    run = lines.run(variant)
    gate.reached()
    held, _ = at_gate(run, gate)
    all_but_one(lines, run)
    # The others wait for the one that is held: an end would say that the run is done.
    states = {task.map_index: task.state for task in run.mapped("lines.copy")}
    assert set(states.values()) == {"running"}, states
    gate.open()
    check_shared(lines, run)
    assert tries(run) == {}
    results = [run.xcom("lines.copy", index)["partitions"] for index in range(DEGREE)]
    assert partition_id(5) in results[held]
    assert sorted(name for names in results for name in names) == sorted(lines.records(run))


def all_but_one(lines: Lines, run: Run) -> None:
    """Wait until all partitions but one are committed."""
    until(
        lambda: True if len(lines.records(run)) == PARTITIONS - 1 else None,
        4 * PATIENCE,
        lambda: f"expected all partitions but one, found {lines.records(run)}",
    )


def killed_worker(lines: Lines, variant: str = "workers") -> None:
    """What a killed worker was copying is copied by another, and its retry takes part again."""
    gate = lines.gate(5)
    run = lines.run(variant)
    gate.reached()
    index, task = at_gate(run, gate)
    children = task.children(recursive=True)
    all_but_one(lines, run)
    task.kill()
    check_ended(children)
    run.wait_for("lines.copy", index, ["running"], try_number=2)
    gate.reached()
    other, _ = at_gate(run, gate)
    before = lines.records(run)
    gate.open()
    check_shared(lines, run)
    assert tries(run) == {index: 2}
    assert partition_id(5) in run.xcom("lines.copy", other)["partitions"]
    after = lines.records(run)
    assert {name: after[name] for name in before} == before


def cleared_worker(lines: Lines, variant: str = "workers") -> None:
    """A worker that is cleared after the end finds nothing to do."""
    run = lines.run(variant)
    lines.check_done(run)
    before = lines.records(run)
    log = clear_copy(run, 2)
    assert "worker 2: no partitions" in log
    lines.check_done(run)
    assert lines.records(run) == before
    assert run.task("lines.copy", 2).rendered_map_index == "worker 2: no partitions"


def marked_failed_in_mid_copy(lines: Lines, variant: str = "packed") -> None:
    gate = lines.gate(5, pack=PACK)
    run = lines.run(variant)
    gate.reached()
    task, children = run.process("lines.copy", gate.index), processes_at_gate(run, gate.index)
    run.mark("lines.copy", gate.index, state="failed")
    check_ended([*children, task])
    lines.check_no_backend(f":{partition_id(gate.partition)}:")
    # All other partitions are copied, and the run fails because one is missing.
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    states = {task.map_index: task.state for task in run.mapped("lines.copy")}
    assert states.pop(gate.index) == "failed"
    assert set(states.values()) == {"success"}
    assert "the task was killed" in run.log("lines.copy", gate.index)
    assert run.task("lines.verify").state == "upstream_failed"
    before = lines.records(run)
    assert len(before) == PARTITIONS - PACK
    lines.check_no_backend()

    gate.open()
    run.clear(("lines.copy", gate.index), "lines.verify", "lines.release")
    run.wait_for("lines.copy", gate.index, ["success"], try_number=2)
    lines.check_done(run)
    after = lines.records(run)
    assert {name: after[name] for name in before} == before


def timed_out_in_mid_copy(lines: Lines) -> None:
    gate = lines.gate(3, of=FEW)
    run = lines.run("limited")
    gate.reached()
    task, children = run.process("lines.copy", gate.index), processes_at_gate(run, gate.index)
    until(lambda: None if task.is_running() else True, PATIENCE, lambda: f"{task} goes on")
    check_ended(children)
    gate.open()
    lines.check_done(run, partitions=FEW)
    assert run.tries("lines.copy", gate.index)[0].state == "failed"
    assert "AirflowTaskTimeout" in run.log("lines.copy", gate.index, try_number=1)


def cleared_after_success(lines: Lines) -> None:
    run = lines.run("replace")
    lines.check_done(run)
    before = lines.records(run)
    clear_copy(run, 3)
    lines.check_done(run)
    assert changed(before, lines.records(run)) == pack_of(3)


def pack_of(index: int) -> set[str]:
    """Return the ids of the partitions in a mapped task, for variants with several."""
    return {partition_id(index * PACK + number) for number in range(1, PACK + 1)}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return the partitions that were committed again."""
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def clear_copy(run: Run, index: int) -> str:
    """Clear one successful mapped task and those after it, and wait for their success.

    Returns:
        Its log.
    """
    number = run.task("lines.copy", index).try_number + 1
    run.clear(("lines.copy", index), downstream=True)
    run.wait_for("lines.copy", index, ["success"], try_number=number)
    run.succeeded()
    return run.log("lines.copy", index)
