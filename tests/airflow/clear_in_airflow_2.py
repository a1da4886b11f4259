"""Run a DAG in Airflow 2.11, mark and clear its tasks like its web interface, and continue.

A program for a Python that has Airflow 2.11: ``clear_in_airflow_2.py FILE DAG_ID STEP ...``. Each
step prints a line of JSON: the states of the DAG run and of its tasks.
"""
# mypy: ignore-errors

from __future__ import annotations

import json
import sys

from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
from airflow.models.dag import _run_task
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun

# Airflow's tables refer to the users' tables.
from airflow.providers.fab.auth_manager import models  # noqa: F401
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunType

RUN_ID = "clearing"


def begin(dag) -> None:
    dag.sync_to_db()
    now = timezone.utcnow()
    dag.create_dagrun(
        run_id=RUN_ID,
        run_type=DagRunType.MANUAL,
        state=DagRunState.RUNNING,
        execution_date=now,
        start_date=now,
        data_interval=(now, now),
    )


def carry_on(dag, until: str = "") -> None:
    """Run tasks that are due, until one task or all tasks have ended."""
    with create_session() as session:
        run = stored_run(session)
        run.dag = dag
        while run.state in (DagRunState.QUEUED, DagRunState.RUNNING):
            run.state = DagRunState.RUNNING
            due, _ = run.update_state(session=session)
            for ti in due:
                # This also counts the try.
                run.schedule_tis([ti], session=session)
                session.commit()
                ti.refresh_from_db(session=session)
                ti.task = dag.task_dict[ti.task_id]
                try:
                    _run_task(ti=ti, session=session)
                except Exception as error:
                    print(type(error).__name__, error, file=sys.stderr)
                session.commit()
                if ti.task_id == until:
                    return


def stored_run(session) -> DagRun:
    return session.query(DagRun).filter(DagRun.run_id == RUN_ID).one()


def clear(dag, *task_ids: str, only_failed: bool = False, downstream: bool = True) -> None:
    part = dag
    if task_ids:
        part = dag.partial_subset(task_ids, include_downstream=downstream, include_upstream=False)
    with create_session() as session:
        run = stored_run(session)
        when = run.execution_date
        part.clear(start_date=when, end_date=when, only_failed=only_failed, session=session)


def mark(dag, task_id: str, state: str) -> None:
    dag.set_task_instance_state(
        task_id=task_id, run_id=RUN_ID, state=TaskInstanceState(state), commit=True
    )


STEPS = {
    "begin": begin,
    "go on": carry_on,
    "until the plan": lambda dag: carry_on(dag, "lines.plan"),
    "mark the DAG run failed": lambda dag: set_dag_run_state_to_failed(
        dag=dag, run_id=RUN_ID, commit=True
    ),
    "clear the DAG run": clear,
    "clear the DAG run, only failed tasks": lambda dag: clear(dag, only_failed=True),
    "clear the copies": lambda dag: clear(dag, "lines.copy", downstream=False),
    "clear verify, downstream": lambda dag: clear(dag, "lines.verify"),
    "mark verify success": lambda dag: mark(dag, "lines.verify", "success"),
}


def main() -> None:
    file, dag_id, *steps = sys.argv[1:]
    dag = DagBag(file, include_examples=False).dags[dag_id]
    for step in steps:
        STEPS[step](dag)
        with create_session() as session:
            run = stored_run(session)
            states = {
                ti.task_id + (f"[{ti.map_index}]" if ti.map_index >= 0 else ""): ti.state
                for ti in run.get_task_instances(session=session)
            }
            print(json.dumps({"step": step, "run": run.state, "tasks": states}), flush=True)


if __name__ == "__main__":
    main()
