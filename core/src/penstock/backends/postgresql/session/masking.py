"""Masks in PostgreSQL. A key is kept in session settings, which are set through parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.session.statements import built_in
from penstock.backends.sql.masking import Masking

if TYPE_CHECKING:
    from penstock.backends.postgresql.session.shared_round_trips import Question
    from penstock.model.tables import Column

_TEXTS = ("name", "citext")


class PostgresMasking(Masking):
    """See `Masking`."""

    def text(self, value: str) -> str:
        return f"{value}::pg_catalog.text"

    def encoded(self, text: str) -> str:
        return f"pg_catalog.convert_to({text}, 'UTF8')"

    def digest(self, data: str) -> str:
        return f"pg_catalog.encode({self.digested(data)}, 'hex')"

    def digested(self, data: str) -> str:
        return f"pg_catalog.sha256({data})"

    def joined(self, first: str, second: str) -> str:
        return f"({first} {built_in('||')} {second})"

    never = "false"

    def stars(self, count: str, but: int) -> str:
        return f"pg_catalog.repeat('*', {count} {built_in('-')} {but})"

    def exceeds(self, count: str, limit: int) -> str:
        return f"{count} {built_in('>')} {limit}"

    def length(self, text: str) -> str:
        return f"pg_catalog.char_length({text})"

    def ending(self, text: str) -> str:
        return f"pg_catalog.right({text}, 4)"

    def linked(self, first: str, second: str) -> str:
        return f"{first} {built_in('||')} {second}"

    def stored_bytes(self, name: str) -> str:
        # As a subquery it is evaluated once instead of for each row.
        setting = f"pg_catalog.current_setting('{_PREFIX}{name}')"
        return f"(SELECT pg_catalog.decode({setting}, 'hex'))"

    def year(self, value: str, type_: Any, tag: str) -> str:
        return f"pg_catalog.date_trunc('year', {value})::{type_}"


_PREFIX = "penstock."
MASKING = PostgresMasking()


def mask_tag(column: Column) -> str:
    """Return the tag of a column's type, by which masks distinguish types."""
    bare = data_type(column).bare
    return "text" if bare.kind == "enum" or bare.name in _TEXTS else bare.name


def mask_type(column: Column) -> str:
    """Return the type that a masked date is cast to: the column's, or its domain's base type."""
    type_ = data_type(column)
    return type_.bare.text if type_.kind == "domain" else column.type


def secret_statements(values: Mapping[str, str], *, local: bool) -> list[Question]:
    """Return statements that store secret texts in the session.

    Args:
        values: the texts by name; not to be logged or shown.
        local: whether to store them for the transaction only.
    """
    query = "SELECT pg_catalog.set_config(%s, %s, %s)"
    return [(query, [f"{_PREFIX}{name}", text, local]) for name, text in values.items()]
