"""Records as tables on a server, read and changed by many sessions."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, ClassVar

from penstock.backends.api.execution.records import Kind
from penstock.backends.sql.dialect import CatalogDialect, Dialect
from penstock.backends.sql.loads.loaded_table import LoadRecords
from penstock.backends.sql.server.session import ServerSession
from penstock.errors import Diagnosis, PermanentError, PlanningError
from penstock.model.tables import TableRef

CONTROL = "control tables"
KEYS: Mapping[Kind, tuple[str, ...]] = {
    Kind.RUN: ("run_id",),
    Kind.COMMIT: ("run_id", "partition_id"),
    Kind.STEP: ("run_id", "step_id"),
    Kind.RECOPY: ("run_id", "partition_id", "request"),
    Kind.JOURNAL: ("run_id", "execution_id"),
}
"""The columns that are unique among the records of a kind."""
# Lock names have at most 64 characters on the server with the lowest limit.
_DIGITS = 48


@dataclass(frozen=True)
class ControlScripts:
    """The file `control.sql` of a package, which creates the control tables.

    In it `{schema}` stands for the control schema, and `{text}` for the same as a text.

    Args:
        more: other replacements in braces, for a schema.
    """

    package: str
    dialect: Dialect
    more: Callable[[str], Mapping[str, str]] = lambda schema: {}

    @classmethod
    def usual(cls, dialect: CatalogDialect) -> ControlScripts:
        """Return the scripts for a server that has text keys and CREATE TABLE IF NOT EXISTS."""
        types = dialect.types
        names = {"texts": types["text"], "int": types["int4"], "long": types["int8"]}
        return cls(__package__, dialect, lambda schema: names)

    def control(self, schema: str) -> str:
        """Return all statements."""
        text = files(self.package).joinpath("control.sql").read_text(encoding="utf-8").rstrip()
        names = {"schema": self.dialect.ident(schema), "text": self.dialect.literal(schema)}
        return text.format(**names, **self.more(schema))


def lock_name(control_schema: str, name: str) -> str:
    """Return the name of a lock that only runs with these control tables take."""
    digest = hashlib.sha256(f"{control_schema}\0{name}".encode()).hexdigest()
    return f"penstock:{digest[:_DIGITS]}"


class ServerRecords(LoadRecords):
    """Records on a server.

    Args:
        loading: whether the session is an attempt's, which creates nothing.
    """

    scheme: ClassVar[str]
    """The scheme of the server's URLs."""
    schema_word: ClassVar[str]
    """The server's word for the place of its tables: a schema, or a database."""
    listing: ClassVar[str]
    """A query for the names of all tables there."""
    scripts: ClassVar[ControlScripts]
    extra_columns: ClassVar[Collection[str]] = ()
    """The names of control tables that only this backend has."""

    def __init__(self, session: ServerSession, schema: str, *, loading: bool = False) -> None:
        super().__init__(session.dialect)
        self._schema = schema
        self._tables_exist = loading

    @property
    @abstractmethod
    def session(self) -> ServerSession: ...

    @property
    def schema(self) -> str:
        """The control schema."""
        return self._schema

    def table_name(self, table: str) -> str:
        return f"{self.ident(self._schema)}.{self.ident(table)}"

    def lock(self, name: str) -> str:
        return lock_name(self._schema, name)

    def driver_value(self, column: str, value: Any) -> Any:
        # Times are texts: the same everywhere, and sortable.
        if isinstance(value, datetime):
            return value.isoformat(" ")
        return super().driver_value(column, value)

    # Locks by name

    @abstractmethod
    def holding(self, name: str, subject: str) -> AbstractContextManager[None]:
        """Hold a lock that is only held briefly.

        Args:
            name: the name of the lock.
            subject: the locked thing, for messages.

        Raises:
            StallError: another session holds it for longer than the stall timeout.
        """

    @abstractmethod
    def keep(self, name: str) -> bool:
        """Take a lock until the session ends; return whether it was free."""

    @abstractmethod
    def release_all(self, names: Sequence[str]) -> None:
        """Release locks of the session."""

    @abstractmethod
    def is_held(self, names: Sequence[str]) -> bool:
        """Whether any session holds one of these locks."""

    @abstractmethod
    def active_partitions(self, run_id: str) -> dict[str, int]:
        """Return the partitions of a run with an attempt that is alive, and its number, or 0."""

    # The tables

    @abstractmethod
    def making(self) -> AbstractContextManager[None]:
        """Keep others from creating the control tables."""

    def is_half_created(self, missing: Collection[str]) -> bool:
        """Whether creating the control tables was interrupted, so that none of them has rows."""
        return False

    def ddl(self) -> str:
        """Return the statements that create the missing control tables."""
        return self.scripts.control(self._schema)

    @abstractmethod
    def denial_message(self, error: Exception) -> str:
        """Return the server's message if the user may not create tables; otherwise empty."""

    @abstractmethod
    def limited_lock_waits(self) -> AbstractContextManager[None]:
        """Keep the session from waiting long for table locks in the block."""

    def create(self) -> None:
        if self._has_tables():
            return
        with self.session.translated(CONTROL), self.making():
            if self._missing():
                self._make()
        self._tables_exist = True

    grants: ClassVar[str] = ""
    """The privileges that an administrator grants to users of the control tables; `{}` stands for
    the control schema.
    """

    @contextmanager
    def permitted(self) -> Iterator[None]:
        """Translate missing privileges.

        Raises:
            PermanentError: the user may not use the control tables; names what would help.
        """
        try:
            yield
        except Exception as error:
            words = self.denial_message(error) if self.grants else ""
            if not words or "denied" not in words.lower():
                raise
            raise PermanentError(
                f"target: {words}: the user keeps its runs there; expected "
                f"{self.grants.format(self.ident(self._schema))}",
                Diagnosis(side="target"),
            ) from error

    def _run(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.session.connection.change(statement)

    def drop(self, table: TableRef) -> None:
        with self.session.translated(f"table {table}"), self.limited_lock_waits():
            self.session.run(self.session.dialect.drop_statement(table))

    def _make(self) -> None:
        try:
            self._run(self.ddl().split(";\n"))
        except Exception as error:
            words = self.denial_message(error)
            if not words:
                raise
            raise PlanningError(
                f"target: the user may not create the control tables in {self.schema_word} "
                f"{self._schema!r}: {words}; expected that privilege, or tables that an "
                "administrator created with the output of `penstock control-ddl --target "
                f"{self.scheme}:// --control-schema {self._schema}`, or another --control-schema",
                Diagnosis(side="target"),
            ) from error

    def _has_tables(self) -> bool:
        """Whether the control tables exist.

        Raises:
            PermanentError: some of the control tables are missing.
        """
        if self._tables_exist:
            return True
        missing, all_names = self._missing(), self._names()
        if missing and len(missing) < len(all_names):
            # If they are created one at a time, another session may be creating them now.
            with self.session.translated(CONTROL), self.making():
                missing = self._missing()
                if self.is_half_created(missing):
                    return False
        if missing and len(missing) < len(all_names):
            raise PermanentError(
                f"target: control schema {self._schema!r} lacks {', '.join(missing)}, without "
                "which no run can be read or resumed; restore them, or choose another "
                "--control-schema for new runs",
                Diagnosis(side="target"),
            )
        self._tables_exist = not missing
        return self._tables_exist

    def _names(self) -> tuple[str, ...]:
        return ("loaded_table", *self.extra_columns, *(kind.value for kind in self.kinds))

    def _missing(self) -> list[str]:
        with self.session.translated(CONTROL):
            rows = self.session.connection.rows(self.listing, [self._schema])
        return [name for name in self._names() if (name,) not in rows]

    @contextmanager
    def reading(self) -> Iterator[bool]:
        yield self._has_tables()

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        if reading and not self._has_tables():
            return []
        with self.session.translated(CONTROL), self.permitted():
            return self.session.connection.rows(statement, values)

    def update(self, statement: str, values: Sequence[Any]) -> int:
        with self.session.translated(CONTROL), self.permitted():
            return self.session.connection.change(statement, values)
