"""Move a table in parallel partitions, each through its own COPY stream, each exactly once.

from penstock import CopySpec, copy

for event in copy(CopySpec(source="env:SRC", target="env:DST", table="public.orders")):
    print(event)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.batch import copy_all
    from penstock.batch_spec import BatchSpec
    from penstock.connections import holds_secret, place_of, with_parameters
    from penstock.display import not_copied_lines
    from penstock.engine import (
        RunStatus,
        control_ddl,
        copy,
        create,
        loaded,
        plan,
        resume,
        status,
        verify,
    )
    from penstock.errors import (
        Interrupted,
        NoHolder,
        PenstockError,
        PermanentError,
        PlanningError,
        RunFailed,
        RunFailedTransiently,
        SnapshotLost,
        SpecMismatch,
        Superseded,
        TransientError,
        UsageError,
    )
    from penstock.events import Committed, Event, Finished, PartitionDifference, Verified, from_line
    from penstock.holding import hold, release, take_up
    from penstock.model import (
        Bound,
        CommitRecord,
        Extent,
        HashBucket,
        Key,
        KeyIsNull,
        KeyRange,
        KeyValues,
        NotCopied,
        Partition,
        PartitionPlan,
        Place,
        TableRef,
        Whole,
    )
    from penstock.narration import failure_text, narrate, report_text, together
    from penstock.spec import CopySpec, in_names
    from penstock.supervisor import streams
    from penstock.verification import Verification

__all__ = [
    "BatchSpec",
    "Bound",
    "CommitRecord",
    "Committed",
    "CopySpec",
    "Event",
    "Extent",
    "Finished",
    "HashBucket",
    "Interrupted",
    "Key",
    "KeyIsNull",
    "KeyRange",
    "KeyValues",
    "NoHolder",
    "NotCopied",
    "Partition",
    "PartitionDifference",
    "PartitionPlan",
    "PenstockError",
    "PermanentError",
    "Place",
    "PlanningError",
    "RunFailed",
    "RunFailedTransiently",
    "RunStatus",
    "SnapshotLost",
    "SpecMismatch",
    "Superseded",
    "TableRef",
    "TransientError",
    "UsageError",
    "Verification",
    "Verified",
    "Whole",
    "control_ddl",
    "copy",
    "copy_all",
    "create",
    "failure_text",
    "from_line",
    "hold",
    "holds_secret",
    "in_names",
    "loaded",
    "narrate",
    "not_copied_lines",
    "place_of",
    "plan",
    "release",
    "report_text",
    "resume",
    "status",
    "streams",
    "take_up",
    "together",
    "verify",
    "with_parameters",
]

_HOMES = {
    "connections": ("holds_secret", "place_of", "with_parameters"),
    "batch": ("copy_all",),
    "batch_spec": ("BatchSpec",),
    "display": ("not_copied_lines",),
    "engine": (
        "RunStatus",
        "control_ddl",
        "copy",
        "create",
        "loaded",
        "plan",
        "resume",
        "status",
        "verify",
    ),
    "events": ("Committed", "Event", "Finished", "PartitionDifference", "Verified", "from_line"),
    "supervisor": ("streams",),
    "holding": ("hold", "release", "take_up"),
    "model": (
        "Bound",
        "CommitRecord",
        "Extent",
        "HashBucket",
        "Key",
        "KeyIsNull",
        "KeyRange",
        "KeyValues",
        "NotCopied",
        "Partition",
        "PartitionPlan",
        "Place",
        "TableRef",
        "Whole",
    ),
    "narration": ("failure_text", "narrate", "report_text", "together"),
    "spec": ("CopySpec", "in_names"),
    "verification": ("Verification",),
}


def __getattr__(name: str) -> Any:
    # On first use: a worker imports this package too, and needs none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    return getattr(import_module(f"{__name__}.{home}"), name)
