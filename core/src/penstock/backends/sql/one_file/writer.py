"""A partition is staged next to the database, then loaded in one transaction with its record.

Many partitions are staged at the same time; they take turns to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from penstock.backends.api.execution.attempt import Attempt, Stage, StagedTransaction
from penstock.backends.api.worker import Wait
from penstock.backends.shared.attempts.attempt_files import AttemptFiles
from penstock.backends.shared.background import compute
from penstock.backends.sql.catalog.catalog_facts import CatalogFacts
from penstock.backends.sql.loads.loaded_table import LoadRecords
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.one_file.records import FileRecords
from penstock.backends.sql.session import Session

T = TypeVar("T")


class FileHooks:
    """See `StagedHooks`.

    Args:
        stage: opens a stage, as `FileStage` does.
        loading: as `SqlLoading`.
    """

    # Opening a file with a thousand tables takes as long as staging this many bytes.
    unseen_bytes = 8 << 20

    def __init__(
        self,
        database: OneFile,
        stage: Callable[[AttemptFiles, Attempt], Stage],
        loading: Callable[[LoadRecords, Attempt], StagedTransaction],
    ) -> None:
        self._database = database
        self._stage = stage
        self._loading = loading
        # A stage is locked as long as its attempt lives.
        self.lock = database.attempts.lock
        self.end_older = database.attempts.end_older
        self.sweep = database.attempts.sweep
        self.interrupt = database.interrupt

    def open_stage(self, attempt: Attempt, wait: Wait) -> Stage:
        return self._stage(self._database.attempts, attempt)

    def reading(self, attempt: Attempt) -> AbstractContextManager[StagedTransaction]:
        return self._opened(self._database.reading(), attempt)

    def writing(self, attempt: Attempt) -> AbstractContextManager[StagedTransaction]:
        """Open the transaction.

        The database stays open until its end, and no other process gets a turn.
        """
        return self._opened(self._database.writing(), attempt)

    @contextmanager
    def _opened(
        self, opening: AbstractContextManager[Session], attempt: Attempt
    ) -> Iterator[StagedTransaction]:
        with opening as session:
            # No attempt creates or drops a table of the target.
            session.catalog_facts = CatalogFacts(())
            records = FileRecords(self._database, attempt.spec.control_schema, session)
            yield self._loading(records, attempt)

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        return compute(call, "target", wait, self.interrupt)
