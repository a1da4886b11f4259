"""What a real Airflow must do with any executor, so that tests can build on it."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import psutil

from penstock_testkit.airflow import AirflowStack, Run, until

# Of the module gates: on the path of every part, because a triggerer imports no DAG file.
GATES = '''
import asyncio
from pathlib import Path

from airflow.triggers.base import BaseTrigger, TriggerEvent


class Gate(BaseTrigger):
    """Fires when a file is there."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def serialize(self):
        return ("gates.Gate", {"path": self.path})

    async def run(self):
        while not Path(self.path).exists():
            await asyncio.sleep(0.1)
        yield TriggerEvent({"in_triggerer": self.trigger_id is not None})
'''

DAG = '''
import subprocess
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, BaseOperator
from gates import Gate


class Child(BaseOperator):
    """Runs a child until a file is there, or until it is killed."""

    template_fields = ("gate",)
    killed = False

    def __init__(self, *, number, gate, **kwargs):
        super().__init__(**kwargs)
        self.number = number
        self.gate = gate

    def execute(self, context):
        null = subprocess.DEVNULL
        self.child = subprocess.Popen(["sleep", "600"], stdin=null, stdout=null, stderr=null)
        print("child", self.child.pid, "of", self.number)
        while self.child.poll() is None and not Path(self.gate).exists():
            time.sleep(0.1)
        if self.killed:
            raise RuntimeError("killed")
        self.child.kill()
        self.child.wait()
        return self.number * 10

    def on_kill(self):
        self.killed = True
        self.child.kill()


class Wait(BaseOperator):
    template_fields = ("gate",)

    def __init__(self, *, gate, **kwargs):
        super().__init__(**kwargs)
        self.gate = gate

    def execute(self, context):
        self.defer(trigger=Gate(self.gate), method_name="go_on")

    def go_on(self, context, event=None):
        return event


with DAG("children", schedule=None) as children:
    Child.partial(
        task_id="child",
        retries=1,
        retry_delay=timedelta(0),
        gate="{{ dag_run.conf['gate'] }}",
        map_index_template="number {{ task.number }}",
    ).expand(number=[0, 1, 2])

with DAG("waiting", schedule=None) as waiting:
    Wait(task_id="wait", gate="{{ dag_run.conf['gate'] }}")
'''


def prepare(stack: AirflowStack) -> None:
    """Give a new stack the DAGs of these cases."""
    (stack.modules / "gates.py").write_text(GATES)
    stack.add_dag(DAG, "children")
    stack.unpause("waiting")


def begin(stack: AirflowStack, dag_id: str, gate: Path | None = None) -> tuple[Run, Path]:
    """A run, and the file that lets it go on."""
    gate = gate or stack.home / f"gate-{uuid4().hex}"
    return stack.trigger(dag_id, conf={"gate": str(gate)}), gate


def child_of(run: Run, index: int) -> psutil.Process:
    """The process that a running mapped task has started."""
    process = run.process("child", index)
    found = until(lambda: process.children() or None, 60, lambda: f"{process} has no child")
    return found[0]


def assert_gone(process: psutil.Process) -> None:
    until(lambda: None if process.is_running() else True, 60, lambda: f"{process} still runs")


def killed_task_is_retried_alone(stack: AirflowStack) -> None:
    run, gate = begin(stack, "children")
    orphan = child_of(run, 1)
    run.process("child", 1).kill()
    assert run.wait_for("child", 1, ["running"], try_number=2).try_number == 2
    # Nobody told it to end: what a real operator must see to.
    assert orphan.is_running()
    orphan.kill()
    gate.touch()
    run.succeeded()
    assert [task.try_number for task in run.mapped("child")] == [1, 2, 1]
    assert [task.state for task in run.tries("child", 1)] == ["failed", "success"]
    assert [run.xcom("child", index) for index in range(3)] == [0, 10, 20]
    assert run.task("child", 2).rendered_map_index == "number 2"
    assert f"child {orphan.pid} of 1" in run.log("child", 1, try_number=1)
    assert f"child {orphan.pid} of 1" not in run.log("child", 1)
    assert run.links("child", 1) == {}


def marked_task_is_told(stack: AirflowStack) -> None:
    run, gate = begin(stack, "children")
    process, child = run.process("child", 0), child_of(run, 0)
    run.mark("child", 0, state="failed")
    assert_gone(child)
    assert_gone(process)
    gate.touch()
    assert run.wait() == "failed"
    assert [task.state for task in run.mapped("child")] == ["failed", "success", "success"]


def cleared_index_runs_again_alone(stack: AirflowStack) -> None:
    run, gate = begin(stack, "children")
    gate.touch()
    run.succeeded()
    before = {task.map_index: task.raw["start_date"] for task in run.mapped("child")}
    run.clear(("child", 2))
    run.wait_for("child", 2, ["success"], try_number=2)
    run.succeeded()
    after = {task.map_index: task.raw["start_date"] for task in run.mapped("child")}
    assert [index for index in range(3) if before[index] != after[index]] == [2]


def deferred_task_goes_on_after_its_triggerer_was_killed(stack: AirflowStack) -> None:
    run, gate = begin(stack, "waiting")
    run.wait_for("wait", states=["deferred"])
    triggerer = stack.components["triggerer"]
    first = triggerer.process
    triggerer.kill()
    assert not first.is_running()
    triggerer.start()
    gate.touch()
    run.succeeded()
    assert run.xcom("wait") == {"in_triggerer": True}


def marked_run_ends_its_tasks(stack: AirflowStack) -> None:
    run, _ = begin(stack, "children")
    children = [child_of(run, index) for index in range(3)]
    run.mark_run("failed")
    for child in children:
        assert_gone(child)
    assert run.state == "failed"
