"""Source against target, as an asset check of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from .warehouse import TABLE, copying, days

if TYPE_CHECKING:
    from .warehouse import Run, Warehouse

# The parameter of `dg.asset` that gives an asset its upstream assets.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
THREE = ("2024-01-02", "2024-01-04")


def spoil(warehouse: Warehouse, body: str) -> None:
    """Make the target change row 250, of 2024-01-03, during the load."""
    warehouse.target.execute(
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {body} RETURN NULL; END $$".encode()
    )
    warehouse.target.execute(
        "CREATE TRIGGER spoil AFTER INSERT ON dw.t FOR EACH ROW WHEN (NEW.id = 250)"
        " EXECUTE FUNCTION spoil()"
    )


def mend(warehouse: Warehouse) -> None:
    warehouse.target.execute("DROP FUNCTION spoil() CASCADE")


def passed(run: Run) -> dict[str | None, bool]:
    return {each.partition: each.passed for each in run.evaluations}


@pytest.mark.parametrize(
    ("mode", "verify", "body", "name"),
    [
        ("replace", "counts", "DELETE FROM dw.t WHERE id = 250;", "same_row_count"),
        ("replace", "checksums", "UPDATE dw.t SET region = 'x' WHERE id = 250;", "same_rows"),
        ("append", "counts", "DELETE FROM dw.t WHERE id = 250;", "same_row_count"),
        ("upsert", "checksums", "UPDATE dw.t SET region = 'x' WHERE id = 250;", "same_rows"),
    ],
)
def test_a_differing_partition_fails_its_check(
    warehouse: Warehouse, mode: str, verify: str, body: str, name: str
) -> None:
    spoil(warehouse, body)
    orders = copying([warehouse.spec(key="day", mode=mode, verify=verify)], partitions_def=days())
    ran: list[str] = []
    run = warehouse.run(orders, downstream(orders, ran), keys=THREE)
    assert run.ok
    assert ran == ["downstream"]
    assert run.reported() == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert passed(run) == {"2024-01-02": True, "2024-01-03": False, "2024-01-04": True}
    wrong = next(each for each in run.evaluations if not each.passed)
    assert wrong.asset_check_key == dg.AssetCheckKey(TABLE, name)
    assert wrong.severity == dg.AssetCheckSeverity.ERROR
    metadata = {key: value.value for key, value in wrong.metadata.items()}
    assert metadata["penstock/verify"] == verify
    assert metadata["penstock/difference"]
    assert metadata["penstock/source_rows"] == 100
    if verify == "counts":
        assert metadata["penstock/target_rows"] == 99
    right = next(each for each in run.evaluations if each.passed)
    metadata = {key: value.value for key, value in right.metadata.items()}
    assert metadata.pop("penstock/verify") == verify
    # An upsert's target may have other rows, so only the source's figures are shown.
    assert metadata.pop("penstock/source_rows") == 100
    if mode != "upsert":
        assert metadata.pop("penstock/target_rows") == 100
    if verify == "checksums":
        source_digest = metadata.pop("penstock/source_checksum")
        assert source_digest
        if mode != "upsert":
            assert metadata.pop("penstock/target_checksum") == source_digest
    assert metadata == {}


def downstream(orders: Any, ran: list[str]) -> dg.AssetsDefinition:
    @dg.asset(deps=[orders], partitions_def=days(), backfill_policy=dg.BackfillPolicy.single_run())
    def downstream() -> None:
        ran.append("downstream")

    return downstream


def test_a_failed_blocking_check_stops_downstream_assets(warehouse: Warehouse) -> None:
    spoil(warehouse, "UPDATE dw.t SET region = 'x' WHERE id = 250;")
    orders = copying(
        [warehouse.spec(key="day", verify="checksums")], partitions_def=days(), blocking=True
    )
    ran: list[str] = []
    first = warehouse.run(orders, downstream(orders, ran), keys=THREE)
    assert not first.ok
    assert ran == []
    assert first.reported() == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert passed(first) == {"2024-01-02": True, "2024-01-03": False, "2024-01-04": True}
    # The re-execution compares both sides again, and copies nothing.
    again = warehouse.run(orders, downstream(orders, ran), keys=THREE, after=first)
    assert not again.ok
    assert again.reported() == ran == []
    mend(warehouse)
    new = warehouse.run(orders, downstream(orders, ran), keys=THREE)
    assert new.ok
    assert set(passed(new).values()) == {True}
    assert ran == ["downstream"]
    # A retry reuses the comparison.
    assert set(passed(warehouse.run(orders, keys=THREE, after=new)).values()) == {True}


def test_nothing_is_compared_unless_the_check_is_selected(warehouse: Warehouse) -> None:
    spoil(warehouse, "UPDATE dw.t SET region = 'x' WHERE id = 250;")
    orders = copying([warehouse.spec(key="day", verify="checksums")], partitions_def=days())
    only = dg.AssetSelection.assets(TABLE).without_checks()
    run = warehouse.run(orders, keys=THREE, selection=only)
    assert run.ok
    assert run.reported() == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert run.evaluations == []
    assert "verified" not in run.log
    # The re-execution runs the check for all partitions.
    again = warehouse.run(orders, keys=THREE, after=run)
    assert again.reported() == []
    assert passed(again) == {"2024-01-02": True, "2024-01-03": False, "2024-01-04": True}


def test_a_check_without_its_asset_fails_with_advice(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(key="day", verify="counts")], partitions_def=days())
    check = dg.AssetSelection.checks(dg.AssetCheckKey(TABLE, "same_row_count"))
    run = warehouse.run(orders, keys=THREE, selection=check)
    assert run.failure.description == (
        "dw/t:same_row_count: a check runs as part of its asset's copy, while both sides can be "
        "compared: select the asset as well"
    )


def test_a_differing_table_fails_its_check(warehouse: Warehouse) -> None:
    spoil(warehouse, "UPDATE dw.t SET region = 'x' WHERE id = 250;")
    spec = warehouse.spec(mode="truncate", verify="checksums", partitions=2)
    run = warehouse.run(copying([spec]))
    assert run.ok
    assert len(run.reported()) == 1
    (evaluation,) = run.evaluations
    assert not evaluation.passed
    assert evaluation.metadata["penstock/verify"].value == "checksums"
    assert evaluation.metadata["penstock/partitions"].value == 2
    assert evaluation.metadata["penstock/source_rows"].value == 1000
    assert str(evaluation.metadata["penstock/differences"].value).startswith("- p000")
    assert not warehouse.run(copying([spec], blocking=True)).ok
