"""A stage: a table that belongs to one attempt, and is loaded in bulk outside any transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.attempts.bulk_loader import BulkLoader
from penstock.backends.shared.values.arrow import Caster, schema_from_text
from penstock.backends.shared.values.guards import ValueGuard, check_values
from penstock.backends.sql.server.stages import StageRecords
from penstock.backends.sql.server.writer import ServerStage
from penstock.errors import Diagnosis, PenstockError, TransientError
from penstock.model.tables import Column

R = TypeVar("R", bound=StageRecords[Any])


class TableStage(ServerStage[R]):
    """See `Stage`.

    Args:
        columns: the target's loaded columns.
        guards: the guard of each column.
    """

    def __init__(
        self,
        records: R,
        attempt: Attempt,
        token: str,
        columns: Sequence[Column],
        guards: Sequence[Iterable[ValueGuard]],
    ) -> None:
        super().__init__(records, attempt, token)
        self._columns = list(columns)
        self._guards = [list(each) for each in guards]
        self._caster = Caster(schema_from_text(attempt.spec.schema), self._subject)
        self.table = records.stage_table(token)
        listed = ", ".join(
            f"{records.ident(column.name)} {self.staged_type(column)} NULL" for column in columns
        )
        with records.session.translated("stage"):
            records.session.connection.change(f"CREATE TABLE {self.table} ({listed})")
        self._rows_before = 0
        self._loader = BulkLoader(self.load, self.translated_error)

    # For subclasses

    @abstractmethod
    def staged_type(self, column: Column) -> str:
        """Return a staged column's type, from which the server can assign to the target's."""

    @abstractmethod
    def load(self, batches: Iterator[Any]) -> int:
        """Load all batches into the stage, in a thread; return the number of rows."""

    @abstractmethod
    def translated_error(self, error: BaseException) -> BaseException:
        """Translate an error from `load`."""

    def as_loaded(self, batch: Any) -> Any:
        """Return a batch in the loader's form."""
        return batch

    # As a stream

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """Raise the loader's errors with the next block."""

    def write(self, block: Block, wait: Wait) -> None:
        batch = self._caster.cast(block)
        check_values(batch, self._guards, self._subject, self._rows_before)
        self._loader.await_room(wait)
        self._rows_before += batch.num_rows
        self._loader.put(self.as_loaded(batch))
        self.beat()

    def end(self, wait: Wait) -> int:
        self._loader.end(wait)
        if self.rows != self._rows_before:
            raise TransientError(
                f"{self._subject}: expected {self._rows_before:,} rows to be staged, found "
                f"{self.rows:,}",
                Diagnosis(side="target"),
            )
        return self.rows

    # As a stage

    @property
    def rows(self) -> int:
        """The number of rows, known after the end."""
        return self._loader.row_count

    def remove(self) -> None:
        self._loader.abandon()
        with suppress(PenstockError), self._records.session.translated("stage"):
            self._records.drop_stage(self._token)
        self._loader.close()
