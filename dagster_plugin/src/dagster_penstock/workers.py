"""A copy in several steps: one that plans it, those of the workers, and one that reports it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import dagster as dg

from dagster_penstock.identity import continued_runs
from dagster_penstock.metadata_set import PenstockMetadataSet
from penstock import CopySpec, Finished, UsageError, Verified, from_line

Role = Literal["plan", "work", "end"]
# A killed worker's partitions are taken by the others, but the run of Dagster would fail.
RETRIES = dg.RetryPolicy(max_retries=3)
_WORKER = "worker_"
_VERIFIED = "penstock/verified"


def check_workers(
    workers: int, specs: Sequence[CopySpec], backfill_policy: dg.BackfillPolicy | None
) -> None:
    """Check that several workers can share a copy.

    Args:
        workers: the number of workers.
        specs: the copies of the step.
        backfill_policy: the backfill policy of the assets.

    Raises:
        UsageError: they cannot.
    """
    if isinstance(workers, bool) or workers < 2:
        raise UsageError(f"workers: expected a number of at least 2, found {workers!r}")
    if len(specs) != 1:
        raise UsageError(
            f"workers: expected one copy, found {len(specs)}: give each table that is large enough "
            "for several workers a step of its own"
        )
    if specs[0].incremental:
        raise UsageError("workers: expected a copy of all rows, found one with incremental")
    if backfill_policy is not None and backfill_policy.max_partitions_per_run == 1:
        raise UsageError(
            "workers: expected a backfill policy with several partitions in a run, found one "
            "partition in each: that cannot be divided"
        )


def with_workers(
    single: dg.AssetsDefinition,
    function: Callable[..., Any],
    workers: int,
    checks: Sequence[dg.AssetCheckSpec],
    backfill_policy: dg.BackfillPolicy | None,
    **options: Any,
) -> dg.AssetsDefinition:
    """Return an asset that a graph copies, in place of a single step.

    Args:
        single: the asset with a single step.
        function: the body of every step.
        workers: the number of workers.
        checks: the checks of the asset.
        backfill_policy: the backfill policy of the asset.
        options: the options of every step; workers are retried even without a `retry_policy`.
    """
    name = single.node_def.name
    ends = list(single.keys_by_input_name)
    outputs = [*single.keys_by_output_name, *single.check_specs_by_output_name]
    nothing = dg.In(dg.Nothing)
    plan = dg.op(
        name=f"{name}_plan", ins=dict.fromkeys(ends, nothing), out=dg.Out(dg.Nothing), **options
    )(function)
    work = dg.op(
        name=f"{name}_work",
        ins={"planned": nothing},
        out=dg.Out(dg.Nothing),
        **{**options, "retry_policy": options["retry_policy"] or RETRIES},
    )(function)
    end = dg.op(
        name=f"{name}_end",
        ins={"worked": nothing},
        out={each: dg.Out(dg.Nothing, is_required=False) for each in outputs},
        **options,
    )(function)
    aliases = [f"{_WORKER}{number}" for number in range(1, workers + 1)]
    dependencies: dict[dg.NodeInvocation, dict[str, Any]] = {
        dg.NodeInvocation(plan.name, alias="plan"): {},
        dg.NodeInvocation(end.name, alias="end"): {
            "worked": dg.MultiDependencyDefinition(
                [dg.DependencyDefinition(alias) for alias in aliases]
            )
        },
    }
    for alias in aliases:
        invocation = dg.NodeInvocation(work.name, alias=alias)
        dependencies[invocation] = {"planned": dg.DependencyDefinition("plan")}
    graph = dg.GraphDefinition(
        name=name,
        node_defs=[plan, work, end],
        dependencies=dependencies,
        input_mappings=[
            dg.InputMapping(
                graph_input_name=each, mapped_node_name="plan", mapped_node_input_name=each
            )
            for each in ends
        ],
        output_mappings=[
            dg.OutputMapping(
                graph_output_name=each, mapped_node_name="end", mapped_node_output_name=each
            )
            for each in outputs
        ],
        description=options["description"],
    )
    specs = single.specs_by_key
    return dg.AssetsDefinition.from_graph(
        graph,
        keys_by_input_name=single.keys_by_input_name,
        keys_by_output_name=single.keys_by_output_name,
        partitions_def=single.partitions_def,
        backfill_policy=backfill_policy,
        check_specs=checks or None,
    ).map_asset_specs(lambda spec: specs[spec.key])


def role_of(context: dg.AssetExecutionContext) -> Role | None:
    """Return what a step does for a copy with several workers; None for an ordinary step."""
    if not isinstance(context.assets_def.node_def, dg.GraphDefinition):
        return None
    name = _step_name(context)
    if name.startswith(_WORKER):
        return "work"
    return "plan" if name == "plan" else "end"


def worker_output(
    context: dg.AssetExecutionContext,
    committed: int,
    finished: Finished | None,
    verified: Verified | None,
) -> dg.Output[None]:
    """Return the output of a worker's step; its metadata say what the worker did.

    Args:
        context: the context of the step.
        committed: the number of partitions that the worker has committed.
        finished: the end of the execution; None if there was nothing to copy.
        verified: the comparison of both sides; None if another worker compared them, or none did.
    """
    number = int(_step_name(context).removeprefix(_WORKER))
    metadata: dict[str, Any] = {
        **PenstockMetadataSet(worker=number, host=socket.gethostname(), pid=os.getpid())
    }
    if finished is not None:
        metadata |= PenstockMetadataSet(
            run_id=finished.run_id,
            partitions=committed,
            rows=finished.rows,
            bytes=finished.bytes,
            seconds=round(finished.seconds, 3),
        )
    if verified is not None:
        metadata[_VERIFIED] = dg.MetadataValue.text(verified.to_line())
    return dg.Output(None, metadata=metadata)


def verified_by_worker(context: dg.AssetExecutionContext, run_id: str) -> Verified | None:
    """Return the comparison that a worker of a run has made while it held the snapshot; or None.

    Args:
        context: the context of the step that ends the copy.
        run_id: the id of the run in the target.
    """
    for event in _outputs(context):
        value = event.get(_VERIFIED)
        verified = None if value is None else from_line(str(value.value))
        if isinstance(verified, Verified) and verified.run_id == run_id:
            return verified
    return None


def _outputs(context: dg.AssetExecutionContext) -> Iterator[Mapping[str, Any]]:
    """Yield the metadata of outputs of this run, and of those that it continues, newest first."""
    for run in continued_runs(context):
        logs = context.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT)
        for entry in reversed(logs):
            if entry.dagster_event is not None:
                yield entry.dagster_event.step_output_data.metadata


def _step_name(context: dg.AssetExecutionContext) -> str:
    return str(context.op_execution_context.op_handle.name)
