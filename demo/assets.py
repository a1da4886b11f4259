"""The act in Dagster: an asset whose partitions are ranges of the table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from dagster_penstock import PenstockResource
from demo import proof, scene
from demo.defs.orders import orders
from demo.scene import Scene
from demo.stage import Stage

DEFS_FILE = Path(__file__).parent / "defs/orders.py"
KEYS = [f"{number:03}" for number in range(8)]
ALL = {
    "dagster/asset_partition_range_start": KEYS[0],
    "dagster/asset_partition_range_end": KEYS[-1],
}
# Keep Dagster's log off the screen.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class Partition:
    """The state of the asset's partition in Dagster."""

    key: str
    status: str
    materialized_by: str
    facts: Mapping[str, object]


def run(stage: Stage, set_up: Scene) -> None:
    stage.heading("The same in Dagster: one asset partition per range")
    stage.say(
        "An asset with eight partitions. Their bounds come from a plan stored in the target, so "
        "that they stay the same tomorrow. The constraint against refunds is back, now on this "
        "copy's target table."
    )
    text = DEFS_FILE.read_text(encoding="utf-8")
    stage.code(text[text.index("@penstock_assets") :].rstrip())
    set_up.make_warehouse()
    os.environ |= {"SOURCE": set_up.source, "TARGET": set_up.target}
    with dg.instance_for_test() as instance:
        _act(stage, set_up, instance)


def _act(stage: Stage, set_up: Scene, instance: dg.DagsterInstance) -> None:
    stage.gap()
    stage.say("Materialize all eight, in one run with one step:")
    failed = _materialize(instance, ALL)
    before = _partitions(instance)
    _show(stage, before, {failed.run_id: "first run"})
    good = [item for item in before if item.status == "materialized"]
    stage.check(
        f"the run failed, and {len(good)} of {len(KEYS)} partitions are materialized",
        not failed.success and len(good) == len(KEYS) - 1,
    )
    stage.say("The step says which one is not, and why:")
    stage.code(_failure_text(failed))
    stage.gap()
    stage.say("Drop the constraint, and re-execute the run from failure, as the button does:")
    stage.code(scene.DROP_RULE.format(table="dw.orders"))
    set_up.on_target(scene.DROP_RULE.format(table="dw.orders"))
    retried = _materialize(
        instance,
        {
            **ALL,
            "dagster/parent_run_id": failed.run_id,
            "dagster/root_run_id": failed.run_id,
            "dagster/is_resume_retry": "true",
        },
    )
    after = _partitions(instance)
    _show(stage, after, {failed.run_id: "first run", retried.run_id: "re-execution"})
    unchanged = [item for item in after if item in before]
    stage.check(
        f"the re-execution copied the failed one; the other {len(unchanged)} stayed unchanged",
        retried.success and unchanged == good,
    )
    ours, theirs = proof.checksums(set_up.source, set_up.target, "orders", "dw.orders")
    stage.check("source and target hold the same rows", ours == theirs)
    stage.check(
        "the row counts that Dagster shows add up to those of the source",
        sum(int(str(item.facts["dagster/partition_row_count"])) for item in after) == ours[0],
    )


def _materialize(
    instance: dg.DagsterInstance, tags: Mapping[str, str]
) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [orders],
        instance=instance,
        resources={"penstock": PenstockResource(degree=2)},
        tags=tags,
        run_config=QUIET,
        raise_on_error=False,
    )


def _failure_text(failed: dg.ExecuteInProcessResult) -> str:
    """Return the text of the step's failure."""
    (event,) = failed.filter_events(lambda event: event.is_step_failure)
    data = event.step_failure_data.user_failure_data
    return (data.description if data else None) or "nothing"


def _partitions(instance: dg.DagsterInstance) -> list[Partition]:
    """Return the partitions as Dagster shows them."""
    definition = orders.partitions_def
    assert definition is not None
    statuses = instance.get_status_by_partition(orders.key, KEYS, definition) or {}
    found = []
    for key in KEYS:
        records = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=orders.key, asset_partitions=[key]), limit=1
        ).records
        materialization = records[0].asset_materialization if records else None
        status = statuses.get(key)
        found.append(
            Partition(
                key,
                status.value.lower() if status else "missing",
                records[0].run_id if records else "",
                {name: item.value for name, item in materialization.metadata.items()}
                if materialization
                else {},
            )
        )
    return found


def _show(stage: Stage, partitions: list[Partition], names: Mapping[str, str]) -> None:
    stage.gap()
    stage.table(
        ("partition", "status", "copied by", "rows", "bounds"),
        [
            (
                item.key,
                item.status,
                names.get(item.materialized_by, ""),
                f"{item.facts['dagster/partition_row_count']:,}" if item.facts else "",
                str(item.facts.get("penstock/bounds", "")),
            )
            for item in partitions
        ],
    )
    stage.gap()
