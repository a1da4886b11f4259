"""Names: Snowflake folds those without quotes to upper case, Penstock's others to lower case.

So that a table that somebody creates without quotes has one plain name everywhere, Penstock swaps
the case of names that are plain: `orders` is `ORDERS` there, and `ORDERS` is `"orders"`. Names of
both cases, or with other characters, are what they are.
"""

from __future__ import annotations

import re

_LOWER, _UPPER = "[a-z_][a-z0-9_$]*", "[A-Z_][A-Z0-9_$]*"
_PLAIN = re.compile(f"(?:{_LOWER}|{_UPPER})")


def swapped(name: str) -> str:
    """A name of Penstock's as Snowflake has it, or the other way round."""
    return name.swapcase() if _PLAIN.fullmatch(name) else name


def shown(name: str) -> str:
    """The same in SQL, of what the server's catalog says."""
    return (
        f"CASE WHEN REGEXP_LIKE({name}, '^{_UPPER}$') THEN LOWER({name})"
        f" WHEN REGEXP_LIKE({name}, '^{_LOWER}$') THEN UPPER({name}) ELSE {name} END"
    )
