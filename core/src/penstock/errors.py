"""Every exception Penstock raises on purpose.

    PenstockError
    |-- UsageError          the request is wrong (exit 64)
    |   `-- SpecMismatch    a run id exists with another spec
    |-- PermanentError      trying again cannot help (exit 65)
    |   |-- Unreadable      stored or sent data is not what Penstock wrote
    |   |-- PlanningError   no plan is possible: nothing was changed
    |   |   |-- MissingTarget   the target's table does not exist
    |   |   `-- Drifted     the columns of both sides have diverged (exit 76)
    |   |-- TooManyDeletes  a night would delete more rows than --deletes permits
    |   |-- TooManyLosses   too many processes were lost at a partition
    |   |-- SnapshotLost    the run's view of the source is lost
    |   |-- LoadLost        a crash of the target has emptied an unlogged table
    |   |-- TargetChanged   the target's table is not the one that the run loaded
    |   `-- RunFailed       a run ended with partitions that are not committed
    |-- TransientError      trying again may help (exit 75)
    |   |-- StallError      no bytes moved for too long
    |   |-- TooManyConnections
    |   |-- WorkerLost      a worker ended without a final event
    |   |-- Taken           another execution is copying the partition
    |   |-- NoHolder        no process holds the awaited snapshot
    |   |-- Superseded      another process has just changed the run
    |   |-- TargetBusy      another run is already writing these rows
    |   |-- TableReplaced   a target's table was recreated while it was being read
    |   |-- Overtaken       another night has ended since the run was planned
    |   |-- Blocked         another session's statement waits for the run's snapshot
    |   `-- RunFailedTransiently
    `-- Interrupted         cancelled by a signal (exit 130)

Exit codes are those of sysexits.h (64 EX_USAGE, 65 EX_DATAERR, 70 EX_SOFTWARE, 75 EX_TEMPFAIL,
76 EX_PROTOCOL); 130 is the shell's 128 + SIGINT.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

EXIT_DONE = 0
EXIT_USAGE = 64
EXIT_PERMANENT = 65
EXIT_BUG = 70
EXIT_TRANSIENT = 75
EXIT_DRIFT = 76
EXIT_INTERRUPTED = 130

# How like a name must be to be suggested (1: the same), and how much less than the most like one.
_LIKE, _LESS = 0.65, 0.1


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A server's report of an error."""

    side: str = ""
    """``source``, ``target`` or empty."""
    code: str = ""
    """The server's error code."""
    detail: str = ""
    hint: str = ""
    context: str = ""
    """The place of the error: the line of a COPY, for instance."""
    constraint: str = ""


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose.

    Args:
        message: what is wrong, where, and what to do. Never contains a secret.
        diagnosis: what the server reported.
    """

    exit_code = EXIT_BUG
    transient = False

    def __init__(self, message: str, diagnosis: Diagnosis | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.diagnosis = diagnosis or Diagnosis()

    def as_json(self) -> dict[str, Any]:
        """Return the error in the form that a ``failed`` event carries."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "transient": self.transient,
            **{name: value for name, value in asdict(self.diagnosis).items() if value},
        }


class UsageError(PenstockError):
    """A request is invalid: an option is wrong, or does not fit the others."""

    exit_code = EXIT_USAGE


class SpecMismatch(UsageError):
    """A run id exists with another spec."""


class PermanentError(PenstockError):
    """Trying again cannot help: the request, the data or a server must change first."""

    exit_code = EXIT_PERMANENT


class Unreadable(PermanentError):
    """Stored or sent data is not what Penstock wrote."""


class PlanningError(PermanentError):
    """No plan is possible. Nothing was changed."""


class MissingTarget(PlanningError):
    """The target's table does not exist, and the mode does not create it."""

    plan: Any = None
    """How the source would be partitioned, if `plan` was called: a `PartitionPlan`."""


class Drifted(PlanningError):
    """The columns of both sides have diverged, and `--on-drift` does not cover every difference.

    Nothing was changed.

    Args:
        message: what is wrong, where, and what to do.
        diagnosis: as for every error.
        changes: the changes that would be needed, with their statements, one a line.
        approval: a value of `--on-drift` that permits these very changes, and no others; empty if
            they cannot be made.
    """

    exit_code = EXIT_DRIFT

    def __init__(
        self,
        message: str,
        diagnosis: Diagnosis | None = None,
        *,
        changes: tuple[str, ...] = (),
        approval: str = "",
    ) -> None:
        super().__init__(message, diagnosis)
        self.changes = changes
        self.approval = approval


