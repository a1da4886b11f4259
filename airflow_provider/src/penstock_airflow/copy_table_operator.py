"""The task that does a whole copy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import penstock
from penstock import CopySpec, Event, PenstockError, report_text
from penstock_airflow.assets import emit
from penstock_airflow.base import PenstockOperator, as_airflow
from penstock_airflow.ends import ARGUMENTS
from penstock_airflow.identity import begins_again, clearings, run_id_of
from penstock_airflow.lineage import CopyFacts, LineageMixin
from penstock_airflow.options import (
    asks_for_interval,
    check,
    check_interval,
    execution_of,
    make_spec,
    split,
)
from penstock_airflow.results import summary_of


class CopyTableOperator(LineageMixin, PenstockOperator):
    """Plans, copies and ends a run in one task, with several streams: for many small tables.

    A retry continues the run: it copies what is not committed. So does clearing the task in mode
    append, where a new run would add the rows again; the rest is then read as it is now.

    Parameters:
        recopy: whether clearing this task begins a new run; by default it does, except in mode
            append, which would double the rows.
        outlet: an `Asset` or `AssetAlias` for the target's table; it gets an event.
        kwargs: the options of a copy, as in `penstock.CopySpec` (`table`, `mode`, `degree` ...),
            and those of every operator.

    Raises:
        UsageError: wrong options; raised when the DAG is parsed, as far as templates allow.
    """

    template_fields: Sequence[str] = ("options", *ARGUMENTS)

    def __init__(
        self,
        *,
        recopy: bool | None = None,
        outlet: Any = None,
        **kwargs: Any,
    ) -> None:
        options, rest = split(kwargs)
        if outlet is not None:
            rest["outlets"] = [*rest.get("outlets", ()), outlet]
        super().__init__(control_schema=options.get("control_schema", "penstock"), **rest)
        check(options, self._source, self._target)
        self.options = options
        self._of_interval = asks_for_interval(options)
        self.recopy = recopy
        self.outlet = outlet
        self._run_id: str | None = None

    def _copy(
        self, spec: CopySpec, run_id: str, ends: dict[str, Any], *, cleared: bool
    ) -> Generator[Event, None, None]:
        if not cleared:
            yield from penstock.copy(spec)
            return
        # The stored run, if it has the same options; otherwise a new one.
        penstock.create(spec)
        yield from penstock.resume(
            run_id,
            **ends,
            control_schema=self.control_schema,
            as_of_now=True,
            **execution_of(spec),
        )

    def _copy_facts(self) -> CopyFacts:
        return CopyFacts(self._run_id, options=self.options)

    def execute(self, context: Any) -> dict[str, Any]:
        ends = self._ends()
        again = begins_again(self.recopy, self.options.get("mode", "append"))
        self._run_id = run_id_of(context, again=again)
        try:
            if self._of_interval:
                check_interval(context)
            spec = make_spec(ends["source"], ends["target"], self.options, self._run_id)
        except PenstockError as error:
            raise as_airflow(error) from None
        cleared = bool(clearings(context["ti"]))
        finished = self._follow(self._copy(spec, self._run_id, ends, cleared=cleared))
        self.log.info("the run's report\n%s", report_text(finished, "clear this task"))
        self._say_where_time_went(finished.run_id, ends["target"])
        status = penstock.status(
            finished.run_id, target=ends["target"], control_schema=self.control_schema
        )
        summary = summary_of(status)
        if self.outlet is not None:
            emit(context, self.outlet, ends["target"], status, summary)
        return summary
