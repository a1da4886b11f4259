"""Masks in Snowflake. Those with a key are not supported: its query history would show the key."""

from __future__ import annotations

from typing import Any

from penstock.backends.sql.masking import Masking


class SnowflakeMasking(Masking):
    """The masks of Snowflake."""

    has_keys = False

    def text(self, value: str) -> str:
        return f"CAST({value} AS VARCHAR)"

    def digest(self, data: str) -> str:
        return f"SHA2({data}, 256)"

    def digested(self, data: str) -> str:
        return f"SHA2_BINARY({data}, 256)"

    def joined(self, first: str, second: str) -> str:
        return f"{first} || {second}"

    def stored_bytes(self, name: str) -> str:
        raise NotImplementedError

    def year(self, value: str, type_: Any, tag: str) -> str:
        return f"CAST(DATE_TRUNC('YEAR', {value}) AS {type_})"

    def length(self, text: str) -> str:
        return f"LENGTH({text})"
