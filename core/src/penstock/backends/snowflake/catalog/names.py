"""Names: Snowflake folds unquoted names to upper case, most other systems to lower case.

To give a table created without quotes one plain name everywhere, Penstock swaps the case of plain
names: `orders` is `ORDERS` there, and `ORDERS` is `"orders"`. Names with both cases or with other
characters stay the same.
"""

from __future__ import annotations

import re

_LOWER, _UPPER = "[a-z_][a-z0-9_$]*", "[A-Z_][A-Z0-9_$]*"
_PLAIN = re.compile(f"(?:{_LOWER}|{_UPPER})")


def swapped(name: str) -> str:
    """Convert a name between Penstock's form and Snowflake's."""
    return name.swapcase() if _PLAIN.fullmatch(name) else name


def shown(name: str) -> str:
    """Return an SQL expression that converts a name from the server's catalog."""
    return (
        f"CASE WHEN REGEXP_LIKE({name}, '^{_UPPER}$') THEN LOWER({name})"
        f" WHEN REGEXP_LIKE({name}, '^{_LOWER}$') THEN UPPER({name}) ELSE {name} END"
    )
