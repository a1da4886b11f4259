"""The runs of a batch, as the batch finds them or its caller defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.backends.api.execution.control import RunRow
from penstock.engine.resume_checks import check_same_partitions, check_same_spec
from penstock.errors import PenstockError
from penstock.model.plans import Partition, PartitionPlan
from penstock.planning.asking.search_path import with_stored_schemas
from penstock.planning.named_partitions import check_explicit_partitions, check_series
from penstock.spec.copy_spec import CopySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """A table to copy in a batch.

    Args:
        spec: the copy, with the run's id, by which an existing run is continued.
        partitions, series: see `create`.
        check: raises a PenstockError for a new plan that must not be executed.
        as_of_now: see `resume`.
        renew: see `create`.
        error: why the table cannot be copied; None if it can.
    """

    spec: CopySpec
    partitions: Sequence[Partition] = ()
    series: str = ""
    check: Callable[[PartitionPlan], object] | None = None
    as_of_now: bool = False
    renew: bool = False
    error: PenstockError | None = None

    @property
    def run_id(self) -> str:
        """The id of the table's run."""
        assert self.spec.run_id is not None
        return self.spec.run_id

    def check_given(self) -> None:
        """Check the partitions that the caller defines.

        Raises:
            UsageError: as `create` raises it.
        """
        if self.partitions:
            check_explicit_partitions(self.spec, self.spec.key, self.partitions)
        if self.series:
            check_series(self.series)

    def check_same(self, run: RunRow) -> None:
        """Check that a stored run has the same options and partitions.

        Raises:
            SpecMismatch: the stored run has other options or partitions.
        """
        check_same_spec(with_stored_schemas(self.spec, run.spec), run)
        check_same_partitions(self.partitions, self.series, run)
