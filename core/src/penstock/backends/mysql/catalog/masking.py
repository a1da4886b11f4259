"""Masks in MySQL and MariaDB. A key is kept in a variable of the session."""

from __future__ import annotations

from typing import Any

from penstock.backends.sql.masking import Masking


class MySqlMasking(Masking):
    """See `Masking`."""

    def text(self, value: str) -> str:
        return f"CONVERT({value} USING utf8mb4)"

    def encoded(self, text: str) -> str:
        # Beside a text, MySQL reads the bytes of a key as a text, too, and rejects most of them.
        return f"CAST({text} AS binary)"

    def digest(self, data: str) -> str:
        return f"SHA2({data}, 256)"

    def digested(self, data: str) -> str:
        return f"UNHEX(SHA2({data}, 256))"

    def joined(self, first: str, second: str) -> str:
        return f"CONCAT({first}, {second})"

    linked = joined

    def stored_bytes(self, name: str) -> str:
        # An unset variable is NULL without a type.
        return f"UNHEX(CAST(@penstock_{name} AS char))"

    def year(self, value: str, type_: Any, tag: str) -> str:
        # Also for a zero date, which MAKEDATE would take for the year 2000.
        first_day = f"CONCAT(LPAD(YEAR({value}), 4, '0'), '-01-01')"
        if tag == "date":
            return f"CAST({first_day} AS date)"
        return f"CAST({first_day} AS datetime)"
