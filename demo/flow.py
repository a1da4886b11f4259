"""The act in Airflow: a DAG with a mapped task for each partition."""

from __future__ import annotations

import tempfile
from pathlib import Path

from demo.scene import Scene
from demo.stage import Stage
from penstock_testkit.airflow import DagRunner, TaskRun

DAG_FILE = Path(__file__).parent / "dags/orders.py"
DAG_ID = "demo_orders"


def run(stage: Stage, scene: Scene) -> None:
    stage.heading("The same in Airflow: one mapped task per partition")
    stage.say(
        "A DAG with one task group. Again a trigger on the target rejects an order once. Now "
        "Airflow retries, and only that mapped task."
    )
    text = DAG_FILE.read_text(encoding="utf-8")
    stage.code(text[text.index("from datetime") :].rstrip())
    scene.refuse_an_order_once()
    stage.gap()
    stage.say("Airflow runs it with dag.test(), in a temporary folder. This takes a moment.")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        runner = DagRunner(Path(folder) / "airflow")
        result = runner.run(
            DAG_FILE, DAG_ID, connections={"pg_src": scene.source, "pg_dst": scene.target}
        )
    stage.gap()
    stage.table(
        ("task instance", "in the grid", "state", "tries"),
        [
            (
                task.task_id if task.map_index < 0 else f"{task.task_id}[{task.map_index}]",
                task.rendered_map_index or "",
                task.state or "",
                str(task.try_number),
            )
            for task in result.tasks
        ],
    )
    stage.gap()
    stage.check(f"the DAG run ended with {result.state}", result.state == "success")
    copies = result.mapped("orders.copy")
    stage.check(
        f"of {len(copies)} mapped tasks one needed a second try",
        len(copies) > 2 and sorted(map(_tries, copies)) == [1] * (len(copies) - 1) + [2],
    )
    if not stage.good:
        stage.code(result.output[-20_000:])


def _tries(task: TaskRun) -> int:
    return task.try_number
