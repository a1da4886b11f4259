"""The table that a run loads: whether it is still the one that it was prepared for.

A table keeps its UUID when it is renamed; the run's document has it as the owner.
"""

from __future__ import annotations

from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.runs import RunDocument
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.tables import TableRef


def check_loaded(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef
) -> None:
    """
    Raises:
        TargetChanged: it was dropped, or another one has its name.
    """
    if run.prepared_at is not None and session.uuid(table) != run.owner:
        raise TargetChanged(
            f"target: {table} is not the table that run {run_id} was prepared for: it was dropped "
            "or replaced since, by another run or by somebody else; start a new run",
            Diagnosis(side="target"),
        )
