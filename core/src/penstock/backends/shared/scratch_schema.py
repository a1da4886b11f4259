"""A separate schema on a target's server, with a table like another one, for measurements."""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, closing
from typing import ClassVar, Generic, Protocol, TypeVar

from penstock.backends.api.optional.scratch import PREFIX
from penstock.model.tables import TableRef

NEEDED_BY = "penstock tune"
LOCK_SECONDS = 20
"""For tables of a schema being dropped: sessions just canceled, and workers whose parent was
killed, end within seconds.
"""
NAMED = re.compile(rf"{PREFIX}[0-9a-f]{{8}}")
# In addition to the control tables.
_TABLE = "scratch_table"


class Closable(Protocol):
    """A connection that a `ScratchSchema` closes when it is dropped."""

    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)


def scratch_name() -> str:
    """Return a random name, with the prefix by which abandoned schemas and folders are found."""
    return f"{PREFIX}{secrets.token_hex(4)}"


class ScratchSchema(ABC, Generic[C]):
    """See `Scratch`. A lock of its creator's session shows that the creator is alive.

    Args:
        url, like: as for `WithScratch.scratch`.
    """

    kind: ClassVar[str] = "schema"
    """The server's word for a schema."""
    table: TableRef | None
    target: str | None = None

    def __init__(self, url: str, like: TableRef | None) -> None:
        self._url = url
        self._like = like
        self._is_created = False
        self.name = scratch_name()
        self.place = f"{self.kind} {self.name} of the target"
        self._table = self.table = TableRef(self.name, _TABLE)
        self.removal = self._removal()
        self.remarks: tuple[str, ...] = ()
        self._connection = self._connect()
        try:
            with self._planning(NEEDED_BY if like is None else f"{NEEDED_BY}: {like}"):
                self._check()
                if like is not None:
                    remarks = self._read(like)
                    self.remarks = tuple(remark for remark, holds in remarks.items() if holds)
        except BaseException:
            self.close()
            raise

    # Implemented for each database

    @abstractmethod
    def _removal(self) -> str: ...

    @abstractmethod
    def _connect(self) -> C: ...

    @abstractmethod
    def _planning(self, subject: str) -> AbstractContextManager[None]:
        """Translate the server's errors to a `PlanningError`."""

    @abstractmethod
    def _translated(self) -> AbstractContextManager[None]:
        """Translate the driver's errors to Penstock's."""

    def _check(self) -> None:
        """Check that the schema can be created.

        Raises:
            PlanningError: it cannot.
        """

    @abstractmethod
    def _read(self, like: TableRef) -> dict[str, object]:
        """Read the table to imitate; return remarks, and whether each applies.

        Raises:
            PlanningError: it is not a table, or may not be read.
        """

    @abstractmethod
    def _schema_names(self) -> list[str]:
        """Return schemas that may be scratch schemas, by their names."""

    @abstractmethod
    def _lock(self, name: str) -> bool:
        """Take the session's lock named after a schema; return whether it was free."""

    @abstractmethod
    def _unlock(self, name: str) -> None: ...

    @abstractmethod
    def _create(self) -> None: ...

    @abstractmethod
    def _remake(self, like: TableRef) -> None: ...

    @abstractmethod
    def _drop(self, connection: C, name: str) -> None:
        """Drop a schema, if it exists, with everything in it."""

    # The same for all

    def sweep(self) -> tuple[str, ...]:
        swept = []
        with self._translated():
            for name in filter(NAMED.fullmatch, self._schema_names()):
                if self._lock(name):
                    try:
                        self._drop(self._connection, name)
                        swept.append(name)
                    finally:
                        self._unlock(name)
        return tuple(swept)

    def begin(self) -> None:
        with self._planning(f"{NEEDED_BY}: {self.kind} {self.name}"):
            self._lock(self.name)  # first, so that no process takes it for abandoned
            self._is_created = True
            self._create()

    def make_table(self) -> None:
        assert self._like is not None
        with self._planning(f"{NEEDED_BY}: a table like {self._like}"):
            self._remake(self._like)

    def drop(self) -> None:
        if not self._is_created:
            return
        # In a new session: whatever ended the measurements may have affected the other one, whose
        # locks must be released.
        self.close()
        with self._translated(), closing(self._connect()) as connection:
            self._drop(connection, self.name)
        self._is_created = False

    def close(self) -> None:
        self._connection.close()
