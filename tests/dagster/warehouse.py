"""Assets that copy between two real databases, and runs of them in process."""

# No future annotations: Dagster inspects the annotations of a step's context.
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets

if TYPE_CHECKING:
    from tests.conftest import Connection

TABLE = dg.AssetKey(["dw", "t"])


@dataclass(frozen=True)
class Run:
    """A finished run of Dagster."""

    result: dg.ExecuteInProcessResult | dg.JobExecutionResult
    instance: dg.DagsterInstance

    @property
    def ok(self) -> bool:
        return self.result.success

    @property
    def run_id(self) -> str:
        return self.result.run_id

    def materializations(self, asset: dg.AssetKey = TABLE) -> list[dg.AssetMaterialization]:
        found = [
            event.step_materialization_data.materialization
            for event in self.result.all_events
            if event.event_type_value == "ASSET_MATERIALIZATION"
        ]
        return [each for each in found if each.asset_key == asset]

    def reported(self, asset: dg.AssetKey = TABLE) -> list[str | None]:
        """Return the materialized partitions, one entry for each report."""
        return sorted((each.partition for each in self.materializations(asset)), key=str)

    def rows(self, asset: dg.AssetKey = TABLE) -> dict[str | None, int]:
        """Return the rows in the materializations, by partition."""
        return {
            each.partition: _value(each.metadata, "dagster/partition_row_count")
            for each in self.materializations(asset)
        }

    def metadata(self, partition: str | None = None, asset: dg.AssetKey = TABLE) -> dict[str, Any]:
        (found,) = [m for m in self.materializations(asset) if m.partition == partition]
        return {name: value.value for name, value in found.metadata.items()}

    @property
    def evaluations(self) -> list[dg.AssetCheckEvaluation]:
        return [*self.result.get_asset_check_evaluations()]

    @property
    def failure(self) -> Any:
        """Return description and metadata of the only step failure."""
        (event,) = [event for event in self.result.all_events if event.is_step_failure]
        assert event.step_failure_data.user_failure_data is not None, event.step_failure_data.error
        return event.step_failure_data.user_failure_data

    @property
    def failed(self) -> Any:
        """Return the names of partitions that were not copied."""
        return self.failure.metadata["penstock/failed"].value

    @property
    def skipped(self) -> set[str]:
        events = self.result.all_events
        return {str(event.step_key) for event in events if event.is_step_skipped}

    @property
    def log(self) -> str:
        """Return the log of the steps."""
        return "\n".join(record.user_message for record in self.instance.all_logs(self.run_id))

    @property
    def warnings(self) -> list[str]:
        return self.at_level(logging.WARNING)

    def at_level(self, level: int) -> list[str]:
        """Return the log lines of a level, without those of Dagster's own events."""
        return [
            record.user_message
            for record in self.instance.all_logs(self.run_id)
            if record.level == level and record.dagster_event is None
        ]


def _value(metadata: Mapping[str, Any], name: str) -> Any:
    return metadata[name].value


@dataclass(frozen=True)
class Warehouse:
    """A source with ten days of a hundred rows each in ``public.t``, and a target with ``dw.t``."""

    source: "Connection"
    target: "Connection"
    instance: dg.DagsterInstance

    def spec(self, **options: Any) -> CopySpec:
        defaults = {
            "source": dg.EnvVar("PG_SRC"),
            "target": dg.EnvVar("PG_DST"),
            "table": "public.t",
            "target_table": "dw.t",
            "mode": "replace",
            "degree": 2,
        }
        return CopySpec(**{**defaults, **options})

    def run(
        self,
        *assets: Any,
        key: str | None = None,
        keys: tuple[str, str] | None = None,
        after: Run | None = None,
        tags: Mapping[str, str] | None = None,
        degree: int | None = 2,
        selection: Any = None,
    ) -> Run:
        """Materialize assets.

        Args:
            key: the key of one partition.
            keys: the first and the last key of a range.
            after: the run that this one continues: a re-execution from failure.
        """
        all_tags = dict(tags or {})
        if keys is not None:
            all_tags["dagster/asset_partition_range_start"] = keys[0]
            all_tags["dagster/asset_partition_range_end"] = keys[1]
        if after is not None:
            all_tags["dagster/parent_run_id"] = all_tags["dagster/root_run_id"] = after.run_id
            all_tags["dagster/is_resume_retry"] = "true"
        result = dg.materialize(
            assets,
            instance=self.instance,
            partition_key=key,
            tags=all_tags,
            resources={"penstock": PenstockResource(degree=degree)},
            raise_on_error=False,
            selection=selection,
        )
        return Run(result, self.instance)

    def both(self, *statements: str) -> None:
        for statement in statements:
            self.source.execute(statement.encode())
            self.target.execute(statement.encode())

    def value(self, query: str) -> Any:
        """Return a value from the target."""
        row = self.target.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def count(self, table: str = "dw.t", where: str = "true") -> int:
        found: int = self.value(f"SELECT count(*) FROM {table} WHERE {where}")
        return found

    def check_same(self, table: str = "public.t", target: str = "dw.t") -> None:
        """Check that both sides have the same rows, equally often."""
        query = "SELECT t::text FROM {} AS t ORDER BY 1"
        rows = self.source.execute(query.format(table).encode()).fetchall()
        assert self.target.execute(query.format(target).encode()).fetchall() == rows

    def runs(self) -> set[str]:
        """Return the core's runs that have committed something."""
        rows = self.target.execute("SELECT DISTINCT run_id FROM penstock.commit_record").fetchall()
        return {run for (run,) in rows}


def copying(specs: Sequence[CopySpec], **options: Any) -> dg.AssetsDefinition:
    @penstock_assets(specs=specs, **{"name": "copy", **options})
    def copy(context: dg.AssetExecutionContext, penstock: PenstockResource) -> Iterator[Any]:
        yield from penstock.copy(context)

    return copy


def days(count: int = 10) -> dg.DailyPartitionsDefinition:
    return dg.DailyPartitionsDefinition("2024-01-01", end_date=f"2024-01-{count + 1:02}")
