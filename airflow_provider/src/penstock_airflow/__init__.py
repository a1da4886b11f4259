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
    from penstock_airflow.copy_all import CopyAllOperator
    from penstock_airflow.copy_partition import CopyPartitionOperator
    from penstock_airflow.copy_table_operator import CopyTableOperator
    from penstock_airflow.groups import copy_table, copy_tables
    from penstock_airflow.hold import HoldSnapshotOperator, ReleaseSnapshotOperator
    from penstock_airflow.plan import PlanCopyOperator
    from penstock_airflow.prepare import PrepareCopyOperator
    from penstock_airflow.trigger import HoldSnapshotTrigger
    from penstock_airflow.verify import VerifyCopyOperator

_HOMES = {
    "CopyAllOperator": "copy_all",
    "CopyPartitionOperator": "copy_partition",
    "CopyTableOperator": "copy_table_operator",
    "HoldSnapshotOperator": "hold",
    "HoldSnapshotTrigger": "trigger",
    "PlanCopyOperator": "plan",
    "PrepareCopyOperator": "prepare",
    "ReleaseSnapshotOperator": "hold",
    "VerifyCopyOperator": "verify",
    "copy_table": "groups",
    "copy_tables": "groups",
}
__all__ = [
    "CopyAllOperator",
    "CopyPartitionOperator",
    "CopyTableOperator",
    "HoldSnapshotOperator",
    "HoldSnapshotTrigger",
    "PlanCopyOperator",
    "PrepareCopyOperator",
    "ReleaseSnapshotOperator",
    "VerifyCopyOperator",
    "copy_table",
    "copy_tables",
]


def __getattr__(name: str) -> Any:
    # Import a name on first use: `airflow providers list` imports this package only for its
    # description.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
