"""Every backend with every other: values of each common kind arrive and compare equal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import product

import pytest

from penstock import status
from penstock.backends.api.worker import ARROW
from penstock.spec.modes import MODES

from ..plain_rows import plain
from .copying import Pair
from .database import Database
from .databases import DATABASES

PAIRS = [*product(DATABASES, DATABASES), ("s3", "postgresql"), ("postgresql", "s3")]


@pytest.mark.parametrize(("mine", "theirs"), PAIRS)
def test_every_kind_of_value_arrives(
    open_database: Callable[[str], Database], mine: str, theirs: str
) -> None:
    """Penstock creates the table if it can, with types that depend on both ends."""
    pair = Pair(open_database(mine), open_database(theirs))
    rows = pair.every_kind
    pair.mine.fill(rows)
    creating = pair.theirs.backend.target_capabilities.creating_modes
    plain_modes = [mode.name for mode in creating if mode is MODES[mode.name]]
    if not creating:
        pair.theirs.make(rows)
    finished = pair.copy(mode=plain_modes[-1] if creating else "append")
    pair.check(rows)
    plan = status(finished.run_id, target=pair.ends["target"]).run.plan
    assert [column.target for column in plan.pairs] == list(rows.columns)
    if plan.format == ARROW:  # otherwise the comparison uses one system's own text of a row
        assert [column.target for column in plan.pairs if not column.canonical] == []
    pair.verify(finished)


def test_plain_values_differ_if_the_originals_do() -> None:
    """The comparison in these tests does detect differences."""
    assert plain([1.0]) != plain([2.0])
    assert plain([b"a"]) != plain(["a"])
    assert plain([date(2024, 1, 1)]) != plain([date(2024, 1, 2)])
    assert plain([Decimal("1.50")]) == plain([Decimal("1.5")])
