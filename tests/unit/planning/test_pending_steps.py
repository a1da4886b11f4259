"""Steps that stopped runs have left unfinished, adopted by another load."""

from __future__ import annotations

from penstock import CopySpec
from penstock.model.plans import LoadPlan, Step
from penstock.model.table_model import FOREIGN_KEYS
from penstock.model.tables import NotCopied, TableRef
from penstock.planning.pending_steps import with_pending_steps
from penstock.spec.modes import ModeName

TABLE = TableRef("public", "article")


def restoring(key: str) -> Step:
    """Return a step that restores a key; its name depends only on the table."""
    instead = NotCopied(FOREIGN_KEYS, key, f"ALTER TABLE article ADD {key};", str(TABLE))
    return Step(f"restore 1 {key}", f"relink {TABLE}", "...", after=True, instead=instead)


def spec(mode: ModeName = "truncate", *, data_only: bool = False) -> CopySpec:
    return CopySpec(source="env:A", target="env:B", table="article", mode=mode, data_only=data_only)


def test_a_key_is_restored_although_the_table_has_another() -> None:
    load = LoadPlan(TABLE, (), links=(restoring("written"),))
    pending = [("night", restoring("written")), ("night", restoring("read"))]
    found, reasons = with_pending_steps(spec(data_only=True), load, pending)
    assert [step.id for step in found.links] == ["restore 1 written", "restore 1 read of run night"]
    assert not found.warnings
    assert f"left over from run night, which was stopped: restore foreign key read of {TABLE}" in (
        reasons
    )


def test_a_warning_names_each_key_that_is_not_restored() -> None:
    pending = [("night", restoring("written")), ("night", restoring("read"))]
    found, reasons = with_pending_steps(spec(), LoadPlan(TABLE, ()), pending)
    assert not found.links
    assert not reasons
    first, second = found.warnings
    assert "restore foreign key written of public.article" in first
    assert second.endswith("run: ALTER TABLE article ADD read;")
    assert "pass --indexes defer" in first


def test_no_warning_advises_an_option_that_the_mode_rejects() -> None:
    pending = [("night", restoring("written"))]
    found, _ = with_pending_steps(spec("upsert"), LoadPlan(TABLE, ()), pending)
    (warning,) = found.warnings
    assert "resume it, or run: " in warning
