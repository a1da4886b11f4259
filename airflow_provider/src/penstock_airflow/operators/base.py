"""The base of all operators: connections, logging of the core's events, cancellation."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import penstock
from penstock import (
    BatchFinished,
    Event,
    Finished,
    Interrupted,
    PenstockError,
    RunStatus,
    SnapshotLost,
    SpecMismatch,
    TargetChanged,
    as_arguments,
    failure_text,
    narrate,
    report_text,
    run_report_html,
    traced,
    whole_report_text,
)
from penstock_airflow.arguments.endpoint import Endpoint
from penstock_airflow.arguments.mistakes import check_arguments, parameters_of
from penstock_airflow.links.run import REPORT_KEY
from penstock_airflow.runs.nearest_task import nearest
from penstock_airflow.runs.nights import overtaken_status
from penstock_airflow.sdk import (
    AIRFLOW_3,
    AirflowException,
    AirflowFailException,
    BaseOperator,
    get_current_context,
)

LastEvent = TypeVar("LastEvent", Finished, BatchFinished)
_CHARTS = "penstock report {} --target URL --html FILE"
NEW_RUN = "clear {} with its downstream tasks; it plans anew"
AWAIT_SNAPSHOT = 180.0
"""Seconds to wait for a snapshot: a restarted triggerer needs a minute to run its triggers."""


def airflow_exception(
    error: PenstockError, finished: Finished | BatchFinished | None = None, again: str = ""
) -> AirflowException:
    """Return the core's error as an Airflow exception, which is retried if a retry may help.

    Options have the names that DAGs use. The first line says what failed.

    Args:
        error: the core's error.
        finished: the last event of the copy; None if it has none.
        again: how to start a new run; empty if this task cannot tell.
    """
    message = as_arguments((failure_text(finished) if finished else "") or error.message)
    if isinstance(error, SnapshotLost):
        message += "; or clear this task to copy its rows as they are now"
    lost = isinstance(error, SpecMismatch | TargetChanged) or _names_change(finished)
    if again and lost:
        message += f". In Airflow: {again}"
    kind = AirflowException if error.transient else AirflowFailException
    failure: AirflowException = kind(message)
    return failure


def _names_change(finished: Finished | BatchFinished | None) -> bool:
    """Whether a copy has failed because others have changed the target's table."""
    error = finished.error if isinstance(finished, Finished) else None
    return error is not None and error.get("error") == TargetChanged.__name__


def _in_arguments(page: str) -> str:
    """Return a page that names options as arguments, but leaves its style sheet alone."""
    head, end, body = page.partition("</style>")
    return head + end + as_arguments(body)


class TargetOperator(BaseOperator):
    """The base of operators that work on a target.

    Args:
        target_conn_id: an Airflow connection to a database, looked up in the task's own process.
        target: a URL without secrets, such as `s3://bucket/folder/`, or a path, instead of a
            connection.
        target_aws_conn_id: for an `s3://` URL, an Airflow connection of type `aws` with the keys.
        control_schema: the schema of Penstock's own tables in the target.
        kwargs: the arguments of every operator.

    Raises:
        UsageError: there is no target, more than one, or an invalid one.
    """

    ui_color = "#d5e8f0"

    def __init__(
        self,
        *,
        target_conn_id: str | None = None,
        target: str | None = None,
        target_aws_conn_id: str | None = None,
        control_schema: str = "penstock",
        **kwargs: Any,
    ) -> None:
        check_arguments(kwargs, known=parameters_of(type(self)))
        super().__init__(**kwargs)
        self.target_conn_id = target_conn_id
        self.target = target
        self.target_aws_conn_id = target_aws_conn_id
        self.control_schema = control_schema
        self._target.check()

    @property
    def _target(self) -> Endpoint:
        return Endpoint.of("target", self)

    def _target_url(self) -> str:
        """Return the target's URL, with its secrets.

        Raises:
            AirflowFailException: Penstock cannot use the connection.
        """
        try:
            return self._target.connect()
        except PenstockError as error:
            raise airflow_exception(error) from None


