"""Records as rows of control tables, for SQL databases."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from penstock.backends.api.execution.records import Kind, Now, RecordStore, Row

JSON = frozenset(
    {
        *("spec", "plan", "source_state", "snapshots", "failures", "target_state"),
        *("spent", "content"),
    }
)
TIMES = frozenset(
    {
        "created_at",
        "prepared_at",
        "finished_at",
        "snapshot_released_at",
        "started_at",
        "committed_at",
        "made_at",
    }
)
# Rows and values per statement.
MOST = 500
# Journals per statement.
JOURNALS = 100
_JOURNAL = ("run_id", "execution_id", "content")

T = TypeVar("T")


class SqlRecords(RecordStore):
    """Records in the control schema; subclasses supply the connection and the dialect."""

    now = "now()"
    text = "VARCHAR"
    upserts = False
    """Whether the database supports INSERT ... ON CONFLICT ... DO UPDATE."""

    @abstractmethod
    def table_name(self, table: str) -> str:
        """Return a control table's name for statements."""

    def ident(self, column: str) -> str:
        """Return a column's name for statements."""
        return column

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """Return the placeholder of a statement's n-th value, counted from 1."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        """Return the rows of a statement, executed in the transaction if one is open.

        Args:
            statement: the statement.
            values: the values of the placeholders.
            reading: whether the statement returns rows.
        """

    def read_json(self, value: Any) -> Any:
        """Convert a JSON column to Python."""
        return json.loads(value)

    def driver_value(self, column: str, value: Any) -> Any:
        """Convert a value for the driver."""
        return json.dumps(value, sort_keys=True) if column in JSON and value is not None else value

    def read(self, kind: Kind, where: Row, columns: Sequence[str]) -> list[Row]:
        return self._select(kind, where, columns)

    def latest_watermarks(self, names: Sequence[str], columns: Sequence[str]) -> list[Row]:
        table = self.table_name(Kind.WATERMARK.value)
        newest = f"(SELECT max(w.epoch) FROM {table} AS w WHERE w.name = {table}.name)"
        where = {"name": tuple(names)}
        return self._select(Kind.WATERMARK, where, columns, f" AND epoch = {newest}")

    def _select(self, kind: Kind, where: Row, columns: Sequence[str], more: str = "") -> list[Row]:
        """Select records.

        Args:
            kind: the kind of the records.
            where: values that fields of the records must have; a sequence for any of several.
            columns: the fields to return.
            more: text appended to the condition.
        """
        listed = ", ".join(
            f"CAST({self.ident(name)} AS {self.text})" if name in TIMES else self.ident(name)
            for name in columns
        )
        in_json = [name for name in columns if name in JSON]
        records: list[Row] = []
        for condition, values in self._conditions(where):
            for row in self.execute(
                f"SELECT {listed} FROM {self.table_name(kind.value)} WHERE {condition}{more}",
                values,
                reading=True,
            ):
                record = dict(zip(columns, row, strict=True))
                for name in in_json:
                    record[name] = None if record[name] is None else self.read_json(record[name])
                records.append(record)
        return records

    def read_all(
        self, kind: Kind, run_ids: Sequence[str], columns: Sequence[str]
    ) -> dict[str, list[Row]]:
        records: dict[str, list[Row]] = {run_id: [] for run_id in run_ids}
        fields = columns if "run_id" in columns else ("run_id", *columns)
        for row in self.read(kind, {"run_id": tuple(run_ids)}, fields) if run_ids else ():
            records[row["run_id"]].append(row)
        return records

    def count(self, kind: Kind, where: Row) -> int:
        return sum(
            count
            for condition, values in self._conditions(where)
            for (count,) in self.execute(
                f"SELECT count(*) FROM {self.table_name(kind.value)} WHERE {condition}",
                values,
                reading=True,
            )
        )

    def tally(self, run_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        rows = self.ident("rows")
        return {
            run_id: (int(partitions), int(total))
            for condition, values in self._conditions({"run_id": tuple(run_ids)})
            for run_id, partitions, total in self.execute(
                f"SELECT run_id, count(*), sum({rows}) FROM {self.table_name(Kind.COMMIT.value)}"
                f" WHERE {condition} GROUP BY run_id",
                values,
                reading=True,
            )
        }

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        added = 0
        for some in _pieces(rows):
            values: list[Any] = []
            tuples = ", ".join(
                f"({', '.join(self._value(name, value, values) for name, value in row.items())})"
                for row in some
            )
            listed = ", ".join(map(self.ident, some[0]))
            added += self.insert(
                f"INTO {self.table_name(kind.value)} ({listed}) VALUES {tuples}", values
            )
        return added

    def put_journals(self, rows: Sequence[Row]) -> None:
        if not self.upserts:
            self._put_in_place(rows)
            return
        key = ", ".join(map(self.ident, ("run_id", "execution_id")))
        content = self.ident("content")
        for first in range(0, len(rows), JOURNALS):
            values: list[Any] = []
            listed = ", ".join(
                f"({', '.join(self._value(name, row[name], values) for name in _JOURNAL)})"
                for row in rows[first : first + JOURNALS]
            )
            self.execute(
                f"INSERT INTO {self.table_name(Kind.JOURNAL.value)} ({key}, {content})"
                f" VALUES {listed}"
                f" ON CONFLICT ({key}) DO UPDATE SET {content} = excluded.{content}",
                values,
                reading=False,
            )

    def _put_in_place(self, rows: Sequence[Row]) -> None:
        """Put journals as `put_journal` does, but together."""
        by_execution: dict[str, dict[str, Row]] = {}
        for row in rows:
            by_execution.setdefault(row["execution_id"], {})[row["run_id"]] = row
        for execution_id, mine in by_execution.items():
            for run_ids in _pieces(list(mine), JOURNALS):
                where = {"run_id": tuple(run_ids), "execution_id": execution_id}
                existing_ids = {
                    row["run_id"] for row in self.read(Kind.JOURNAL, where, ("run_id",))
                }
                self.add(Kind.JOURNAL, [mine[run] for run in run_ids if run not in existing_ids])
                changes = {run: {"content": mine[run]["content"]} for run in existing_ids}
                self.set_each(Kind.JOURNAL, changes, {"execution_id": execution_id})

    def insert(self, rows: str, values: Sequence[Any]) -> int:
        """Insert rows whose keys do not exist yet.

        Args:
            rows: the text after INSERT.
            values: the values of the placeholders.

        Returns:
            how many were inserted.
        """
        statement = f"INSERT {rows} ON CONFLICT DO NOTHING RETURNING run_id"
        return len(self.execute(statement, values, reading=False))

    def update(self, statement: str, values: Sequence[Any]) -> int:
        """Execute a statement; return how many rows it matched."""
        return len(self.execute(f"{statement} RETURNING run_id", values, reading=False))

    def change(self, kind: Kind, where: Row, changes: Row) -> int:
        values: list[Any] = []
        assignments = ", ".join(
            f"{self.ident(name)} = {self._value(name, value, values)}"
            for name, value in changes.items()
        )
        statement = f"UPDATE {self.table_name(kind.value)} SET {assignments} WHERE"
        return sum(
            self.update(f"{statement} {condition}", all_values)
            for condition, all_values in self._conditions(where, values)
        )

    def set_each(self, kind: Kind, changes: Mapping[str, Row], further: Row | None = None) -> None:
        """Change the records of several runs, each to its own values.

        Args:
            kind: the kind of the records.
            changes: by run; all have the same columns.
            further: further conditions.
        """
        for run_ids in _pieces(list(changes)):
            values: list[Any] = []
            assignments = []
            for name in changes[run_ids[0]]:
                theirs = [changes[run_id][name] for run_id in run_ids]
                if all(value == theirs[0] for value in theirs):
                    value = self._value(name, theirs[0], values)
                else:
                    cases = " ".join(
                        f"WHEN {self._value('run_id', run_id, values)}"
                        f" THEN {self._value(name, value, values)}"
                        for run_id, value in zip(run_ids, theirs, strict=True)
                    )
                    value = f"CASE {self.ident('run_id')} {cases} END"
                assignments.append(f"{self.ident(name)} = {value}")
            statement = f"UPDATE {self.table_name(kind.value)} SET {', '.join(assignments)} WHERE"
            for condition, all_values in self._conditions(
                {"run_id": tuple(run_ids), **(further or {})}, values
            ):
                self.update(f"{statement} {condition}", all_values)

    def delete(self, kind: Kind, where: Row) -> None:
        for condition, values in self._conditions(where):
            self.execute(
                f"DELETE FROM {self.table_name(kind.value)} WHERE {condition}",
                values,
                reading=False,
            )

    def _conditions(
        self, where: Row, before: Sequence[Any] = ()
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yield conditions that together select the requested records, each with its values.

        There are several if a tuple is too long for one statement.

        Args:
            where: values that fields of the records must have; a sequence for any of several.
            before: values that precede them in the statement.
        """
        long = next((name for name, value in where.items() if isinstance(value, tuple)), None)
        if long is None:
            pieces: list[Row] = [where]
        else:
            pieces = [{**where, long: some} for some in _pieces(where[long])]
        for piece in pieces:
            values = list(before)
            tests = []
            for name, value in piece.items():
                if isinstance(value, tuple):
                    listed = ", ".join(self._value(name, each, values) for each in value)
                    tests.append(f"{self.ident(name)} IN ({listed})")
                else:
                    tests.append(f"{self.ident(name)} = {self._value(name, value, values)}")
            yield " AND ".join(tests) or "1 = 1", values

    def _value(self, column: str, value: Any, values: list[Any]) -> str:
        """Add a value to the statement's values, and return its placeholder."""
        if isinstance(value, Now):
            return self.now
        values.append(self.driver_value(column, value))
        return self.placeholder(len(values))


def _pieces(values: Sequence[T], size: int = MOST) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
