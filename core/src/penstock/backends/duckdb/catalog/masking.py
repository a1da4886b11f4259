"""Masks in DuckDB. A key is kept in a variable of the session."""

from __future__ import annotations

from typing import Any

from penstock.backends.sql.masking import Masking


class DuckMasking(Masking):
    """The masks of DuckDB."""

    def text(self, value: str) -> str:
        return f"CAST({value} AS VARCHAR)"

    def encoded(self, text: str) -> str:
        return f"encode({text})"

    def digest(self, data: str) -> str:
        return f"sha256({data})"

    def digested(self, data: str) -> str:
        return f"unhex(sha256({data}))"

    def joined(self, first: str, second: str) -> str:
        return f"({first} || {second})"

    def stored_bytes(self, name: str) -> str:
        return f"unhex(CAST(getvariable('penstock_{name}') AS VARCHAR))"

    def year(self, value: str, type_: Any, tag: str) -> str:
        return f"CAST(date_trunc('year', {value}) AS {type_})"

    def length(self, text: str) -> str:
        return f"length({text})"