class TooManyDeletes(PermanentError):
    """A night would delete more rows than `--deletes` permits. Nothing was deleted or merged.

    Args:
        message: what is wrong, where, and what to do.
        diagnosis: as for every error.
        deleted: the number of rows that would be deleted.
        rows: the number of rows that the target would have without deletes.
        approval: a value of `--deletes` that permits these numbers, and no others.
    """

    def __init__(
        self,
        message: str,
        diagnosis: Diagnosis | None = None,
        *,
        deleted: int = 0,
        rows: int = 0,
        approval: str = "",
    ) -> None:
        super().__init__(message, diagnosis)
        self.deleted = deleted
        self.rows = rows
        self.approval = approval


class SnapshotLost(PermanentError):
    """The run's view of the source is lost."""


class LoadLost(PermanentError):
    """A crash of the target has emptied the table of an unlogged load."""


class TargetChanged(PermanentError):
    """The target's table is not the one that the run loaded, or has been emptied since."""


class RunFailed(PermanentError):
    """A run ended with uncommitted partitions; the report lists them."""


class TransientError(PenstockError):
    """Trying again may help."""

    exit_code = EXIT_TRANSIENT
    transient = True


class StallError(TransientError):
    """No bytes moved in either direction for the stall timeout."""


class TooManyConnections(TransientError):
    """A server has no connection left: fewer streams can work."""


class WorkerLost(TransientError):
    """A worker ended, or fell silent, without a terminal event for its attempt."""


class TooManyLosses(PermanentError):
    """So many processes were lost while they copied a partition that it is left as it is."""


class Taken(TransientError):
    """Another execution of the run is copying the partition, which is left to it."""


class NoHolder(TransientError):
    """No process came in time to hold the run's snapshot."""


class Superseded(TransientError):
    """Another process has just replaced the run's snapshot, or restarted the run."""


class TargetBusy(TransientError):
    """Another process executes a run that is incompatible with the requested one.

    It changes the same rows of the target's table, or reads other partitions of this run with
    another snapshot. Or it has begun such a run, which waits to be continued.
    """


class TableReplaced(TransientError):
    """A table of the target was dropped or recreated while its catalog was being read."""


class Overtaken(TransientError):
    """Another night has ended since this one was planned, with the same changes or newer ones.

    Args:
        message: the human-readable message.
        diagnosis: the details for programs.
        by: the id of the run that ended the other night.
    """

    def __init__(self, message: str, diagnosis: Diagnosis | None = None, *, by: str = "") -> None:
        super().__init__(message, diagnosis)
        self.by = by


class Blocked(TransientError):
    """Another session's statement waits for a lock that one of Penstock's snapshots holds.

    Later statements that need the lock would queue behind that one. The error also reports that the
    run has given way to it.
    """


class RunFailedTransiently(TransientError):
    """Every failure of the run was transient: ``resume`` may succeed."""


class Interrupted(PenstockError):
    """The user, or the process's environment, ended the command."""

    exit_code = EXIT_INTERRUPTED


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are most like a name, the closest first.

    Args:
        name: a name that is not known.
        known: the known names.
        most: how many to return at most.
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - only errors need it

    matcher = SequenceMatcher(b=name.casefold())
    likeness = {}
    for each in known:
        matcher.set_seq1(each.casefold())
        if matcher.real_quick_ratio() >= _LIKE and matcher.quick_ratio() >= _LIKE:
            likeness[each] = matcher.ratio()
    # Names of one schema are alike anyway.
    least = max(_LIKE, max(likeness.values(), default=0.0) - _LESS)
    near = [each for each, ratio in likeness.items() if ratio >= least]
    return sorted(near, key=lambda each: -likeness[each])[:most]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: ``; did you mean NAME?``, or nothing."""
    near = nearest(name, known)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is a request to end rather than a failure.

    Exceptions that do not derive from `Exception` end processes, as an orchestrator's own do.
    """
    return isinstance(error, Interrupted) or not isinstance(error, Exception)


def replaced_while_planned(table: object, side: str) -> TableReplaced:
    """Return the error for a table that is not the one that was read at first."""
    return TableReplaced(
        f"{side}: {table} was dropped or recreated while the copy was being planned; try again "
        "when no other session does that"
    )
