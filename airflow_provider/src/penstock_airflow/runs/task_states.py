"""The states of other tasks in the same DAG run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock_airflow.sdk import AIRFLOW_3

FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
FAILED = frozenset({"failed", "upstream_failed"})
# States of a DAG run in which Airflow starts no more tasks.
ENDED = frozenset({"success", "failed"})
# States of a task that has not succeeded, and cannot until its upstream tasks have ended.
_NOT_PASSED = FAILED | {None, "skipped", "up_for_retry", "restarting"}


@dataclass(frozen=True)
class Tasks:
    """Some tasks of a DAG run."""

    dag_id: str
    run_id: str
    task_ids: Sequence[str]

    @classmethod
    def of(cls, context: Any, task_ids: Sequence[str]) -> Tasks:
        """Return tasks of a DAG run.

        Args:
            context: the context of a task in that DAG run.
            task_ids: the ids of the tasks.
        """
        ti = context["ti"]
        return cls(ti.dag_id, ti.run_id, list(task_ids))

    @classmethod
    def stored(cls, fields: Mapping[str, Any] | None) -> Tasks | None:
        """Restore tasks from the result of `as_json`."""
        return None if fields is None else cls(**fields)

    def as_json(self) -> dict[str, Any]:
        """Return the tasks as values for JSON."""
        return {"dag_id": self.dag_id, "run_id": self.run_id, "task_ids": list(self.task_ids)}

    def states(self) -> list[str | None]:
        """Return the state of each task instance, from Airflow's API server or database."""
        if not self.task_ids:
            return []
        states = _states_3(self) if AIRFLOW_3 else [state for state, _ in _rows_2(self)]
        return [None if state is None else str(getattr(state, "value", state)) for state in states]

    def are_finished(self) -> bool:
        """Whether all of the tasks have ended, so that only clearing would run one again."""
        states = self.states()
        return bool(states) and all(state in FINISHED for state in states)

    def are_all_due(self) -> bool:
        """Whether each of the tasks is running or about to run."""
        return not any(state in FINISHED and state != "removed" for state in self.states())

    def have_failed(self) -> bool:
        """Whether one of the tasks has failed, or cannot run because another one has."""
        return any(state in FAILED for state in self.states())

    def have_passed(self) -> bool:
        """Whether one of the tasks has succeeded, or can without waiting for upstream tasks."""
        return any(state not in _NOT_PASSED for state in self.states())

    def are_skipped(self) -> bool:
        """Whether each of the tasks was skipped."""
        return set(self.states()) == {"skipped"}

    def have_run(self) -> bool:
        """Whether one of the tasks may have run.

        A task that was skipped before it started has a duration of exactly zero; other durations
        may be unknown.
        """
        durations = _durations_3(self) if AIRFLOW_3 else [duration for _, duration in _rows_2(self)]
        return any(duration != 0 for duration in durations)


def dag_run_has_ended(context: Any) -> bool:
    """Whether the DAG run of a task has ended, because a user marked it, though the task runs."""
    ti = context["ti"]
    if AIRFLOW_3:
        # Airflow 2 has no such module.
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415

        state = RuntimeTaskInstance.get_dagrun_state(ti.dag_id, ti.run_id)
    else:
        state = _dag_run_state_2(ti.dag_id, ti.run_id)
    return str(getattr(state, "value", state)) in ENDED


def _states_3(tasks: Tasks) -> list[Any]:
    # Airflow 2 has no such module.
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415

    states_by_run = RuntimeTaskInstance.get_task_states(
        dag_id=tasks.dag_id, task_ids=list(tasks.task_ids), run_ids=[tasks.run_id]
    )
    return list(states_by_run.get(tasks.run_id, {}).values())


def _durations_3(tasks: Tasks) -> list[Any]:
    """Return the durations of tasks that have ended."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415

    ask = getattr(RuntimeTaskInstance, "get_task_breadcrumbs", None)
    if ask is None:  # older versions of Airflow 3
        return [None]
    instances = ask(dag_id=tasks.dag_id, run_id=tasks.run_id)
    return [each["duration"] for each in instances if each["task_id"] in tasks.task_ids]


def _rows_2(tasks: Tasks) -> list[tuple[Any, Any]]:
    """Return the state and duration of each task."""
    # In Airflow 3 a task has no access to the database.
    from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415

    with create_session() as session:
        query = session.query(TaskInstance.state, TaskInstance.duration).filter(
            TaskInstance.dag_id == tasks.dag_id,
            TaskInstance.run_id == tasks.run_id,
            TaskInstance.task_id.in_(tasks.task_ids),
        )
        return [(state, duration) for state, duration in query]


def _dag_run_state_2(dag_id: str, run_id: str) -> Any:
    """Return the state of a DAG run."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - as above
    from airflow.utils.session import create_session  # noqa: PLC0415

    with create_session() as session:
        query = session.query(DagRun.state).filter(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
        return query.scalar()
