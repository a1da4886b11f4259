"""Steps that stopped runs have left undone, adopted by another load."""

from __future__ import annotations

from penstock import CopySpec
from penstock.model.plans import LoadPlan, Step
from penstock.model.table_model import FOREIGN_KEYS
from penstock.model.tables import NotCopied, TableRef
from penstock.planning.pending_steps import with_pending_steps

TABLE = TableRef("public", "article")


def restoring(key: str) -> Step:
    """Steps of one table have one name, whichever key they restore."""
    instead = NotCopied(FOREIGN_KEYS, key, f"ALTER TABLE article ADD {key};", str(TABLE))
    return Step(f"restore 1 {key}", f"relink {TABLE}", "...", after=True, instead=instead)


def spec(*, data_only: bool = False) -> CopySpec:
    return CopySpec(
        source="env:A", target="env:B", table="article", mode="truncate", data_only=data_only
    )


def test_a_key_is_restored_beside_another_of_the_same_table() -> None:
    load = LoadPlan(TABLE, (), links=(restoring("written"),))
    left = [("night", restoring("written")), ("night", restoring("read"))]
    found, reasons = with_pending_steps(spec(data_only=True).loading, load, left)
    assert [step.id for step in found.links] == ["restore 1 written", "restore 1 read of run night"]
    assert not found.warnings
    assert f"left over from run night, which was stopped: restore foreign key read of {TABLE}" in (
        reasons
    )


def test_each_key_is_warned_of_where_it_is_not_restored() -> None:
    left = [("night", restoring("written")), ("night", restoring("read"))]
    found, reasons = with_pending_steps(spec().loading, LoadPlan(TABLE, ()), left)
    assert not found.links
    assert not reasons
    first, second = found.warnings
    assert "restore foreign key written of public.article" in first
    assert second.endswith("run: ALTER TABLE article ADD read;")
