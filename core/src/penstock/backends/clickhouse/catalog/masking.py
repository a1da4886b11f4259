"""Masks in ClickHouse. A key is passed as a parameter of the query."""

from __future__ import annotations

from typing import Any

from penstock.backends.sql.masking import Masking


class ClickHouseMasking(Masking):
    """The masks of ClickHouse."""

    def text(self, value: str) -> str:
        return f"toString({value})"

    def digest(self, data: str) -> str:
        return f"lower(hex(SHA256({data})))"

    def digested(self, data: str) -> str:
        return f"SHA256({data})"

    def joined(self, first: str, second: str) -> str:
        return f"concat({first}, {second})"

    linked = joined

    def stored_bytes(self, name: str) -> str:
        return f"unhex({{{name}:String}})"

    def year(self, value: str, type_: Any, tag: str) -> str:
        return f"CAST(toStartOfYear({value}) AS {type_})"

    def length(self, text: str) -> str:
        return f"lengthUTF8({text})"

    def ending(self, text: str) -> str:
        return f"rightUTF8({text}, 4)"
