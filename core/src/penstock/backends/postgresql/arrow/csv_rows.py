"""Rows as CSV that text files take as it is: see `api.worker.ROWS`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as pt
from psycopg import sql

from penstock.backends.api.worker import RowsBlock
from penstock.backends.postgresql.arrow.types import arrow_type_of
from penstock.backends.postgresql.session.statements import CSV, built_in, copy_format
from penstock.backends.shared.texts.plain_texts import is_usual
from penstock.backends.shared.values.text_values import Refused
from penstock.model.tables import Column

# The server cuts zeros from the end of a fraction, or all of it; the text ends as one of these.
_MOMENT, _TIME = "0000-00-00 00:00:00.000000", "00:00:00.000000"
_SPECIAL = ("infinity", "-infinity", "NaN", "Infinity", "-Infinity")
# Marks a timestamp that Arrow cannot hold.
_BEYOND = "\x1f"
_LAST_MOMENT = "294247-01-10 04:00:54.775807"
"""2^63 microseconds after 1970."""
_SIGNS = (b"nfinity", b"NaN", _BEYOND.encode())


def why_not(column: Column) -> str:
    """Return why a column keeps rows from travelling as CSV; empty if it does not."""
    if pt.is_list(arrow_type_of(column)):
        return f"{column.name} is an array, which becomes JSON"
    if column.traits.get("encoding") == "SQL_ASCII" and not _is_plain(arrow_type_of(column)):
        return f"{column.name} may hold text that is not UTF-8 (the database declares no encoding)"
    return ""


def _is_plain(type_: pa.DataType) -> bool:
    """Whether a type's values are written in ASCII."""
    return bool(pt.is_primitive(type_) or pt.is_decimal(type_) or pt.is_binary(type_))


class CsvRows:
    """The rows of one stream.

    Args:
        columns: the source columns to read, with this server's traits.
        subject: the table or query being read, for error messages.
    """

    def __init__(self, columns: Sequence[Column], subject: str) -> None:
        self._columns = columns
        self._subject = subject
        self._types = [arrow_type_of(column) for column in columns]
        # The columns whose values may be infinite or no number, which no type in Arrow has.
        self._checked = [
            place
            for place, type_ in enumerate(self._types)
            if pt.is_date(type_) or pt.is_timestamp(type_) or pt.is_decimal(type_)
        ]
        self._rows_before = 0

    @property
    def copy_options(self) -> sql.Composable:
        quoted = [
            sql.Identifier(column.name)
            for column, type_ in zip(self._columns, self._types, strict=True)
            if _is_quoted(type_)
        ]
        if not quoted:
            return copy_format(CSV)
        return sql.SQL("{}, FORCE_QUOTE ({})").format(copy_format(CSV), sql.SQL(", ").join(quoted))

    @property
    def select_list(self) -> sql.Composed:
        """The select list of a COPY that writes such rows."""
        return sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(_expression(column, type_), sql.Identifier(column.name))
            for column, type_ in zip(self._columns, self._types, strict=True)
        )

    def block(self, content: bytes | memoryview, rows: int) -> RowsBlock:
        """Return a block of the stream.

        Raises:
            PermanentError: files have no form for a value; names the column, the row (counted from
                1 in the stream) and the value.
        """
        if self._checked:
            plain = bytes(content)
            if any(sign in plain for sign in _SIGNS):
                self._check(plain)
        self._rows_before += rows
        return RowsBlock(content, rows)

    def _check(self, content: bytes) -> None:
        names = [str(place) for place in range(len(self._types))]
        table = pyarrow.csv.read_csv(
            pa.py_buffer(content),
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(content) + 1, column_names=names
            ),
            pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(
                include_columns=[names[place] for place in self._checked],
                column_types=dict.fromkeys(names, pa.binary()),
            ),
        )
        special = pa.array(_SPECIAL, pa.string()).cast(pa.binary())
        for place, texts in zip(self._checked, table.columns, strict=True):
            found = pc.or_(pc.is_in(texts, special), pc.starts_with(texts, _BEYOND))
            index = pc.index(found, value=True).as_py()
            if index >= 0:
                text = texts[index].as_py().decode().removeprefix(_BEYOND)
                raise Refused(index, text).error(
                    self._subject, self._columns[place], self._types[place], self._rows_before
                )


def _is_quoted(type_: pa.DataType) -> bool:
    """Whether files have a type's values in quotes; see `csv_format`."""
    return bool(
        pt.is_string(type_)
        or pt.is_binary(type_)
        or pt.is_dictionary(type_)
        or type_ == pa.uuid()
        or (pt.is_decimal(type_) and not is_usual(pa.array([], type_)))
    )


def _expression(column: Column, type_: pa.DataType) -> sql.Composable:
    name = sql.Identifier(column.name)
    if pt.is_floating(type_):
        equals = sql.SQL(built_in("="))
        return sql.SQL(
            "CASE WHEN {name} {equals} 'NaN' THEN 'nan' WHEN {name} {equals} 'Infinity' THEN 'inf'"
            " WHEN {name} {equals} '-Infinity' THEN '-inf' ELSE {name}::pg_catalog.text END"
        ).format(name=name, equals=equals)
    if pt.is_time(type_):
        return _completed(_TIME, name)
    if pt.is_timestamp(type_):
        return _moment(name, zoned=type_.tz is not None)
    if pt.is_date(type_) or pt.is_integer(type_) or pt.is_decimal(type_):
        return name
    if type_ == pa.uuid() or pt.is_binary(type_):
        return name
    # Truth values as words; texts without the trailing blanks of a character(n), as in checksums.
    return sql.SQL("{}::pg_catalog.text").format(name)


def _moment(column: sql.Composable, *, zoned: bool) -> sql.Composable:
    """Return a timestamp's text, with all six digits, whatever the year."""
    value = sql.SQL("pg_catalog.timezone('UTC', {})").format(column) if zoned else column
    return sql.SQL(
        "CASE WHEN {value} {at_least} '0001-01-01' AND {value} {below} '10000-01-01'"
        " THEN {usual} WHEN {value} {below} {last} AND pg_catalog.isfinite({value})"
        " THEN pg_catalog.to_char({value}, {pattern}) {joined}"
        " CASE WHEN {value} {below} '0001-01-01' THEN ' BC' ELSE '' END"
        " ELSE {mark} {joined} {value}::pg_catalog.text END"
    ).format(
        value=value,
        last=sql.Literal(_LAST_MOMENT),
        mark=sql.Literal(_BEYOND),
        at_least=sql.SQL(built_in(">=")),
        below=sql.SQL(built_in("<")),
        joined=sql.SQL(built_in("||")),
        usual=sql.SQL("{} {} 'Z'").format(_completed(_MOMENT, value), sql.SQL(built_in("||")))
        if zoned
        else _completed(_MOMENT, value),
        pattern=sql.Literal("YYYY-MM-DD HH24:MI:SS.US" + ('"Z"' if zoned else "")),
    )


def _completed(whole: str, value: sql.Composable) -> sql.Composable:
    return sql.SQL('pg_catalog."overlay"({}, {}::pg_catalog.text, 1)').format(
        sql.Literal(whole), value
    )
