"""One copy within this process, with its events and its error."""

from __future__ import annotations

from typing import Any

import penstock
from penstock import CopySpec
from penstock.errors import PenstockError
from penstock.events import Event, Failed, Finished


class OneCopy:
    """A copy that has ended, with or without an error.

    Args:
        options: the options of the copy.
    """

    def __init__(self, **options: Any) -> None:
        self.events: list[Event] = []
        self.error: PenstockError | None = None
        try:
            for event in penstock.copy(CopySpec(**options)):
                self.events.append(event)
        except PenstockError as error:
            self.error = error

    @property
    def message(self) -> str:
        """Return the message of the failed partition, or else that of the copy's error."""
        for event in self.events:
            if isinstance(event, Failed):
                return str(event.error["message"])
        return self.error.message if self.error else ""

    @property
    def code(self) -> int:
        return self.error.exit_code if self.error else 0

    def done(self) -> Finished:
        """Check that the copy succeeded, and return its report."""
        assert not self.error, self.message
        report = self.events[-1]
        assert isinstance(report, Finished)
        return report
