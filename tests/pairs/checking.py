"""What the tests of pairs copy, and how they look at what came of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock import verify
from penstock.events import Finished

from .ends import Rows, numbered

if TYPE_CHECKING:
    from .conftest import Pair

ROWS = numbered(500)

STRATEGIES: dict[str, dict[str, Any]] = {
    "auto": {},
    "whole": {"strategy": "whole"},
    "range": {"strategy": "range", "key": "id", "partitions": 4},
    "ntile": {"strategy": "ntile", "key": "id", "partitions": 4},
    "hash": {"strategy": "hash", "key": "id", "partitions": 3},
    "values": {"strategy": "values", "key": "grp"},
    "time": {"strategy": "time", "key": "day", "interval": "1 week"},
}


def check(pair: Pair, finished: Finished, rows: Rows) -> None:
    """The target has the rows, once each, and Penstock's own verification says so."""
    assert finished.status == "done"
    found = pair.theirs.read()
    assert Counter(map(repr, found)) == Counter(map(repr, rows.plain))
    ends = pair.ends
    verified = verify(finished.run_id, **ends, checksum=True)
    assert verified.ok, [(c.partition_id, c.note) for c in verified.checks if not c.ok]
    assert verified.method == "checksums"
