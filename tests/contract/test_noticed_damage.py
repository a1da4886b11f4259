"""Damage to a loaded table is noticed by each kind of verification, or it says that it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from penstock import plan_repair, verify
from penstock.spec.modes import APPEND, REPLACE, SWAP, TRUNCATE, UPSERT, Mode
from penstock.verification.checks import COUNTED

from .copying import Pair
from .database import SqlDatabase


@dataclass(frozen=True)
class Damage:
    """Statements that damage a table with the ids 0 to 299, and a strategy of the copy before."""

    strategy: str
    statements: Sequence[str]
    more_or_fewer: bool = False
    """Whether the number of rows changes, so that counts show it."""
    extra: bool = False
    """Whether it only adds a row, which some modes allow."""


DAMAGES: Mapping[str, Damage] = {
    "row deleted": Damage("hash", ["DELETE FROM {t} WHERE id = 7"], more_or_fewer=True),
    "partition emptied": Damage("ntile", ["DELETE FROM {t} WHERE id < 150"], more_or_fewer=True),
    "emptied": Damage("whole", ["DELETE FROM {t}"], more_or_fewer=True),
    "row added": Damage(
        "ntile",
        ["INSERT INTO {t} SELECT 1000, day, amount, grp FROM {t} WHERE id = 7"],
        more_or_fewer=True,
        extra=True,
    ),
    "rows replaced by strangers": Damage(
        "ntile",
        [
            "DELETE FROM {t} WHERE id < 20",
            "INSERT INTO {t} SELECT id + 1000, day, amount, grp FROM {t} WHERE id >= 280",
        ],
    ),
    "key changed": Damage("hash", ["UPDATE {t} SET id = 1000 WHERE id = 7"]),
    "value changed": Damage("hash", ["UPDATE {t} SET amount = amount + 1 WHERE id = 7"]),
    "value lost": Damage("ntile", ["UPDATE {t} SET amount = NULL WHERE id = 7"]),
    "NULL became empty": Damage("whole", ["UPDATE {t} SET grp = '' WHERE id = 11"]),
    "values exchanged": Damage(
        "hash", ["UPDATE {t} SET amount = 50 - amount WHERE id IN (10, 190)"]
    ),
}
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "ntile": {"strategy": "ntile", "key": "id", "partitions": 2},
    "hash": {"strategy": "hash", "key": "id", "partitions": 2},
    "whole": {"strategy": "whole"},
}


@pytest.mark.parametrize("mode", [APPEND, REPLACE, SWAP, TRUNCATE, UPSERT], ids=attrgetter("name"))
def test_damage_is_noticed(inward: Pair, mode: Mode) -> None:
    theirs = inward.theirs
    if not isinstance(theirs, SqlDatabase):
        pytest.skip("rows of files are not changed: see test_parquet_copies")
    if mode not in theirs.backend.target_capabilities.modes:
        pytest.skip(f"no mode {mode.name}")
    if mode in {REPLACE, SWAP} and theirs.name != "postgresql":
        pytest.skip("as after mode truncate: only PostgreSQL tells a run's rows from others")
    inward.compares_texts()
    inward.make(key="id")
    # The toy has no keys.
    repairs = {REPLACE, UPSERT} <= set(theirs.backend.target_capabilities.modes)
    wrong = []
    for name, damage in DAMAGES.items():
        theirs.execute(f"DELETE FROM {theirs.table}")
        strategy = "ntile" if mode == REPLACE else damage.strategy
        finished = inward.copy(mode=mode.name, **STRATEGIES[strategy])
        inward.verify(finished)
        for statement in damage.statements:
            theirs.execute(statement.format(t=theirs.table))
        may_have = damage.extra and mode in {APPEND, UPSERT}
        by_counts = verify(finished.run_id, **inward.ends)
        by_checksums = verify(finished.run_id, **inward.ends, checksum=True)
        if by_counts.ok and not may_have:
            if damage.more_or_fewer:
                wrong.append(f"{name}: not noticed by counts")
            if COUNTED not in by_counts.notes:
                wrong.append(f"{name}: counts do not say what they compared")
        if by_checksums.ok and not may_have:
            wrong.append(f"{name}: not noticed by checksums")
        if repairs and not plan_repair(finished.run_id, **inward.ends, max_deletes="100%").ranges:
            wrong.append(f"{name}: not noticed by a repair")
    assert not wrong
