"""Penstock in Airflow: one mapped task per partition of a table, each retried alone.

from penstock_airflow import copy_table

orders = copy_table(
    source_conn_id="pg_src", target_conn_id="pg_dst", table="public.orders", mode="truncate"
)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_airflow.hooks.penstock import PenstockHook
    from penstock_airflow.operators.copy_all import CopyAllOperator
    from penstock_airflow.operators.copy_partition import CopyPartitionOperator
    from penstock_airflow.operators.copy_table import CopyTableOperator
    from penstock_airflow.operators.copy_worker import CopyWorkerOperator
    from penstock_airflow.operators.plan import PlanCopyOperator
    from penstock_airflow.operators.prepare import PrepareCopyOperator
    from penstock_airflow.operators.snapshot import HoldSnapshotOperator, ReleaseSnapshotOperator
    from penstock_airflow.operators.verify import VerifyCopyOperator
    from penstock_airflow.task_groups import copy_table, copy_tables
    from penstock_airflow.triggers.snapshot import HoldSnapshotTrigger
    from penstock_airflow.triggers.source_changed import SourceChangedTrigger

_HOMES = {
    "CopyAllOperator": "operators.copy_all",
    "CopyPartitionOperator": "operators.copy_partition",
    "CopyTableOperator": "operators.copy_table",
    "CopyWorkerOperator": "operators.copy_worker",
    "HoldSnapshotOperator": "operators.snapshot",
    "HoldSnapshotTrigger": "triggers.snapshot",
    "PenstockHook": "hooks.penstock",
    "PlanCopyOperator": "operators.plan",
    "PrepareCopyOperator": "operators.prepare",
    "ReleaseSnapshotOperator": "operators.snapshot",
    "SourceChangedTrigger": "triggers.source_changed",
    "VerifyCopyOperator": "operators.verify",
    "copy_table": "task_groups",
    "copy_tables": "task_groups",
}
__all__ = [
    "CopyAllOperator",
    "CopyPartitionOperator",
    "CopyTableOperator",
    "CopyWorkerOperator",
    "HoldSnapshotOperator",
    "HoldSnapshotTrigger",
    "PenstockHook",
    "PlanCopyOperator",
    "PrepareCopyOperator",
    "ReleaseSnapshotOperator",
    "SourceChangedTrigger",
    "VerifyCopyOperator",
    "copy_table",
    "copy_tables",
]


def __getattr__(name: str) -> Any:
    # Import a name on first use: `airflow providers list` imports this package, and needs only its
    # metadata.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
