"""Every exception Penstock raises on purpose.

    PenstockError
    |-- UsageError          the request is wrong (exit 64)
    |   `-- SpecMismatch    a run id exists with another spec
    |-- PermanentError      trying again cannot help (exit 65)
    |   |-- Unreadable      stored or sent data is not what Penstock wrote
    |   |-- PlanningError   the plan cannot be made: nothing was changed
    |   |   |-- MissingTarget   the target's table is not there
    |   |   `-- Drifted     the columns of both sides have parted (exit 76)
    |   |-- SnapshotLost    the run's view of the source is gone
    |   |-- LoadLost        a crash of the target has emptied an unlogged table
    |   |-- TargetChanged   the target's table is not the one that the run loaded
    |   `-- RunFailed       a run ended with partitions that are not committed
    |-- TransientError      trying again may help (exit 75)
    |   |-- StallError      no bytes moved for too long
    |   |-- TooManyConnections
    |   |-- WorkerLost      a worker ended without a final event
    |   |-- NoHolder        nobody holds the awaited snapshot
    |   |-- Superseded      somebody else has just changed the run
    |   |-- TargetBusy      another run is changing the same rows
    |   |-- Overtaken       another night has ended since the run was planned
    |   |-- Blocked         somebody's statement waits for the run's snapshot
    |   `-- RunFailedTransiently
    `-- Interrupted         cancelled by a signal (exit 130)

Exit codes are those of sysexits.h (64 EX_USAGE, 65 EX_DATAERR, 70 EX_SOFTWARE, 75 EX_TEMPFAIL,
76 EX_PROTOCOL); 130 is the shell's 128 + SIGINT.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EXIT_DONE = 0
EXIT_USAGE = 64
EXIT_PERMANENT = 65
EXIT_BUG = 70
EXIT_TRANSIENT = 75
EXIT_DRIFT = 76
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a server reports about an error."""

    side: str = ""
    """``source``, ``target`` or empty."""
    code: str = ""
    """The server's error code."""
    detail: str = ""
    hint: str = ""
    context: str = ""
    """The line context of a COPY, for instance."""
    constraint: str = ""


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose.

    Parameters:
        message: says what is wrong and where, and what to do. Never contains a secret.
        diagnosis: what the server reported.
    """

    exit_code = EXIT_BUG
    transient = False

    def __init__(self, message: str, diagnosis: Diagnosis | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.diagnosis = diagnosis or Diagnosis()

    def as_json(self) -> dict[str, Any]:
        """The error as carried by a ``failed`` event."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "transient": self.transient,
            **{name: value for name, value in asdict(self.diagnosis).items() if value},
        }


class UsageError(PenstockError):
    exit_code = EXIT_USAGE


class SpecMismatch(UsageError):
    """A run id exists with another spec."""


class PermanentError(PenstockError):
    exit_code = EXIT_PERMANENT


class Unreadable(PermanentError):
    """Stored or sent data is not what Penstock wrote."""


class PlanningError(PermanentError):
    """The plan cannot be made. Nothing was changed."""


class MissingTarget(PlanningError):
    """The target's table is not there, and the mode does not make it."""

    plan: Any = None
    """How the source would be cut, where `plan` was asked: a `PartitionPlan`."""


class Drifted(PlanningError):
    """The columns of the source and of the target's table have parted, and `--on-drift` does not
    say what to do about all of it. Nothing was changed."""

    exit_code = EXIT_DRIFT


class SnapshotLost(PermanentError):
    """The run's view of the source is gone."""


class LoadLost(PermanentError):
    """A crash of the target has emptied the table of an unlogged load."""


class TargetChanged(PermanentError):
    """The target's table is not the one that the run loaded, or was emptied since."""


class RunFailed(PermanentError):
    """A run ended with partitions that are not committed; the report says which."""


class TransientError(PenstockError):
    exit_code = EXIT_TRANSIENT
    transient = True


class StallError(TransientError):
    """No bytes moved in either direction for the stall timeout."""


class TooManyConnections(TransientError):
    """A server has no connection left: fewer streams may work."""


class WorkerLost(TransientError):
    """A worker ended, or fell silent, without a terminal event for its attempt."""


class NoHolder(TransientError):
    """Nobody came in time to hold the run's snapshot."""


class Superseded(TransientError):
    """Somebody else has just replaced the run's snapshot, or started it over."""


class TargetBusy(TransientError):
    """Another process executes a run that changes the same rows of the target's table, or reads
    other partitions of this run with a snapshot that does not go with the one asked for."""


class Overtaken(TransientError):
    """Another night has ended since this one was planned: what it would merge is there, or older.

    Parameters:
        by: the run that has ended it.
    """

    def __init__(self, message: str, diagnosis: Diagnosis | None = None, *, by: str = "") -> None:
        super().__init__(message, diagnosis)
        self.by = by


class Blocked(TransientError):
    """Somebody's statement waits for a lock that a snapshot of Penstock's holds.

    What needs that lock next would wait behind it; or the run has given way to it.
    """


class RunFailedTransiently(TransientError):
    """Every failure of the run was transient: ``resume`` may succeed."""


class Interrupted(PenstockError):
    exit_code = EXIT_INTERRUPTED


def is_cancellation(error: BaseException) -> bool:
    """Whether it is a request to end rather than a failure: exceptions that do not derive from
    `Exception` end processes, such as an orchestrator's own.
    """
    return isinstance(error, Interrupted) or not isinstance(error, Exception)
