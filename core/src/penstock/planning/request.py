"""What one plan is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.backends.api.capabilities import Capabilities
from penstock.backends.api.facts import Siblings
from penstock.model.plans import Partition
from penstock.planning.support import check_supported
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import Streams
from penstock.spec.parts import Cutting, Loading, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """
    Parameters:
        capabilities: of both ends.
        given: partitions that the caller names; by default the strategy makes them.
        series: see `PartitionPlan`.
        siblings: the tables of the batch that it is copied in.
        moment: when it is asked for.
    """

    route: Route
    cutting: Cutting
    loading: Loading
    streams: Streams
    run_id: str
    capabilities: Capabilities
    given: Sequence[Partition] = ()
    series: str = ""
    siblings: Siblings | None = None
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def of(
        cls,
        spec: CopySpec,
        streams: Streams,
        run_id: str,
        capabilities: Capabilities,
        given: Sequence[Partition] = (),
        series: str = "",
        siblings: Siblings | None = None,
    ) -> PlanRequest:
        """
        Raises:
            UsageError: what is asked for is wrong, whatever the tables are.
        """
        check_supported(spec, capabilities.source, capabilities.target)
        return cls(
            route=spec.route,
            cutting=spec.cutting,
            loading=spec.loading,
            streams=streams,
            run_id=run_id,
            capabilities=capabilities,
            given=given,
            series=series,
            siblings=siblings,
        )
