"""Tables, views and queries, as a source."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from penstock.backends.api.facts import ChildTable, KeyStatistics, TableStatistics, WeightedBound
from penstock.backends.mysql.catalog import bounds
from penstock.backends.mysql.catalog.modelled import next_number
from penstock.backends.mysql.catalog.partitions import partitioning, partitions_of, within
from penstock.backends.mysql.catalog.sequences import sequences_left
from penstock.backends.mysql.catalog.statements import read_statement
from penstock.backends.mysql.catalog.tables import (
    explained_rows,
    first_key,
    is_indexed,
    is_table,
    known_made,
    numbered_column,
    order_of,
    read_definition,
    size_of,
    table_columns,
    unique_keys,
)
from penstock.backends.mysql.connection import connect, kill
from penstock.backends.mysql.decoding import DATES
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.location import URLS
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.snapshot import take
from penstock.backends.mysql.types import arrow_type
from penstock.backends.shared.arrow import TRAIT
from penstock.backends.sql import keys
from penstock.backends.sql.bounds import TEXTS
from penstock.backends.sql.dialect import BYTES, Type
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.session import keeping
from penstock.backends.sql.source import SqlSource
from penstock.errors import PenstockError
from penstock.model.extents import Extent, Key
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, NotCopied, Query, Relation, SequencePosition, TableRef


class MySqlSource(SqlSource):
    settle_seconds = 0.0
    _session: MySqlSession

    def __init__(self, url: str) -> None:
        self._url = url
        self._adopted = ""
        options = URLS.parse(url).options
        self._tinyint1_bool = options.get("tinyint1") == "bool"
        self._zero_dates_null = options.get("zero_dates") == "null"
        session = MySqlSession(connect(url, "source"), MYSQL)
        session.connection.change("SET SESSION TRANSACTION READ ONLY")
        super().__init__(session, session.rows_of)

    def close(self) -> None:
        connection = self._session.connection
        busy = connection._result is not None and connection._result.unbuffered_active
        number = connection.number
        connection.abandon()
        if busy:
            with contextlib.suppress(PenstockError):
                kill(self._url, "source", number)

    def adopt(self, snapshot: Snapshot) -> None:
        if snapshot.token != self._adopted:
            joined = take(snapshot.token)
            self._session.connection.abandon()
            self._session.connection = joined
            if self._session.known is not None:
                self._session.known.forget()
            self._adopted = snapshot.token

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        return keeping(self._session, relations)

    def is_table(self, relation: Relation) -> bool:
        return isinstance(relation, TableRef) and is_table(self._session, relation)

    # Columns

    def described(self, relation: Relation) -> dict[str, Type]:
        if isinstance(relation, TableRef):
            return {column.name: column.traits[TYPE] for column in self.columns(relation)}
        return super().described(relation)

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, TableRef):
            return table_columns(self._session, relation)
        assert isinstance(relation, Query)
        found = self._session.describe(relation.text, "--query")
        return tuple(Column(name, str(type_), traits={TYPE: type_}) for name, type_ in found)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        emptied = self._emptied(relation, columns)

        def arrow(column: Column) -> Column:
            kind = arrow_type(column.traits[TYPE], self._tinyint1_bool)
            nullable = column.nullable or column.name in emptied
            return replace(column, nullable=nullable, traits={**column.traits, TRAIT: kind})

        return tuple(map(arrow, columns))

    def _emptied(self, relation: Relation, columns: Sequence[Column]) -> set[str]:
        """Columns that are NOT NULL, and come with NULL for zero dates. None of the primary key's:
        no table has NULL there."""
        if not (self._zero_dates_null and isinstance(relation, TableRef)):
            return set()
        keys = unique_keys(self._session, relation)
        primary = {name for key in keys if key.primary for name in key.names}
        return {
            column.name
            for column in columns
            if column.traits[TYPE].name in DATES and not column.nullable
        } - primary

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        if self.is_table(relation):
            assert isinstance(relation, TableRef)
            columns = self.columns(relation)
            emptied = self._emptied(relation, columns)
            return read_definition(self._session, relation, columns, emptied)
        return super().definition(relation, partitioning=partitioning)

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        if not (isinstance(relation, TableRef) and self.is_table(relation)):
            return {}
        name = numbered_column(self._session, relation)
        if not name:
            return {}
        last = next_number(read_statement(self._session, relation), relation)
        return {name: SequencePosition(last, called=False)}

    def state(self, relation: Relation) -> SourceState:
        session, server = self._session, self._session.server.id
        # Nothing tells for sure whether somebody has written: no moment is like another one.
        ((now,),) = session.kept(
            "state", lambda: session.fetch("SELECT CAST(SYSDATE(6) AS char)", "state")
        )
        if not isinstance(relation, TableRef):
            return SourceState(server, "", str(now), "")
        made, parts = known_made(session, relation), partitioning(session, relation)
        return SourceState(f"{server}:{relation}", made, str(now), "", parts)

    def others(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[NotCopied, ...]:
        found = super().others(include, exclude)
        if not self._session.connection.is_mariadb:
            return found
        return (*found, *sequences_left(self._session, include, exclude))

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        known = self._stored(relation) if self.is_table(relation) else None
        rows, size = known or (None, 0)
        if rows is None:
            rows = explained_rows(self._session, self._rows(relation), "1 = 1")
            size = (rows or 0) * 100
        selected = 1.0
        if where is not None and rows:
            found = explained_rows(self._session, self._rows(relation), f"(\n{where}\n)")
            selected = min(1.0, found / rows) if found is not None else 1.0
        children = self._partitions(relation)
        about = f"of about {rows:,} rows" if rows is not None else "of unknown size"
        what = "a table" if known else "a query or a view"
        if children:
            what = f"a table in {len(children)} partition{'s' * (len(children) > 1)}"
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=selected,
            blocks=None,
            storage=f"{what} {about}, {size / 1e6:,.1f} MB" if known else f"{what} {about}",
            default_key=self._default_key(relation),
            children=children,
            sampled=self.is_table(relation),
            rows_hint=f"ANALYZE TABLE {self._rows(relation)}" if known else "",
        )

    def _partitions(self, relation: Relation) -> tuple[ChildTable, ...]:
        if not self.is_table(relation):
            return ()
        assert isinstance(relation, TableRef)
        return partitions_of(self._session, relation)

    def rows_of(self, relation: Relation, extent: Extent) -> str:
        return within(self._rows(relation), extent)

    def _stored(self, relation: Relation) -> tuple[int | None, int] | None:
        assert isinstance(relation, TableRef)
        return size_of(self._session, relation)

    def _default_key(self, relation: Relation) -> str | None:
        if not self.is_table(relation):
            return None
        assert isinstance(relation, TableRef)
        name = first_key(self._session, relation)
        if name is not None and self.key_type(relation, Key(name)) in MYSQL.ranged:
            return name
        return None

    # Keys

    def _type_of(self, relation: Relation, key: Key) -> Type:
        if isinstance(relation, TableRef) and not key.expression:
            for column in self.columns(relation):
                if column.name == key.text:
                    return column.traits[TYPE]
        return super()._type_of(relation, key)

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        nullable, _ = super().key_facts(relation, key)
        found = key.collation != BYTES and not key.expression
        return nullable, found and self._indexed(relation, key.text)

    def _indexed(self, relation: Relation, name: str) -> bool:
        return (
            isinstance(relation, TableRef)
            and self.is_table(relation)
            and is_indexed(self._session, relation, name)
        )

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        tag = self._ranged(relation, key)
        nullable, indexed = self.key_facts(relation, key)
        own = replace(key, collation=self.own_order(relation, key))
        if own.collation == BYTES or not self.key_facts(relation, own)[1]:
            return KeyStatistics(key, nullable, 0.0, (), keys.NOTHING, indexed)
        rows, origin = self._rows(relation), bounds.ORIGIN
        found, nulls = bounds.dive(self._session, rows, own, tag, nullable=nullable)
        if key.collation == BYTES:
            found, origin = self._by_bytes(relation, key, found), f"{origin}; ranged by bytes"
        return KeyStatistics(key, nullable, nulls, found, origin, indexed)

    def _by_bytes(
        self, relation: Relation, key: Key, found: Sequence[WeightedBound]
    ) -> tuple[WeightedBound, ...]:
        """Bounds in another order than that in which they were weighed: their weights are rough."""
        ranked = self.ranked(relation, key, [each.bound.text for each in found], ordered=True)
        placed = {place.rank: each for each, place in zip(found, ranked, strict=True)}
        return tuple(each for _, each in sorted(placed.items(), key=lambda item: item[0]))

    def own_order(self, relation: Relation, key: Key) -> str:
        type_ = self._type_of(relation, key)
        if MYSQL.tag_of(type_) not in TEXTS:
            return ""
        if type_.name in ("enum", "set"):
            return BYTES  # their own order is that of their numbers
        found = order_of(self._session, self._rows(relation), key)
        # MariaDB: an index has 'A\t' before 'A', with blanks up to the column's length; a condition
        # has it after.
        return BYTES if type_.name == "char" and "nopad" in found else found

    def shared_order(self, relation: Relation, key: Key) -> str:
        return BYTES if self.key_type(relation, key) in TEXTS else ""


open_source = MySqlSource
