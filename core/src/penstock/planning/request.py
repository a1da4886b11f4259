"""The request for one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.backends.api.capabilities import Capabilities
from penstock.backends.api.facts import Siblings
from penstock.backends.api.worker import ROWS
from penstock.model.plans import Partition
from penstock.model.tables import Located
from penstock.planning.support import check_supported
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import Streams
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.partitioning import PartitionOptions
from penstock.spec.groups.route import Route
from penstock.spec.modes import Table
from penstock.spec.source_changes import FAIL
from penstock.spec.strategies import AUTO, FILES, WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The request for one plan.

    Args:
        capabilities: the capabilities of both ends.
        verify: how both ends are compared after the load.
        partitions: partitions that the caller defines; empty if the strategy partitions them.
        series: see `PartitionPlan`.
        siblings: the tables of its batch.
        moment: the time of the request.
    """

    route: Route
    partitioning: PartitionOptions
    loading: Loading
    streams: Streams
    run_id: str
    capabilities: Capabilities
    verify: str = "none"
    partitions: Sequence[Partition] = ()
    series: str = ""
    siblings: Siblings | None = None
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def formats(self) -> list[str]:
        """The formats that can carry the rows, best first for the source."""
        # A row of CSV does not tell its folder.
        in_folders = bool(self.loading.partition_by)
        names = self.capabilities.formats
        return [name for name in names if not (in_folders and name == ROWS)]

    def takes_whole_rows(self, route: Route) -> bool:
        """Whether partitions are all rows of some files, with all columns as they are.

        Args:
            route: the route of the rows, maybe with fewer columns than the user's.
        """
        options = self.partitioning
        selects = route.where or route.exclude_columns or route.expressions or route.masks
        return (
            isinstance(route.relation, Located)
            and not selects
            and route.columns is None
            and options.key is None
            and options.partition_strategy in (AUTO, FILES, WHOLE)
            and not self.partitions
        )

    @property
    def loads_table_as_it_is(self) -> bool:
        """Whether rows have to fit the target's table as it is, if there is one."""
        loading = self.loading
        return (
            loading.load_mode.table is not Table.RECREATED
            and loading.incremental is None
            and loading.on_drift == FAIL
            and not loading.schema_only
        )

    @classmethod
    def of(
        cls,
        spec: CopySpec,
        streams: Streams,
        run_id: str,
        capabilities: Capabilities,
        partitions: Sequence[Partition] = (),
        series: str = "",
        siblings: Siblings | None = None,
    ) -> PlanRequest:
        """Return the request for a copy.

        Args:
            spec: the copy.
            streams: the numbers of streams.
            run_id: the id of the run.
            capabilities: the capabilities of both ends.
            partitions: partitions that the caller defines; empty if the strategy partitions them.
            series: see `PartitionPlan`.
            siblings: the tables of its batch; None for a single copy.

        Raises:
            UsageError: the request is invalid, whatever the tables are.
        """
        check_supported(spec, capabilities.source, capabilities.target)
        return cls(
            route=spec,
            partitioning=spec,
            loading=spec,
            streams=streams,
            run_id=run_id,
            capabilities=capabilities,
            verify=spec.verify,
            partitions=partitions,
            series=series,
            siblings=siblings,
        )
