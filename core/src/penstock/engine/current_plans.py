"""Plans of tables as they are now, without a snapshot: dry runs, and runs that are only created."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.backends.api.facts import Siblings
from penstock.backends.api.optional.bulk_catalogs import describing
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.connections import Connections
from penstock.engine.table_requests import TableRequest
from penstock.errors import Interrupted, MissingTarget, PenstockError
from penstock.model.plans import PartitionPlan
from penstock.planning.asking.rounds import plan_source, plan_tables
from penstock.planning.asking.search_path import lacks_schema
from penstock.planning.request import PlanRequest
from penstock.spec.copy_spec import CopySpec
from penstock.workers.degree import streams_of


def current_plan(
    table: TableRequest,
    ends: Connections,
    source: SourceCatalog,
    target: TargetCatalog,
    *,
    note: Callable[[CopySpec], object] = lambda spec: None,
    plans_source: bool = False,
) -> PartitionPlan:
    """Return the plan of one table; see `current_plans`.

    Raises:
        PenstockError: it cannot be copied.
    """
    (result,) = current_plans([table], ends, source, target, note=note, plans_source=plans_source)
    if isinstance(result, PenstockError):
        raise result
    return result


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request for a plan, and why its tables are in their schemas."""

    spec: CopySpec
    request: PlanRequest
    reasons: tuple[str, ...]


def current_plans(
    tables: Sequence[TableRequest],
    ends: Connections,
    source: SourceCatalog,
    target: TargetCatalog,
    siblings: Siblings | None = None,
    *,
    note: Callable[[CopySpec], object] = lambda spec: None,
    plans_source: bool = False,
) -> Iterator[PartitionPlan | PenstockError]:
    """Yield the plan of each table in order, or why it cannot be copied. Changes nothing.

    Args:
        tables: the tables.
        ends: the connections.
        source: the source's catalog.
        target: the target's catalog.
        siblings: the tables of the batch; None for a single copy.
        note: called with each spec, whose tables have schemas, before planning.
        plans_source: whether an error `MissingTarget` has a plan for the source.
    """
    prepared = [_prepare(table, ends, source, target, siblings) for table in tables]
    found = [each for each in prepared if isinstance(each, _Prepared)]
    specs = [each.spec for each in found]
    with (
        describing(source, [spec.relation for spec in specs]),
        describing(target, [spec.target_ref for spec in specs]),
    ):
        for spec in specs:
            note(spec)
        outcomes = plan_tables([each.request for each in found], source, target)
        for each in prepared:
            if isinstance(each, PenstockError):
                yield each
                continue
            result = next(outcomes).result
            if isinstance(result, PartitionPlan):
                result = replace(result, reasons=(*each.reasons, *result.reasons))
            elif isinstance(result, MissingTarget) and plans_source:
                result.plan = plan_source(each.request, source)
            yield result


def _prepare(
    table: TableRequest,
    ends: Connections,
    source: SourceCatalog,
    target: TargetCatalog,
    siblings: Siblings | None,
) -> _Prepared | PenstockError:
    if table.error is not None:
        return table.error
    spec = table.spec
    reasons: tuple[str, ...] = ()
    try:
        if lacks_schema(spec):
            spec, reasons = ends.with_schemas(spec, source, target)
        request = PlanRequest.of(
            spec,
            streams_of(spec.degree),
            table.run_id,
            ends.capabilities,
            table.partitions,
            table.series,
            siblings,
        )
    except Interrupted:
        raise
    except PenstockError as error:
        return error
    return _Prepared(spec, request, reasons)
