"""The resource that copies the tables of a step."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_penstock.asset_decorator import definitions_of
from dagster_penstock.copies.batch import copy_tables
from dagster_penstock.copies.partitioned_copy import PartitionedCopy
from dagster_penstock.copies.table_copy import Copy, CopyEvent
from dagster_penstock.copies.whole_copy import WholeCopy
from dagster_penstock.reports import CopyFailure, step_failure
from dagster_penstock.sources import upstreams
from dagster_penstock.translator import observed
from dagster_penstock.workers import role_of, worker_output
from penstock import PenstockError, TableRequest

_POLL_INTERVAL = 0.5  # seconds
# Seconds for cleaning up after an interruption.
_AGAIN_SECONDS = 20.0


class PenstockResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A resource that copies tables."""

    degree: int | None = Field(
        default=None,
        description=(
            "The maximum number of concurrent streams in each step; by default the `degree` of each"
            " CopySpec. 0: one per CPU, -n: CPUs divided by n."
        ),
    )

    def copy(  # type: ignore[override]
        self, context: dg.AssetExecutionContext, *, s3: Any = None
    ) -> Iterator[CopyEvent]:
        """Copy the selected assets of `penstock_assets`, and yield their events.

        A partitioned asset yields a materialization for each partition as it is committed.

        Args:
            context: the context of the step.
            s3: a `dagster_aws.s3.S3Resource`, or an object with its fields: keys, endpoint and
                region for `s3://` URLs; None if the machine that runs the step finds them.

        Raises:
            Failure: some partitions or tables could not be copied; its metadata names them, with
                their errors. The others are copied.
        """
        yield from _copy_assets(context, self.degree, s3)


def _copy_assets(
    context: dg.AssetExecutionContext, degree: int | None, s3: Any
) -> Iterator[CopyEvent]:
    """Copy the selected assets of a step.

    Args:
        context: the context of the step.
        degree: the maximum number of concurrent streams; None for each table's own `degree`.
        s3: see `PenstockResource.copy`.
    """
    assets_def = context.assets_def
    checks = [
        check.to_user_string()
        for check in context.selected_asset_check_keys
        if check.asset_key not in context.selected_asset_keys
    ]
    if checks:
        raise dg.Failure(
            f"{', '.join(checks)}: a check runs as part of its asset's copy, while both sides can "
            "be compared: select the asset as well",
            allow_retries=False,
        )
    selected = {
        asset: definition
        for asset, definition in definitions_of(assets_def).items()
        if asset in context.selected_asset_keys
    }
    read = upstreams(context, [(each.spec, observed(each.source)) for each in selected.values()])
    copies: list[Copy] = [
        WholeCopy(context, asset, definition.spec, degree, s3, upstream)
        if assets_def.partitions_def is None
        else PartitionedCopy(
            context, asset, definition.spec, degree, s3, upstream, assets_def.partitions_def
        )
        for (asset, definition), upstream in zip(selected.items(), read, strict=True)
    ]
    with _interrupted_with_parent():
        match role_of(context):
            case "plan":
                failures = yield from _one(copies[0], copies[0].plan, others_work=False)
            case "work":
                failures = yield from _one(copies[0], copies[0].work, others_work=True)
                if not failures:
                    yield worker_output(
                        context, copies[0].committed, copies[0].finished, copies[0].verified
                    )
            case _:
                failures = yield from copy_tables(context, copies)
    if failures:
        raise step_failure(failures)


def _one(
    copy: Copy,
    do: Callable[[TableRequest], Iterable[CopyEvent] | None],
    *,
    others_work: bool,
) -> Generator[CopyEvent, None, list[CopyFailure]]:
    """Do one part of a copy with several workers; the step that ends it reports the rest."""
    try:
        started = copy.start()
        while True:
            next(started)
    except StopIteration as stop:
        request: TableRequest | None = stop.value
    except PenstockError as error:
        return [copy.failure(error, others_work=others_work)]
    try:
        if request is not None:
            yield from do(request) or ()
    except PenstockError as error:
        return [copy.failure(error, others_work=others_work)]
    return []


@contextmanager
def _interrupted_with_parent() -> Iterator[None]:
    """Interrupt this process when its parent has ended, as Dagster does when a run is canceled.

    Dagster runs a step in a process of its own. If the run's process is killed, the step keeps
    running, even during a retry of the failed run. A process that Python's `multiprocessing` did
    not start is not watched.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        yield
        return
    end = threading.Event()

    def watch() -> None:
        while not end.wait(_POLL_INTERVAL):
            if not parent.is_alive():
                os.kill(os.getpid(), signal.SIGINT)
                # A driver or a finalizer may have swallowed it.
                if end.wait(_AGAIN_SECONDS):
                    return

    thread = threading.Thread(target=watch, name="penstock-parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
