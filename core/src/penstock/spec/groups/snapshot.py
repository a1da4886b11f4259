"""The snapshot as of which rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from penstock.spec.option import option

SnapshotUse = Literal["shared", "none"]
SNAPSHOTS = get_args(SnapshotUse)
OnSnapshotLost = Literal["fail", "restart", "accept"]
ON_SNAPSHOT_LOST = get_args(OnSnapshotLost)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SnapshotOptions:
    """The options under "snapshot"."""

    title: ClassVar[str] = "snapshot"

    snapshot: SnapshotUse = option(
        "shared",
        "shared: read all partitions as of the same moment; none: each as of its own",
        choices=SNAPSHOTS,
    )
    on_snapshot_lost: OnSnapshotLost | None = option(
        None,
        "if the shared snapshot is lost: fail; start the copy over (restart; not with append); "
        "or read the remaining partitions with a new snapshot (accept). By default restart if "
        "rows are merged at the end (--incremental, --atomic), else fail",
        execution=True,
        choices=ON_SNAPSHOT_LOST,
    )
    give_way_after: float | None = option(
        None,
        "stop the run, to be resumed later, once another session's statement (ALTER TABLE, "
        "DROP) has waited this long for the snapshot to release the source's table, such as 60s "
        "(default: report who waits, and continue)",
        execution=True,
        metavar="DURATION",
    )
