"""Stages: tables that hold what one attempt has loaded, until its parts are moved.

`MOVE PARTITION` atomically moves the parts of one of ClickHouse's partitions between tables. A
stage's moves use a query id of their own, and the server runs one query per id at a time: two at
once could move the same parts twice.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import Any, TypeVar

from clickhouse_connect.driver.exceptions import ClickHouseError

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.clickhouse.connection import Connection
from penstock.backends.clickhouse.dialect import CLICKHOUSE, OWN
from penstock.backends.clickhouse.errors import SAME_QUERY_ID, code_of, translated
from penstock.backends.clickhouse.load.documents import TableDocuments
from penstock.backends.roll_forward.runs import Runs
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model import values
from penstock.model.tables import TableRef

PREFIX = f"{OWN}stage_"
# Between two checks whether another process's move has ended.
_POLL = 0.05
# Parts are moved by linking their files.
_MOVE_SECONDS = 600.0

# What follows a table's engine.
_KEYS = re.compile(r" (?:PARTITION BY|PRIMARY KEY|ORDER BY) ")
# Prevents merges, because merged parts would count as ones whose rows are already folded.
_UNMERGED = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
)

T = TypeVar("T")


class Stages:
    """See `Pieces`: a piece is a stage.

    Args:
        database: the control database, which holds the stages.
    """

    def __init__(self, connection: Connection, database: str) -> None:
        self._connection = connection
        self._database = database

    # For the attempt

    def make(self, attempt: Attempt, like: TableRef) -> str:
        """Create an empty stage in which rows stay unchanged, and return its name."""
        spec = attempt.spec
        name = f"{PREFIX}{token_hex(8)}_{spec.run_id}"
        facts = {
            "run": spec.run_id,
            "generation": spec.generation,
            "partition": attempt.partition.id,
            "attempt": attempt.number,
        }
        comment = CLICKHOUSE.literal(json.dumps(facts))
        with translated("target", f"a stage like {like}"):
            engines = self._connection.rows(
                "SELECT engine_full FROM system.tables"
                " WHERE database = {p1:String} AND name = {p2:String}",
                [like.schema, like.name],
            )
            engine = _unfolding(engines[0][0]) if engines else ""
            table = CLICKHOUSE.table(like)
            self._connection.change(
                f"CREATE TABLE {self.quoted(name)} AS {table}{engine} COMMENT {comment}"
            )
        return name

    def quoted(self, name: str) -> str:
        return CLICKHOUSE.table(TableRef(self._database, name))

    def count(self, name: str) -> int | None:
        """Return the row count of a stage; None if it does not exist."""
        with translated("target", name):
            counts = self._connection.rows(
                "SELECT toInt64(total_rows) FROM system.tables"
                " WHERE database = {p1:String} AND name = {p2:String}",
                [self._database, name],
            )
        return int(counts[0][0] or 0) if counts else None

    # Pieces

    def publish(self, piece: Piece) -> bool:
        into = piece.pending.get("into")
        if into is None:
            return True
        table = CLICKHOUSE.table(TableRef(*into))

        def move() -> bool | None:
            remaining = self._partitions(piece.name)
            if not remaining:
                return None if self.count(piece.name) is None else True
            moves = (
                f"MOVE PARTITION ID {CLICKHOUSE.literal(id_)} TO TABLE {table}" for id_ in remaining
            )
            self._connection.change(
                f"ALTER TABLE {self.quoted(piece.name)} {', '.join(moves)}",
                query_id=_query_id(piece.name),
            )
            return False

        with translated("target", f"{piece.name} into {'.'.join(into)}"):
            while (outcome := self._call_exclusively(move)) is False:
                pass
        return outcome is True

    def discard(self, pieces: Iterable[Piece]) -> None:
        """Discard stages.

        Raises:
            PermanentError: rows are already in the table, where they cannot be told from others.
        """
        for piece in pieces:
            if piece.rows:
                remaining = self.count(piece.name) if piece.pending else 0
                if (remaining or 0) < piece.rows and not self._has_lost_its_table(piece):
                    raise PermanentError(
                        f"target: {piece.name}: {piece.rows:,} rows of a partition whose record "
                        "was taken back are already in the table, where they cannot be told from "
                        "others; delete them by hand, and start a new run",
                        Diagnosis(side="target"),
                    )
            self.drop(piece.name)

    def _has_lost_its_table(self, piece: Piece) -> bool:
        """Whether the rows were lost with their table."""
        run_id = piece.name.removeprefix(PREFIX).partition("_")[2]
        documents = TableDocuments(self._connection, self._database)
        run = Runs(documents, self).find(run_id)
        return run is not None and bool(run.disturbed_by)

    def drop(self, name: str) -> None:
        """Drop a stage, once no process is moving it."""
        with translated("target", name):
            statement = f"DROP TABLE IF EXISTS {self.quoted(name)}"
            self._call_exclusively(
                lambda: self._connection.change(statement, query_id=_query_id(name))
            )

    def all(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return the names of stages, and the recorded facts about their attempts."""
        with translated("target", "stages"):
            rows = self._connection.rows(
                "SELECT name, comment FROM system.tables WHERE database = {p1:String}"
                f" AND startsWith(name, '{PREFIX}')",
                [self._database],
            )
        return [(name, json.loads(comment)) for name, comment in rows]

    def _partitions(self, name: str) -> list[str]:
        # Moving a part leaves an empty part behind for a while.
        ids = self._connection.rows(
            "SELECT DISTINCT partition_id FROM system.parts"
            " WHERE active AND rows > 0 AND database = {p1:String} AND table = {p2:String}"
            " ORDER BY partition_id",
            [self._database, name],
        )
        return [id_ for (id_,) in ids]

    def _call_exclusively(self, call: Callable[[], T]) -> T:
        """Make a call, repeatedly if a query with its id is running.

        Raises:
            TransientError: the other query does not end.
        """
        deadline = time.monotonic() + _MOVE_SECONDS
        while True:
            try:
                return call()
            except ClickHouseError as error:
                if code_of(error) != SAME_QUERY_ID:
                    raise
                if time.monotonic() > deadline:
                    raise TransientError(
                        f"target: {values.server_message(str(error))}", Diagnosis(side="target")
                    ) from error
            time.sleep(_POLL)


def _unfolding(engine: str) -> str:
    """Return the engine of a stage, for a table whose own engine folds rows in merges."""
    keys = _KEYS.search(engine)
    if keys is None or engine.startswith("MergeTree"):
        return ""
    clauses = engine[keys.start() :]
    joint = "," if " SETTINGS " in clauses else " SETTINGS"
    return f" ENGINE = MergeTree{clauses}{joint} {_UNMERGED}"


def _query_id(name: str) -> str:
    return f"{name}_moves"
