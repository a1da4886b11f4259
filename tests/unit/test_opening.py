"""The source is opened on a thread of its own, and closed if it is not taken."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from penstock.engine.opening import PendingSession
from penstock.errors import TransientError

if TYPE_CHECKING:
    from penstock.backends.api.source import SourceCatalog


class Slow:
    """A source that opens only when it may."""

    def __init__(self) -> None:
        self.requested, self.may_open, self.closed = (threading.Event() for _ in range(3))

    def open(self) -> SourceCatalog:
        self.requested.set()
        assert self.may_open.wait(30)
        return cast("SourceCatalog", self)

    def close(self) -> None:
        assert not self.closed.is_set(), "closed before"
        self.closed.set()


def test_opens_ahead_of_its_use() -> None:
    source = Slow()
    opening = PendingSession(source.open, ahead=True)
    assert source.requested.wait(30)
    source.may_open.set()
    assert opening.take() is cast("SourceCatalog", source)
    opening.close()
    assert not source.closed.is_set()


def test_opens_only_on_use_if_not_ahead() -> None:
    source = Slow()
    source.may_open.set()
    opening = PendingSession(source.open, ahead=False)
    assert not source.requested.is_set()
    assert opening.take() is cast("SourceCatalog", source)
    opening.close()
    assert not source.closed.is_set()


@pytest.mark.parametrize("late", [True, False])
def test_closes_a_source_that_is_not_taken(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.opening.LEAVE_SECONDS", 0.01 if late else 30)
    source = Slow()
    opening = PendingSession(source.open, ahead=True)
    if late:
        opening.close()
        assert not source.closed.is_set()
        source.may_open.set()
    else:
        threading.Timer(0.05, source.may_open.set).start()
        opening.close()
    assert source.closed.wait(30)


def test_an_error_is_raised_on_use() -> None:
    def refuse() -> SourceCatalog:
        raise TransientError("source: not now")

    opening = PendingSession(refuse, ahead=True)
    with pytest.raises(TransientError, match="not now"):
        opening.take()
    opening.close()
