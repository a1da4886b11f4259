"""The snapshot as of which rows are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.spec.option import option

SNAPSHOTS = ("shared", "none")
ON_SNAPSHOT_LOST = ("fail", "restart", "accept")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SnapshotOptions:
    """The options under "snapshot"."""

    title: ClassVar[str] = "snapshot"

    snapshot: str = option(
        "shared",
        "shared: read all partitions as of the same moment; none: each as of its own",
        choices=SNAPSHOTS,
    )
    on_snapshot_lost: str | None = option(
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
