"""A connection is freed by the thread that closes it, or by one whose call is still running."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import ref

import pytest

from penstock.backends.shared.in_use import InUse


class Held:
    """A connection that notes which thread has freed it."""

    def __init__(self) -> None:
        self.in_use = InUse(self.free)
        self.freed_by: list[threading.Thread] = []

    def free(self) -> None:
        if not self.freed_by:
            self.freed_by.append(threading.current_thread())


class Calling:
    """A thread in the middle of a call."""

    def __init__(self, connection: Held) -> None:
        self._connection = connection
        self._has_begun, self._may_end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._call)
        self.thread.start()
        assert self._has_begun.wait(30)

    def _call(self) -> None:
        with self._connection.in_use:
            self._has_begun.set()
            assert self._may_end.wait(30)
            assert not self._connection.freed_by

    def end(self) -> None:
        self._may_end.set()
        self.thread.join(30)


def test_an_idle_connection_is_freed_at_once() -> None:
    connection = Held()
    connection.in_use.free()
    assert connection.freed_by == [threading.current_thread()]
    with connection.in_use:
        pass
    connection.in_use.free()


def test_a_running_call_frees_the_connection_at_its_end() -> None:
    connection = Held()
    calling = Calling(connection)
    connection.in_use.free(0)
    assert not connection.freed_by
    calling.end()
    assert connection.freed_by == [calling.thread]


def test_closing_waits_for_a_call_that_ends_in_time() -> None:
    connection = Held()
    calling = Calling(connection)
    closing = threading.Thread(target=connection.in_use.free, args=(30,))
    closing.start()
    calling.end()
    closing.join(30)
    assert not closing.is_alive()
    assert connection.freed_by[0] in (calling.thread, closing)


def test_the_last_call_frees_an_abandoned_connection() -> None:
    connection = Held()
    calling = Calling(connection)
    connection.in_use.leave()
    calling.end()
    assert connection.freed_by == [calling.thread]


def test_an_abandoned_connection_accepts_no_call() -> None:
    connection = Held()
    connection.in_use.leave()
    with connection.in_use:
        assert connection.freed_by


@pytest.mark.parametrize("close", [InUse.leave, InUse.free])
def test_a_thread_may_close_the_connection_within_its_own_call(
    close: Callable[[InUse], None],
) -> None:
    connection = Held()
    with connection.in_use:
        close(connection.in_use)
    assert connection.freed_by == [threading.current_thread()]


def test_in_use_does_not_keep_a_connection_alive() -> None:
    connection = Held()
    reference = ref(connection)
    del connection
    assert reference() is None
