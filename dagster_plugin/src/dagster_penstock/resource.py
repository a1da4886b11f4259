"""The resource that copies the tables of a step."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_penstock.asset_decorator import definitions_of
from dagster_penstock.copies.batch import copy_tables
from dagster_penstock.copies.partitioned_copy import PartitionedCopy
from dagster_penstock.copies.table_copy import Copied, Copy
from dagster_penstock.copies.whole_copy import WholeCopy
from dagster_penstock.reports import failure_of


class PenstockResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A resource that copies tables."""

    degree: int | None = Field(
        default=None,
        description=(
            "The most streams at once, in each step; by default the `degree` of each CopySpec."
            " 0: one per CPU, -n: CPUs divided by n."
        ),
    )

    def copy(  # type: ignore[override]
        self, context: dg.AssetExecutionContext, *, s3: Any = None
    ) -> Iterator[Copied]:
        """Copy the selected assets of `penstock_assets`, and yield their events.

        A partitioned asset yields a materialization for each partition as it is committed.

        Parameters:
            s3: a `dagster_aws.s3.S3Resource`, or an object with its fields: keys, endpoint and
                region for `s3://` URLs; by default the machine that runs the step finds them.

        Raises:
            Failure: some partitions could not be copied; its metadata says which and why. The
                others are copied.
        """
        yield from copy_assets(context, self.degree, s3)


def copy_assets(
    context: dg.AssetExecutionContext, most: int | None, s3: Any = None
) -> Iterator[Copied]:
    """Copy the selected assets of a step.

    Parameters:
        most: the maximum number of concurrent streams; None for each table's own `degree`.
        s3: see `with_keys`.

    Raises:
        Failure: some of it could not be copied; the rest is copied.
    """
    assets_def = context.assets_def
    alone = [
        check.to_user_string()
        for check in context.selected_asset_check_keys
        if check.asset_key not in context.selected_asset_keys
    ]
    if alone:
        raise dg.Failure(
            f"{', '.join(alone)}: the check runs as part of the copy, while both sides can be "
            "compared: select the asset as well",
            allow_retries=False,
        )
    copies: list[Copy] = [
        WholeCopy(context, asset, definition.spec, most, s3)
        if assets_def.partitions_def is None
        else PartitionedCopy(context, asset, definition.spec, most, s3, assets_def.partitions_def)
        for asset, definition in definitions_of(assets_def).items()
        if asset in context.selected_asset_keys
    ]
    with interrupt_with_parent():
        troubles = yield from copy_tables(context, copies)
    if troubles:
        raise failure_of(troubles)


LOOK_EVERY = 0.5


@contextmanager
def interrupt_with_parent() -> Iterator[None]:
    """Interrupt this process when its parent is gone, as Dagster does when a run is canceled.

    Dagster runs a step in a process of its own, which keeps running when the run's process is
    killed, even during a retry of the failed run. A process that Python's `multiprocessing` did not
    start is not watched.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY):
            if not parent.is_alive():
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=watch, name="penstock-parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
