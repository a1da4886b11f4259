"""Named documents that many processes change without losing each other's changes.

Each version of a document is a table without rows, whose comment is the content: of several who
create the same one, the server lets one, and refuses the others (code 57). A version says which
ones came before it, so that one who was stopped for long, and creates a version that was there and
is gone, finds that it is none of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from secrets import token_hex

from clickhouse_connect.driver.exceptions import ClickHouseError

from penstock.backends.clickhouse.connection import Connection
from penstock.backends.clickhouse.dialect import CLICKHOUSE, OWN
from penstock.backends.clickhouse.errors import TABLE_EXISTS, code_of, from_driver, translated

PREFIX = f"{OWN}doc_"
# Of those before a version: more than anybody makes while another one waits for an answer.
_REMEMBERED = 100


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Version:
    table: str
    number: int
    name: str
    """The document's."""
    nonce: str
    before: tuple[str, ...]
    """Nonces of the versions before it."""
    content: bytes

    @property
    def token(self) -> str:
        return f"{self.number}:{self.nonce}"


class TableDocuments:
    """See `RecordDocuments`.

    Parameters:
        database: the control database, of the engine Atomic.
    """

    def __init__(self, connection: Connection, database: str) -> None:
        self._connection = connection
        self._database = database

    # What is asked

    def create(self, name: str, content: bytes) -> bool:
        found = self._newest(name)
        if found is not None:
            return found.content == content
        return self._write(name, None, content)

    def replace(self, name: str, content: bytes, version: str) -> bool:
        found = self._newest(name)
        if found is None or found.token != version:
            return False
        return self._write(name, found, content)

    def get(self, name: str) -> tuple[bytes, str] | None:
        # Two who change it while it is looked for may hide it.
        found = self._newest(name) or self._newest(name)
        return None if found is None else (found.content, found.token)

    def read_all(self, folder: str) -> Mapping[str, tuple[bytes, str]]:
        newest: dict[str, _Version] = {}
        for version in self._versions(f"{PREFIX}{short_hash(folder)}_"):
            known = newest.get(version.name)
            if known is None or known.number < version.number:
                newest[version.name] = version
        return {name: (version.content, version.token) for name, version in newest.items()}

    def find_all(self, folder: str, file: str) -> Mapping[str, tuple[bytes, str]]:
        newest: dict[str, _Version] = {}
        for version in self._versions(PREFIX, f'/{file}"'):
            known = newest.get(version.name)
            if known is None or known.number < version.number:
                newest[version.name] = version
        return {
            name: (version.content, version.token)
            for name, version in newest.items()
            if name.startswith(f"{folder}/") and name.endswith(f"/{file}")
        }

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._drop(self._versions(_prefix(name)))

    # Versions

    def _newest(self, name: str) -> _Version | None:
        return max(self._versions(_prefix(name)), key=lambda each: each.number, default=None)

    def _versions(self, prefix: str, containing: str = "") -> list[_Version]:
        with translated("target", "control tables"):
            rows = self._connection.rows(
                "SELECT name, comment FROM system.tables"
                " WHERE database = {p1:String} AND startsWith(name, {p2:String})"
                " AND position(comment, {p3:String}) > 0",
                [self._database, prefix, containing],
            )
        return [_version(table, comment) for table, comment in rows]

    def _write(self, name: str, after: _Version | None, content: bytes) -> bool:
        number = 1 if after is None else after.number + 1
        before = () if after is None else (*after.before, after.nonce)[-_REMEMBERED:]
        nonce = token_hex(8)
        head = json.dumps({"name": name, "nonce": nonce, "before": before}, ensure_ascii=False)
        comment = CLICKHOUSE.literal(f"{head}\n{content.decode()}")
        mine = f"{_prefix(name)}{number:06d}"
        try:
            self._connection.change(
                f"CREATE TABLE {self._quoted(mine)} (nothing UInt8) ENGINE = Null COMMENT {comment}"
            )
        except ClickHouseError as error:
            if code_of(error) == TABLE_EXISTS:
                return False
            raise from_driver(error, "target", "control tables") from error
        found = self._versions(_prefix(name))
        newest = max(found, key=lambda each: each.number, default=None)
        if newest is not None and nonce not in (newest.nonce, *newest.before):
            # It had been there, and was replaced, long ago: this one counts for nobody.
            self._drop(each for each in found if each.nonce == nonce)
            return False
        # The last one but one stays: a reader that has listed it looks at it now.
        self._drop(each for each in found if each.number < number - 1)
        return True

    def _drop(self, versions: Iterable[_Version]) -> None:
        with translated("target", "control tables"):
            for version in versions:
                self._connection.change(f"DROP TABLE IF EXISTS {self._quoted(version.table)}")

    def _quoted(self, table: str) -> str:
        return f"{CLICKHOUSE.ident(self._database)}.{CLICKHOUSE.ident(table)}"


def _prefix(name: str) -> str:
    """Of the tables of a document."""
    folder = name.rpartition("/")[0]
    return f"{PREFIX}{short_hash(folder)}_{short_hash(name)}_"


def _version(table: str, comment: str) -> _Version:
    head, _, content = comment.partition("\n")
    said = json.loads(head)
    number = int(table.rpartition("_")[2])
    before = tuple(said["before"])
    return _Version(table, number, said["name"], said["nonce"], before, content.encode())
