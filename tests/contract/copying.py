"""Copies between two databases, and the checks after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import CopySpec, copy, resume, verify
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PenstockError, PlanningError, UsageError
from penstock.events import Event, Finished

from .database import Database
from .rows import KINDS, Rows, every_kind, numbered

ROWS = numbered(300)
OLD = Rows(ROWS.columns, [(*row[:2], -1.0, "old") for row in numbered(400).rows])

STRATEGIES: dict[str, dict[str, Any]] = {
    "auto": {},
    "whole": {},
    "blocks": {"partitions": 2},
    "range": {"key": "id", "partitions": 2},
    "ntile": {"key": "id", "partitions": 2},
    "hash": {"key": "id", "partitions": 2},
    "values": {"key": "grp"},
    "time": {"key": "day", "interval": "20 days"},
    "children": {},
    "files": {"partitions": 2},
}
"""The options with which each strategy partitions `ROWS`."""


def finish(events: Iterator[Event]) -> Finished:
    """Read all events, and return the last; an error gets a note with the events before it."""
    lines = []
    try:
        for event in events:
            last = event
            lines.append(event.to_line())
    except PenstockError as error:
        for line in lines:
            error.add_note(line)
        raise
    assert isinstance(last, Finished)
    return last


@dataclass(frozen=True)
class Pair:
    mine: Database
    theirs: Database
    prefix: str = ""
    """A prefix for the URLs, which puts another backend in front of theirs."""

    @property
    def _options(self) -> dict[str, Any]:
        options = {**self.mine.source, **self.theirs.target}
        return options | {name: f"{self.prefix}{options[name]}" for name in ("source", "target")}

    @property
    def ends(self) -> dict[str, Any]:
        """Return the two URLs."""
        return {name: self._options[name] for name in ("source", "target")}

    @property
    def words(self) -> list[str]:
        """Return the URLs and the tables as command-line arguments."""
        options = {name: value for name, value in self._options.items() if value is not None}
        return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]

    def make(self, rows: Rows = ROWS, key: str = "") -> None:
        """Fill the source, and create the target's table if it needs one."""
        self.mine.fill(rows)
        if self.theirs.needs_table:
            self.theirs.make(rows, key)

    def spec(self, **options: Any) -> CopySpec:
        return CopySpec(**{"degree": 1, **self._options, **options})

    def copy(self, **options: Any) -> Finished:
        return finish(copy(self.spec(**options)))

    def resume(self, run_id: str, **options: Any) -> Finished:
        return finish(resume(run_id, **self.ends, **options))

    @property
    def every_kind(self) -> Rows:
        """Return rows with values of each kind that both sides support."""
        mine, theirs = self.mine.types, self.theirs.types
        return every_kind(kind for kind in KINDS if kind in mine and kind in theirs)

    @contextmanager
    def target(self) -> Iterator[TargetCatalog]:
        backend = self.theirs.backend
        url = backend.resolve(self.theirs.url, {}, "--target")
        with closing(backend.target(url, "penstock")) as catalog:
            yield catalog

    def check(self, rows: Rows = ROWS, times: int = 1) -> None:
        """Check that the target has these rows, each this number of times."""
        expected = Counter(map(repr, rows.plain * times))
        found = Counter(map(repr, self.theirs.read()))
        assert found == expected, f"missing {expected - found}, too many {found - expected}"

    def verify(self, finished: Finished) -> None:
        """Check with Penstock's own verification that both ends have the same rows."""
        found = verify(finished.run_id, **self.ends, checksum=self.hashes_texts)
        assert found.ok, [(check.partition_id, check.note) for check in found.wrong]
        assert found.method == ("checksums" if self.hashes_texts else "counts")

    @property
    def hashes_texts(self) -> bool:
        return self.mine.hashes_texts and self.theirs.hashes_texts

    def compares_texts(self) -> None:
        """Skip a test that compares texts if one of the two systems cannot."""
        if not self.hashes_texts:
            pytest.skip("checksums of text columns need SQL Server 2019, or another system")

    @contextmanager
    def refused(self, *parts: str) -> Iterator[None]:
        """Check that the copy is rejected before anything in the target changes."""
        before, rows = self.theirs.everything(), self.theirs.read()
        with pytest.raises((PlanningError, UsageError)) as caught:
            yield
        for part in parts:
            assert part in caught.value.message
        assert self.theirs.everything() == before
        assert self.theirs.read() == rows
