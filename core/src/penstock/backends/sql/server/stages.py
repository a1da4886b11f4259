"""Records on a server whose attempts have stages.

Each attempt has a row in the control table `stage`, and owns its partition until another attempt
does. An attempt that resumes after its partition was reassigned cannot commit.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.sql.loads.loaded_table import LoadedTable, table_changed
from penstock.backends.sql.server.records import ServerRecords
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.errors import PenstockError
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES, Mode

S = TypeVar("S", bound=InterruptibleSession)


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage, as recorded in the control tables."""

    token: str
    partition_id: str
    attempt: int
    beats: int
    """Counts the signs of life."""
    owns: bool
    """Whether the attempt owns its partition."""
    more: tuple[Any, ...] = ()
    """As in `StageRecords.attributes`."""


class StageRecords(ServerRecords, Generic[S]):
    """Records in which each attempt registers its stage and gives signs of life."""

    attributes: ClassVar[Sequence[str]] = ()
    """Further columns of a stage to read, as in a SELECT."""
    row_form: ClassVar[str] = "VALUES ({})"
    """The text after INSERT INTO and the table's name; `{}` stands for the values."""
    sign: ClassVar[str] = "beats = beats + 1"
    """The changes to a row that are a sign of life."""
    extra_columns: ClassVar[Collection[str]] = ("stage",)

    def __init__(self, session: S, schema: str, *, loading: bool = False) -> None:
        super().__init__(session, schema, loading=loading)
        self._session = session

    @property
    def session(self) -> S:
        return self._session

    # Transactions

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def roll_back(self) -> None:
        """Roll back; does nothing after a commit, and raises nothing if the session has ended."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            self.roll_back()
            raise

    # The table that is loaded

    @abstractmethod
    def creation_mark(self, table: TableRef) -> str | None:
        """Return a text that changes when a table is recreated; None or empty without a table."""

    def creation_time(self, mark: str) -> str:
        """Return when that was, as text."""
        return mark

    def check_no_other_rows(self, run_id: str, table: TableRef, mode: Mode, mine: int) -> None:
        """Check for rows of others.

        Args:
            run_id: the id of the run.
            table: the table.
            mode: the mode of the load.
            mine: the rows that the transaction has loaded but not recorded.

        Raises:
            TargetChanged: there are other rows where a run should be alone, as far as the server
                can tell.
        """

    def check_loaded(self, run_id: str, table: TableRef, mode: str, mine: int = 0) -> None:
        """Check the rows of a run.

        Args:
            run_id: the id of the run.
            table: the table.
            mode: the name of the mode.
            mine: as for `check_no_other_rows`.

        Raises:
            TargetChanged: rows that the run has loaded are gone, or rows of others are in the
                table although the mode removes them, as far as the server can tell.
        """
        LoadedTable(self, table).check(run_id, MODES[mode])
        for row in self.read(Kind.RUN, {"run_id": run_id}, ("made", "prepared_at")):
            if row["prepared_at"] is None or not row["made"]:
                continue
            mark = self.creation_mark(table)
            if mark != row["made"]:
                replacement = f"one created at {self.creation_time(mark)}" if mark else ""
                actual = replacement or "no table of that name"
                expected = f"the table created at {self.creation_time(row['made'])}"
                raise table_changed(run_id, table, expected, actual)
            self.check_no_other_rows(run_id, table, MODES[mode], mine)

    # Attempts

    def new_token(self, before: str) -> str:
        """Return a token that shows whether an attempt is alive; empty if none is available now.

        Args:
            before: the token of this session's last attempt, which has ended; or empty.
        """
        return secrets.token_hex(16)

    @abstractmethod
    def guarding(self, run_id: str, partition_id: str) -> AbstractContextManager[None]:
        """Open a transaction in which no other session reads or changes a partition's owner."""

    @abstractmethod
    def is_alive(self, stage: StageRow) -> bool:
        """Whether an attempt may still be running."""

    def is_heard(self, stage: StageRow) -> bool:
        """Whether an attempt has given a sign of life recently."""
        return self.is_alive(stage)

    @abstractmethod
    def holds(self, token: str) -> bool:
        """Whether an attempt owns its partition, asked in the transaction that commits it."""

    def stage_table(self, token: str) -> str:
        """Return the name of the table in which an attempt may stage rows, for statements."""
        return self.session.table(TableRef(self.schema, f"stage_{token}"))

    @abstractmethod
    def drop_stage(self, token: str) -> None:
        """Remove an attempt's staged rows, and its row in `stage`."""

    def claim_values(self) -> tuple[str, Sequence[Any]]:
        """Return additional values of a new row, as SQL, and their parameters."""
        return "", ()

    def stages(self, where: Row) -> list[StageRow]:
        """Return stages, sorted by partition."""
        tests, values = self._tested(where)
        listed = ", ".join(("token, partition_id, attempt, beats, owner", *self.attributes))
        rows = self.session.connection.rows(
            f"SELECT {listed} FROM {self.table_name('stage')}{f' WHERE {tests}' if tests else ''}"
            " ORDER BY partition_id",
            values,
        )
        return [
            StageRow(token, name, int(number), int(beats), bool(owner), tuple(more))
            for token, name, number, beats, owner, *more in rows
        ]

    def owners(self, where: Row) -> list[StageRow]:
        """Return the stages of attempts that own their partitions and may be alive."""
        return list(filter(self.is_alive, self.stages({**where, "owner": 1})))

    def active_partitions(self, run_id: str) -> dict[str, int]:
        with self.session.translated(f"run {run_id}"):
            return {
                stage.partition_id: stage.attempt
                for stage in self.owners({"run_id": run_id})
                if self.is_heard(stage)
            }

    def claim(self, token: str, attempt: Attempt) -> None:
        """Make an attempt the owner of its partition."""
        mine = {"run_id": attempt.spec.run_id, "partition_id": attempt.partition.id}
        self.void(mine)
        more, values = self.claim_values()
        places = ", ".join(self.placeholder(number) for number in range(1, 5))
        form = self.row_form.format(f"{places}, 1, 0{more}")
        self.session.connection.change(
            f"INSERT INTO {self.table_name('stage')} {form}",
            [token, *mine.values(), attempt.number, *values],
        )

    def void(self, where: Row) -> None:
        """Withdraw ownership from attempts, which notice before they commit."""
        tests, values = self._tested({**where, "owner": 1})
        self.session.connection.change(
            f"UPDATE {self.table_name('stage')} SET owner = 0 WHERE {tests}", values
        )

    def end_attempt(self, token: str) -> None:
        """Withdraw an attempt's partition, so that it can never commit."""
        self.void({"token": token})

    def beat(self, token: str) -> None:
        """Give a sign of life, for sessions that wait for an attempt."""
        self.session.connection.change(
            f"UPDATE {self.table_name('stage')} SET {self.sign}"
            f" WHERE token = {self.placeholder(1)}",
            [token],
        )

    def sweep(self, mine: str = "") -> None:
        """Remove the stages of attempts that are dead or own nothing any more.

        Args:
            mine: the token of this session's attempt.
        """
        with self.session.translated("stages"):
            for stage in self.stages({}):
                if stage.token != mine and not (stage.owns and self.is_alive(stage)):
                    # A stage that is still locked is left to the next sweep.
                    with suppress(PenstockError), self.session.translated("stages"):
                        self.drop_stage(stage.token)

    def _tested(self, where: Row) -> tuple[str, list[Any]]:
        places = (f"{name} = {self.placeholder(place)}" for place, name in enumerate(where, 1))
        return " AND ".join(places), list(where.values())
