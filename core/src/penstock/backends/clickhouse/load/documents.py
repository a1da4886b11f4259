"""Named documents that many processes can change without losing updates.

Each version of a document is an empty table whose comment is the content: of several processes that
create the same one, the server admits one and rejects the others (code 57). A version lists the
versions before it. A process that was stopped for long, and recreates a version that existed
earlier, can thus tell that its version is obsolete.
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
# Earlier versions to list: more than are created while another process waits for an answer.
_REMEMBERED = 100


def short_hash(text: str) -> str:
    """Return the first 64 bits of a text's SHA-256 in hexadecimal, for names."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Version:
    table: str
    number: int
    name: str
    """The document's name."""
    nonce: str
    before: tuple[str, ...]
    """The nonces of earlier versions."""
    content: bytes

    @property
    def token(self) -> str:
        return f"{self.number}:{self.nonce}"


class TableDocuments:
    """See `RecordDocuments`.

    Args:
        database: the control database, with the engine Atomic.
    """

    def __init__(self, connection: Connection, database: str) -> None:
        self._connection = connection
        self._database = database

    # Questions

    def create(self, name: str, content: bytes) -> bool:
        newest = self._newest(name)
        if newest is not None:
            return newest.content == content
        return self._write(name, None, content)

    def replace(self, name: str, content: bytes, version: str) -> bool:
        newest = self._newest(name)
        if newest is None or newest.token != version:
            return False
        return self._write(name, newest, content)

    def get(self, name: str) -> tuple[bytes, str] | None:
        # Two concurrent changes may hide it from a single look.
        newest = self._newest(name) or self._newest(name)
        return None if newest is None else (newest.content, newest.token)

    def read_all(self, folder: str) -> Mapping[str, tuple[bytes, str]]:
        newest: dict[str, _Version] = {}
        for version in self._versions(f"{PREFIX}{short_hash(folder)}_"):
            former = newest.get(version.name)
            if former is None or former.number < version.number:
                newest[version.name] = version
        return {name: (version.content, version.token) for name, version in newest.items()}

    def find_all(self, folder: str, file: str) -> Mapping[str, tuple[bytes, str]]:
        newest: dict[str, _Version] = {}
        for version in self._versions(PREFIX, f'/{file}"'):
            former = newest.get(version.name)
            if former is None or former.number < version.number:
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
        versions = self._versions(_prefix(name))
        newest = max(versions, key=lambda each: each.number, default=None)
        if newest is not None and nonce not in (newest.nonce, *newest.before):
            # It existed earlier and was replaced, so this version does not count.
            self._drop(each for each in versions if each.nonce == nonce)
            return False
        # The last but one stays: a reader that has listed it may be reading it now.
        self._drop(each for each in versions if each.number < number - 1)
        return True

    def _drop(self, versions: Iterable[_Version]) -> None:
        with translated("target", "control tables"):
            for version in versions:
                self._connection.change(f"DROP TABLE IF EXISTS {self._quoted(version.table)}")

    def _quoted(self, table: str) -> str:
        return f"{CLICKHOUSE.ident(self._database)}.{CLICKHOUSE.ident(table)}"


def _prefix(name: str) -> str:
    """Return the prefix of the names of a document's tables."""
    folder = name.rpartition("/")[0]
    return f"{PREFIX}{short_hash(folder)}_{short_hash(name)}_"


def _version(table: str, comment: str) -> _Version:
    head, _, content = comment.partition("\n")
    header = json.loads(head)
    number = int(table.rpartition("_")[2])
    before = tuple(header["before"])
    return _Version(table, number, header["name"], header["nonce"], before, content.encode())
