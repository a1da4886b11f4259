"""Move a table in parallel partitions, each through its own COPY stream, each exactly once.

from penstock import CopySpec, copy

for event in copy(CopySpec(source="env:SRC", target="env:DST", table="public.orders")):
    print(event)
"""

from penstock.engine import RunStatus, control_ddl, copy, plan, resume, status, verify
from penstock.errors import (
    Interrupted,
    PenstockError,
    PermanentError,
    PlanningError,
    RunFailed,
    RunFailedTransiently,
    SnapshotLost,
    SpecMismatch,
    TransientError,
    UsageError,
)
from penstock.events import Event
from penstock.model import CommitRecord, Partition, PartitionPlan
from penstock.spec import CopySpec
from penstock.verification import Verification

__all__ = [
    "CommitRecord",
    "CopySpec",
    "Event",
    "Interrupted",
    "Partition",
    "PartitionPlan",
    "PenstockError",
    "PermanentError",
    "PlanningError",
    "RunFailed",
    "RunFailedTransiently",
    "RunStatus",
    "SnapshotLost",
    "SpecMismatch",
    "TransientError",
    "UsageError",
    "Verification",
    "control_ddl",
    "copy",
    "plan",
    "resume",
    "status",
    "verify",
]
