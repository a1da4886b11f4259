"""One copy within this process, and what it has told."""

from __future__ import annotations

from typing import Any

import penstock
from penstock import CopySpec
from penstock.errors import PenstockError
from penstock.events import Event, Failed, Finished


class OneCopy:
    """
    Args:
        given: its options.
    """

    def __init__(self, **given: Any) -> None:
        self.events: list[Event] = []
        self.error: PenstockError | None = None
        try:
            for event in penstock.copy(CopySpec(**given)):
                self.events.append(event)
        except PenstockError as error:
            self.error = error

    @property
    def said(self) -> str:
        """Of a partition, where one has failed; else of the whole."""
        for event in self.events:
            if isinstance(event, Failed):
                return str(event.error["message"])
        return self.error.message if self.error else ""

    @property
    def code(self) -> int:
        return self.error.exit_code if self.error else 0

    def done(self) -> Finished:
        """Its report: it has come to its end."""
        assert not self.error, self.said
        report = self.events[-1]
        assert isinstance(report, Finished)
        return report