class PenstockOperator(TargetOperator):
    """The base of operators that read a source as well.

    Args:
        source_conn_id, source, source_aws_conn_id: as for the target.
        kwargs: the arguments of `TargetOperator`.
    """

    def __init__(
        self,
        *,
        source_conn_id: str | None = None,
        source: str | None = None,
        source_aws_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_conn_id = source_conn_id
        self.source = source
        self.source_aws_conn_id = source_aws_conn_id
        self._source.check()
        self._copying = False
        self._killed = False
        self._last_event: Finished | BatchFinished | None = None
        """The terminal event of the run or batch, even if it failed."""

    @property
    def _source(self) -> Endpoint:
        return Endpoint.of("source", self)

    def _urls(self) -> dict[str, Any]:
        """Return the URLs of source and target, as arguments of the core. They hold secrets.

        Raises:
            AirflowFailException: Penstock cannot use a connection.
        """
        try:
            source = self._source.connect()
        except PenstockError as error:
            raise airflow_exception(error) from None
        return {"source": source, "target": self._target_url()}

    def _run_copy(self, events: Generator[Event, None, None], only: int = 0) -> Finished:
        """Run a copy to its end, log its important events, and return the last one.

        Args:
            events: the events of the copy.
            only: how many partitions were requested; 0 for the whole plan.

        Raises:
            AirflowFailException: a retry cannot help.
            AirflowException: a retry may help.
        """
        return self._run_events(events, Finished, only)

    def _run_events(
        self, events: Generator[Event, None, None], kind: type[LastEvent], only: int = 0
    ) -> LastEvent:
        """Run a copy as `_run_copy` does, and return its last event, of any kind.

        Args:
            events: the events of the copy.
            only: as for `_run_copy`.
            kind: the class of the last event.
        """
        finished: LastEvent | None = None
        self._last_event = None
        self._copying = True
        try:
            self._check_not_killed()
            with closing(events):
                for event in self._narrate(events, only):
                    self._check_not_killed()  # a driver may have swallowed the interruption
                    if isinstance(event, kind):
                        self._last_event = finished = event
        except Interrupted:
            raise AirflowException(
                "the task was killed; rows that were not committed are rolled back"
            ) from None
        except PenstockError as error:
            self._ask_before_failing(error)
            raise airflow_exception(error, finished, self._how_to_start_again()) from None
        finally:
            self._copying = False
        self._check_not_killed()
        assert finished is not None
        return finished

    def _ask_before_failing(self, error: PenstockError) -> None:
        """Ask a person about an error; overridden by operators that do."""

    def _how_to_start_again(self) -> str:
        """Return what to clear for a new run: of a group, its first task."""
        prepare = nearest(self, "PrepareCopyOperator", "upstream_task_ids")
        return NEW_RUN.format("this task" if prepare is None else prepare.task_id)

    def _overtaken_status(self, run_id: str, target: str) -> RunStatus | None:
        """Return the status of a failed run if another night has overtaken it, otherwise None.

        Raises:
            AirflowException: the task was killed.
        """
        self._check_not_killed()
        return overtaken_status(run_id, target=target, control_schema=self.control_schema)

    def _narrate(self, events: Iterable[Event], only: int = 0) -> Iterator[Event]:
        """Log events at the levels that they deserve, and pass them on."""
        events = traced(events)
        return narrate(events, self._log_line, only, warn=self._log_warning, fail=self._log_failure)

    def _log_line(self, line: str) -> None:
        self.log.info("%s", as_arguments(line))

    def _log_warning(self, line: str) -> None:
        self.log.warning("%s", as_arguments(line))

    def _log_failure(self, line: str) -> None:
        self.log.error("%s", as_arguments(line))

    def _log_report(self, finished: Finished | BatchFinished, target: str) -> None:
        """Log the report of a run or batch from the target, which covers the work of all tasks.

        The copy is done, so the task does not fail if the report cannot be read: then that of this
        execution is logged.
        """
        run_id = finished.run_id
        try:
            report = penstock.report(run_id, target=target, control_schema=self.control_schema)
        except PenstockError as error:
            self._log_warning(f"cannot read the whole report: {error.message}")
            self.log.info("the task's report\n%s", as_arguments(report_text(finished, "")))
            return
        charts = "button Run report" if AIRFLOW_3 else _CHARTS.format(run_id)
        self.log.info(
            "the report, with charts: %s\n%s",
            charts,
            as_arguments(whole_report_text(report, finished)),
        )
        if AIRFLOW_3:
            # The links open a page that shows this XCom.
            get_current_context()["ti"].xcom_push(
                key=REPORT_KEY, value=_in_arguments(run_report_html(report))
            )

    def _check_not_killed(self) -> None:
        """Check that the task was not killed.

        Raises:
            AirflowException: the task was killed. After `on_kill`, Airflow itself would continue
                and record a success.
        """
        if self._killed:
            raise AirflowException("the task was killed")

    def on_kill(self) -> None:
        """Cancel the copy: end the workers, and with them the servers' statements.

        Airflow calls this in its SIGTERM handler, so an exception raised here interrupts the task
        wherever it is, as a signal interrupts the command line.
        """
        self._killed = True
        if self._copying and threading.current_thread() is threading.main_thread():
            self._copying = False
            raise Interrupted("the task was killed")
