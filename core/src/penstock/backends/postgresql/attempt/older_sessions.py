"""Older sessions of a run that block it: wait for them, and end those that make no progress."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import psycopg

from penstock.backends.postgresql.session.waiting import (
    SNAPSHOT,
    OtherSession,
    blocking_sessions,
    session_list,
)
from penstock.backends.shared.attempts.older_attempts import Stalled
from penstock.errors import Blocked, Diagnosis, PenstockError, StallError, TransientError
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.postgresql.connection import Connection

# Seconds. A shorter wait is not worth a message, nor a connection to find its cause. A step that
# locks others out waits less than this for its lock.
QUIET = 3.0
# How long a restarted run waits for an attempt that is about to commit.
QUIET_TO_SHUT_OUT = 1.0
LOOK_EVERY = 0.5
# Once a statement was seen not to wait, look at it less often.
LOOK_AGAIN = 5.0
# How long the watching thread may take to finish. If it were still connecting when the process
# ends, it could crash in a library that is being unloaded.
LEAVE_SECONDS = 2.0

# The end of the run id of a table in a batch; see `penstock.spec.batch_spec.run_id_of`.
_TABLE = re.compile("-[0-9a-f]{8}$")

_log = logging.getLogger("penstock")


def control_name(run_id: str) -> str:
    """Return the name of a session that works on a whole run."""
    return f"penstock:control/{run_id}"


def batch_name(batch_id: str) -> str:
    """Return the name of a session that works on many runs of a batch."""
    return f"penstock:batch/{batch_id}"


def batch_of(run_id: str) -> str:
    """Return the id of the batch to which the run of a table belongs; its own if to none."""
    table = _TABLE.search(run_id)
    return run_id[: table.start()] if table else run_id


def is_table_run(run_id: str, batch_id: str) -> bool:
    """Whether a run id belongs to a table of a batch."""
    return run_id.startswith(f"{batch_id}-") and bool(_TABLE.fullmatch(run_id, len(batch_id)))


def is_of_run(application_name: str, run_id: str) -> bool:
    """Whether a session works for a run or its batch.

    Given a batch id, whether it works for any of the batch's tables.
    """
    if application_name.startswith(f"penstock:{run_id}:"):
        return True
    if application_name in (control_name(run_id), batch_name(run_id)):
        return True
    if application_name == batch_name(batch_of(run_id)):
        return True
    for begins in ("penstock:control/", "penstock:"):
        if application_name.startswith(begins):
            return is_table_run(application_name.removeprefix(begins).partition(":")[0], run_id)
    return False


def end_session(connection: Connection, pid: int, what: str) -> None:
    """End a session of the run.

    Args:
        connection: a session of the same server.
        pid: the process id of the session to end.
        what: the kind of session, for messages.

    Raises:
        TransientError: the user may not end it.
    """
    try:
        connection.execute("SELECT pg_catalog.pg_terminate_backend(%s)", [pid])
    except psycopg.errors.InsufficientPrivilege as error:
        raise TransientError(
            f"target: an older {what} is cut off but still open (session {pid}), and "
            f"{connection.info.user!r} may not end it; connect as the session's user, or as a "
            "member of pg_signal_backend",
            Diagnosis(side="target", code=error.sqlstate or ""),
        ) from error


class Guard:
    """A guard that keeps a session from waiting forever for a lock.

    If older sessions of the run block it, they are ended after the grace time without progress. For
    other sessions it waits until the stall timeout passes without progress. It reports the sessions
    it waits for. It does not queue behind a statement that waits for a snapshot held by Penstock.

    Args:
        run_id: the run that the session works for in the target; empty if none.
        patience: how long to wait for the run's own sessions, and for others.
        connect: opens a second session, to look up what the first one waits for.
        shut_out: called repeatedly with that second session once a statement has to wait.
        look: called from time to time with that second session, however long a statement takes; an
            exception from it ends the statement.
        find: asks the second session for the process id of the watched one; None if it is known.
        side: the side of the server.
        what: the operation that waits, for messages.
    """

    def __init__(
        self,
        run_id: str,
        patience: Patience,
        connect: Callable[[], Connection],
        shut_out: Callable[[Connection], None] | None = None,
        *,
        look: Callable[[Connection], None] | None = None,
        find: Callable[[Connection], int | None] | None = None,
        side: str = "target",
        what: str = "",
    ) -> None:
        self.run_id = run_id
        self.what = what or (f"run {run_id}" if run_id else "the control tables")
        self.side = side
        self.patience = patience
        self.connect = connect
        self.shut_out = shut_out
        self.look = look
        self.find = find
        self.quiet = QUIET if shut_out is None else QUIET_TO_SHUT_OUT

    @contextlib.contextmanager
    def watching(self, connection: Connection) -> Iterator[None]:
        """Watch the statements of the block.

        Raises:
            StallError: the session in the way makes no progress, and is not one of the run's.
            Blocked: the statement queues behind one that waits for a snapshot held by Penstock.
        """
        watch = _Watch(self, connection)
        watch.start()
        try:
            yield
        except psycopg.errors.QueryCanceled:
            if watch.error is None:
                raise
            raise watch.error from None
        finally:
            watch.over.set()
            watch.join(LEAVE_SECONDS)


class _Watch(threading.Thread):
    """The watch over one statement."""

    def __init__(self, guard: Guard, connection: Connection) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.error: PenstockError | None = None
        self._guard = guard
        self._watched = connection
        self._pid = connection.server_pid
        self._stalled: Stalled[int] = Stalled(guard.patience.grace)
        self._reported: set[int] = set()
        self._signs: set[tuple[int, str]] = set()
        self._since = 0.0

    def run(self) -> None:
        if self.over.wait(self._guard.quiet):
            return
        self._since = time.monotonic()
        looker: Connection | None = None
        pause = LOOK_EVERY
        while not self.over.wait(pause):
            try:
                if looker is None or looker.closed:
                    looker = self._guard.connect()
                if self._guard.shut_out is not None:
                    self._guard.shut_out(looker)
                pid = self._pid if self._guard.find is None else self._guard.find(looker)
                sessions = [] if pid is None else blocking_sessions(looker, pid)
            except (psycopg.Error, PenstockError):
                continue  # try again at the next look
            pause = LOOK_EVERY if sessions or self._guard.shut_out else LOOK_AGAIN
            try:
                self._look(looker, sessions)
                if self._guard.look is not None:
                    self._guard.look(looker)
            except psycopg.Error:
                continue
            except PenstockError as error:
                self.error = error
                if not self.over.is_set():  # otherwise another statement may be running
                    with contextlib.suppress(psycopg.Error, OSError):
                        self._watched.cancel_safe()
                break
        if looker is not None:
            looker.close()

    def _look(self, looker: Connection, sessions: Sequence[OtherSession]) -> None:
        guard = self._guard
        waiting = [each for each in sessions if each.waits]
        holders = [each for each in sessions if not each.waits]
        for each in (*holders, *waiting):
            if each.pid not in self._reported:
                self._reported.add(each.pid)
                how = "is waiting for a lock itself" if each.waits else "holds a lock that it needs"
                _log.warning(
                    "%s: waiting for %s, in the %s, which %s",
                    *(guard.what, each, guard.side, how),
                )
        if waiting and any(each.name == SNAPSHOT for each in holders):
            raise blocked(guard.side, guard.what, waiting)
        ours = {
            each.pid: each.signs
            for each in holders
            if guard.run_id and is_of_run(each.name or "", guard.run_id)
        }
        for pid in self._stalled.find(ours):
            end_session(looker, pid, f"session of {guard.what}")
            _log.warning(
                "%s: ended its older session %d in the target, which made no progress for %g s",
                *(guard.what, pid, guard.patience.grace),
            )
        signs = {(each.pid, each.signs) for each in holders}
        now = time.monotonic()
        limit = guard.patience.stall_timeout
        if not signs or signs != self._signs:
            self._signs, self._since = signs, now
        elif limit and now - self._since >= limit:
            behind = f"; ahead of it in the queue: {session_list(waiting)}" if waiting else ""
            raise StallError(
                f"{guard.side}: {guard.what}: expected a lock within {limit:g} s, found it held by "
                f"{session_list(holders)}, idle all that time{behind}; end that session, or wait "
                "for it, and resume",
                Diagnosis(side=guard.side),
            )


def blocked(side: str, what: str, waiting: Sequence[OtherSession]) -> Blocked:
    """Return the error for a statement queued behind one that waits for Penstock's snapshot.

    Args:
        side: the side of the server.
        what: the operation that waits.
        waiting: the sessions that wait for the snapshot.
    """
    return Blocked(
        f"{side}: {what}: will not queue for a lock behind {session_list(waiting)}, which waits "
        "for the snapshot that Penstock holds there; let it finish, or cancel it, and try again",
        Diagnosis(side=side, code="55P03"),
    )
