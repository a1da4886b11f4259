"""`report`: how a run spent its time, from the records in its target."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from penstock.backends.api.execution.control import RunRow
from penstock.engine.connections import resolve
from penstock.engine.stored_runs import missing_run_error, spec_of, target_catalog
from penstock.engine.value_display import isolate_display
from penstock.errors import PenstockError
from penstock.figures.gather import report_of
from penstock.figures.run_report import RunReport
from penstock.spec.ids import check_run_id

if TYPE_CHECKING:
    from penstock.backends.api.target import WithIndexes
    from penstock.model.tables import TableRef


@isolate_display
def report(run_id: str, *, target: str, control_schema: str = "penstock") -> RunReport:
    """Report how a run spent its time, what the servers waited for, and what may help.

    Args:
        run_id: the id of a run, finished or not, or of a batch.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: no such run.
    """
    check_run_id(run_id)
    capabilities = resolve(target, "--target")[1].target_capabilities
    with target_catalog(target, control_schema) as catalog:
        has_indexes = partial(_has_indexes, cast("WithIndexes", catalog))
        control = catalog.control

        def at_work(run: RunRow) -> bool | None:
            table = spec_of(run.run_id, run.spec).target_ref
            return control.presence.is_at_work(run.run_id, table)

        result = report_of(control, capabilities, run_id, has_indexes, at_work)
    if result is None:
        raise missing_run_error(run_id, control_schema)
    return result


def _has_indexes(catalog: WithIndexes, table: TableRef) -> bool:
    """Whether the target's table has indexes; true also if that is unknown, to suggest a remedy."""
    try:
        return catalog.has_indexes(table)
    except PenstockError:
        return True
