"""Tasks that ask a person before they change more than was agreed: Airflow 3.1 and later.

While a task waits, it takes no slot of a worker. What is approved is one value of an option, which
permits exactly what was shown. If the situation has changed by then, the core refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any, Literal, NoReturn, get_args

from penstock import Drifted, PenstockError, TooManyDeletes, UsageError, as_arguments
from penstock_airflow.operators.base import PenstockOperator
from penstock_airflow.runs.claims import give_up_quietly
from penstock_airflow.sdk import (
    AIRFLOW_VERSION,
    AirflowFailException,
    get_current_context,
    import_optional,
)

Approvable = Literal["drift", "deletes"]
APPROVABLE: tuple[str, ...] = get_args(Approvable)
APPROVE, REJECT = "Approve", "Reject"
_FIRST = (3, 1)
_METHOD = "continue_after_answer"
_ANSWERS: dict[str, Any] = {"options": [APPROVE, REJECT], "multiple": False, "params": {}}
_ASK_AGAIN = (
    "Airflow keeps showing a task's first question, even after the task is cleared; trigger a new "
    "DAG run to be asked about the current state"
)


def approvals_of(approve: Any) -> tuple[str, ...]:
    """Return the argument `approve` as a list, of what it can be."""
    return (approve,) if isinstance(approve, str) else tuple(approve)


def approval_mistakes(approve: Any) -> Iterator[str]:
    """Yield what is wrong with the argument `approve`."""
    try:
        names = approvals_of(approve)
    except TypeError:
        names = (approve,)
    unknown = [name for name in names if name not in APPROVABLE]
    if unknown:
        yield f"approve: expected some of {', '.join(APPROVABLE)}; found {unknown[0]!r}"
    if names and AIRFLOW_VERSION < _FIRST:
        found = ".".join(map(str, AIRFLOW_VERSION))
        yield f"approve: expected Airflow 3.1 or later, which can ask a person; found {found}"


class AskingOperator(PenstockOperator):
    """The base of operators that ask a person, as their argument `approve` says, and then go on.

    A task asks only once, because Airflow keeps showing its first question, even after the task is
    cleared.

    Args:
        approve: `drift` and `deletes`, or one of them: ask a person before columns of the target
            are changed that `on_drift` does not permit, or more rows are deleted than `deletes`
            permits. By default the task fails then.
        response_timeout: how long to wait for the answer; None for ever.
        kwargs: the arguments of `PenstockOperator`.

    Raises:
        UsageError: there is no such approval, or this version of Airflow cannot ask.
    """

    def __init__(
        self,
        *,
        approve: Approvable | Sequence[Approvable] = (),
        response_timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        for mistake in approval_mistakes(approve):
            raise UsageError(mistake)
        super().__init__(**kwargs)
        self.approve = approvals_of(approve)
        self.response_timeout = response_timeout
        self._approved: dict[str, str] | None = None
        """The options that a person has approved in this try; None if none was asked."""

    @property
    def approved_options(self) -> dict[str, str]:
        """The options that a person has approved in this try."""
        return self._approved or {}

    def _ask_before_failing(self, error: PenstockError) -> None:
        """Ask a person about an error, if the operator is to; the task then goes on elsewhere.

        Raises:
            AirflowFailException: a person was asked before, and something else is the case now.
        """
        question = _question(error) if self.approve else None
        if question is None or question[0] not in self.approve:
            return
        _, subject, body, approved = question
        if self._approved is not None:
            raise AirflowFailException(
                f"{as_arguments(error.message)}\nThis is not what was approved, so nothing was "
                f"changed. {_ASK_AGAIN}"
            )
        self.log.info("waiting for a person's approval: %s\n%s", subject, body)
        ti = get_current_context()["ti"]
        if not _is_shown(ti, subject, body):
            raise AirflowFailException(
                f"{as_arguments(error.message)}\nAn earlier try has asked another question, so "
                f"nothing was changed. {_ASK_AGAIN}"
            )
        self._wait_for_answer(ti, approved=approved, waiting_run=self._waiting_run())

    def _waiting_run(self) -> str:
        """Return the run to give up if the answer is no; empty if another task does that."""
        return ""

    def _wait_for_answer(self, ti: Any, **kwargs: Any) -> NoReturn:
        awaiting = getattr(import_optional("airflow.sdk.exceptions"), "TaskAwaitingInput", None)
        if awaiting is not None:
            raise awaiting(method_name=_METHOD, kwargs=kwargs, timeout=self.response_timeout)
        # Before Airflow 3.3, the triggerer waits.
        triggers = import_module("airflow.providers.standard.triggers.hitl")
        limit = self.response_timeout
        until = None if limit is None else import_module("airflow.sdk.timezone").utcnow() + limit
        trigger = triggers.HITLTrigger(ti_id=ti.id, timeout_datetime=until, **_ANSWERS)
        self.defer(trigger=trigger, method_name=_METHOD, kwargs=kwargs)
        raise AssertionError("the task is deferred")

    def continue_after_answer(
        self, context: Any, event: dict[str, Any], approved: dict[str, str], waiting_run: str
    ) -> Any:
        """Go on with what was shown if it is approved; called by Airflow.

        Args:
            context: the context of the task.
            event: the answer.
            approved: the option that permits what was shown, with its value.
            waiting_run: the run to give up if the answer is no; empty if another task does that.

        Raises:
            AirflowFailException: it was rejected, or no one has answered in time.
        """
        if "error" in event:
            self._refuse(waiting_run, f"no approval: {event['error']}")
        name = (event.get("responded_by_user") or {}).get("name") or "a person"
        if event["chosen_options"] != [APPROVE]:
            self._refuse(waiting_run, f"rejected by {name}")
        self.log.info("approved by %s", name)
        self._approved = dict(approved)
        return self.execute(context)

    def _refuse(self, waiting_run: str, why: str) -> NoReturn:
        if waiting_run:
            target, schema = self._target_url(), self.control_schema
            give_up_quietly([waiting_run], target=target, control_schema=schema, log=self.log)
        raise AirflowFailException(f"{why}, so nothing was changed in the target's table")


def _is_shown(ti: Any, subject: str, body: str) -> bool:
    """Store a question, and return whether it is the one that Airflow shows.

    Airflow keeps the first question for all tries of a task.
    """
    messages = import_module("airflow.sdk.execution_time.comms")
    supervisor = import_module("airflow.sdk.execution_time.task_runner").SUPERVISOR_COMMS
    question = {"subject": subject, "body": body, "assigned_users": [], **_ANSWERS}
    shown = supervisor.send(msg=messages.CreateHITLDetailPayload(ti_id=ti.id, **question))
    if getattr(shown, "body", None) is None:
        # Airflow 3.1 does not tell: only the first try is certain.
        return int(ti.try_number) <= 1
    return (shown.subject, shown.body) == (subject, body)


def _question(error: PenstockError) -> tuple[str, str, str, dict[str, str]] | None:
    """Return what is to be approved, the question, its details, and the option that permits it."""
    if isinstance(error, Drifted) and error.approval:
        return (
            "drift",
            "Change columns of the target?",
            "The columns of source and target have diverged. To copy on, the target needs these "
            "changes:\n\n"
            + _code(error.changes)
            + "\n\nNothing has been changed yet. Approve these changes, and the copy makes them, "
            "and goes on. If others are needed by then, it makes none, and fails.",
            {"on_drift": error.approval},
        )
    if isinstance(error, TooManyDeletes):
        return (
            "deletes",
            f"Delete {error.deleted:,} of {error.rows:,} rows from the target?",
            f"{_code([as_arguments(error.message.partition('; if ')[0])])}\n\nApprove it, and the "
            f"run merges its rows and deletes exactly {error.deleted:,}. If the numbers are others "
            "by then, it deletes nothing, and fails.",
            {"deletes": error.approval},
        )
    return None


def _code(lines: Sequence[str]) -> str:
    """Return lines as they are, in Markdown."""
    longest = max((len(run) for line in lines for run in _ticks(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])


def _ticks(line: str) -> list[str]:
    """Return the runs of backticks in a line, which may quote names."""
    return "".join(each if each == "`" else " " for each in line).split()
