"""Older sessions of a run that are in the way: waited for, and ended where they do not move."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import psycopg

from penstock.backends.postgresql.statements import for_server
from penstock.backends.shared.older_attempts import Stalled
from penstock.errors import Diagnosis, PenstockError, StallError, TransientError
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.postgresql.connection import Connection

# Seconds. A shorter wait is not worth a message, nor a connection to find out its cause; a
# step that locks others out waits for its lock less long.
QUIET = 3.0
# How long an attempt that is about to commit is waited for when its run starts over.
QUIET_TO_SHUT_OUT = 1.0
LOOK_EVERY = 0.5
# How long whoever has looked may take to leave. Still connecting when the process ends, it could
# crash in a library that is being cleaned up.
LEAVE_SECONDS = 2.0

_log = logging.getLogger("penstock")


def control_name(run_id: str) -> str:
    """How a session is called that does something to a whole run."""
    return f"penstock:control/{run_id}"


def is_of_run(application_name: str, run_id: str) -> bool:
    attempt = application_name.startswith(f"penstock:{run_id}:")
    return attempt or application_name == control_name(run_id)


def end_session(connection: Connection, pid: int, what: str) -> None:
    """
    Parameters:
        what: what kind of session it is, for a message.

    Raises:
        TransientError: this user may not end it.
    """
    try:
        connection.execute("SELECT pg_catalog.pg_terminate_backend(%s)", [pid])
    except psycopg.errors.InsufficientPrivilege as error:
        raise TransientError(
            f"target: an older {what} is cut off but still open (session {pid}), and "
            f"{connection.info.user!r} may not end it; connect as its user, or as a member of "
            "pg_signal_backend",
            Diagnosis(side="target", code=error.sqlstate or ""),
        ) from error


class Guard:
    """Keeps a session from waiting for ever while it works for a run.

    Older sessions of the run that are in its way are ended after the grace time without progress.
    For others it waits for the stall timeout without progress. It says whom it waits for.

    Parameters:
        connect: opens another session, to look at what the first one waits for.
        shut_out: is called with that one, again and again, once a statement has to wait.
    """

    def __init__(
        self,
        run_id: str,
        patience: Patience,
        connect: Callable[[], Connection],
        shut_out: Callable[[Connection], None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.what = f"run {run_id}" if run_id else "the control tables"
        self.patience = patience
        self.connect = connect
        self.shut_out = shut_out
        self.quiet = QUIET if shut_out is None else QUIET_TO_SHUT_OUT

    @contextlib.contextmanager
    def watching(self, connection: Connection) -> Iterator[None]:
        """
        Raises:
            StallError: what is in the way does not move, and is not ours to end.
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
    """Looks after one statement."""

    def __init__(self, guard: Guard, connection: Connection) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.error: PenstockError | None = None
        self._guard = guard
        self._watched = connection
        self._pid = connection.server_pid
        self._stalled: Stalled[int] = Stalled(guard.patience.grace)
        self._told: set[int] = set()
        self._signs: set[tuple[int, str]] = set()
        self._since = 0.0

    def run(self) -> None:
        if self.over.wait(self._guard.quiet):
            return
        self._since = time.monotonic()
        looker: Connection | None = None
        while not self.over.wait(LOOK_EVERY):
            try:
                if looker is None or looker.closed:
                    looker = self._guard.connect()
                if self._guard.shut_out is not None:
                    self._guard.shut_out(looker)
                holders = self._holders(looker)
            except (psycopg.Error, PenstockError):
                continue  # try again at the next look
            try:
                self._look(looker, holders)
            except psycopg.Error:
                continue
            except PenstockError as error:
                self.error = error
                with contextlib.suppress(psycopg.Error, OSError):
                    self._watched.cancel_safe()
                break
        if looker is not None:
            looker.close()

    def _holders(self, looker: Connection) -> list[tuple[int, str, str, str]]:
        found = looker.execute(for_server(looker, "blockers"), {"pid": self._pid}).fetchall()
        return [(pid, name or "", signs, user or "") for pid, name, signs, user in found]

    def _look(self, looker: Connection, holders: Sequence[tuple[int, str, str, str]]) -> None:
        run_id, patience = self._guard.run_id, self._guard.patience
        for pid, name, _, user in holders:
            if pid not in self._told:
                self._told.add(pid)
                _log.warning(
                    "%s: waiting for session %d of user %s in the target (%s), which holds a lock "
                    "that it needs",
                    *(self._guard.what, pid, user, name or "no name"),
                )
        ours = {pid: signs for pid, name, signs, _ in holders if is_of_run(name, run_id)}
        for pid in self._stalled.find(ours):
            end_session(looker, pid, f"session of {self._guard.what}")
            _log.warning(
                "%s: ended an older session of its own in the target, %d: no progress for %g s",
                *(self._guard.what, pid, patience.grace),
            )
        signs = {(pid, signs) for pid, _, signs, _ in holders}
        now = time.monotonic()
        if not signs or signs != self._signs:
            self._signs, self._since = signs, now
        elif patience.stall_timeout and now - self._since >= patience.stall_timeout:
            others = "; ".join(
                f"session {pid} of user {user} ({name or 'no name'})"
                for pid, name, _, user in holders
            )
            raise StallError(
                f"target: {self._guard.what}: expected a lock within {patience.stall_timeout:g} s, "
                f"found it held by {others}, idle all that time; end that session, or wait for it, "
                "and resume",
                Diagnosis(side="target"),
            )
