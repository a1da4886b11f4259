"""The plan of a night: a stage beside the target, and the steps that merge it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.sql.catalog.relations import replacement_table
from penstock.backends.sql.definitions.column_changes import change_step, stage_script
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.loads.night import DROP, deleted_keys_table, stage_tables
from penstock.errors import PlanningError
from penstock.model.drift import original_names
from penstock.model.plans import GONE_STEP, MERGE_STEP, LoadPlan, Step
from penstock.model.tables import TableRef

# Comes before everything else after the last partition.
FIRST = -1


class StageSteps(ABC):
    """How a database creates the stage of a night, and what else belongs to the merge.

    Args:
        request: the request for the load.
        table: the target's table.
        stage: the stage.
    """

    changes_before_merge = False
    """Whether columns are altered before the merge, and not in its transaction."""

    def __init__(self, request: LoadRequest, table: TableRef, stage: TableRef) -> None:
        self.request = request
        self.table = table
        self.stage = stage

    @abstractmethod
    def create_stage(self, columns: Sequence[str]) -> Sequence[Step]:
        """Return the steps that create the stage, before the first partition.

        Args:
            columns: the target's columns to copy, by their current names.
        """

    @abstractmethod
    def create_keys_table(self, key: Sequence[str]) -> Sequence[Step]:
        """Return the steps that create a table for the keys of deleted rows.

        Args:
            key: the columns of the key that identifies rows.
        """

    def drop_stage(self) -> Sequence[Step]:
        """Return the steps that drop the stage, if the merge's transaction cannot."""
        return ()


def plan_night(stage_steps: StageSteps, plan: LoadPlan) -> LoadPlan:
    """Return the plan of an upsert with a stage, into which all partitions are loaded.

    Args:
        stage_steps: the database's own steps.
        plan: the plan of the same upsert without a stage.
    """
    request, ref = stage_steps.request, stage_steps.table
    now = map(original_names(request.changes), [pair.target for pair in request.pairs])
    before = [*stage_steps.create_stage([each for each in now if each is not None])]
    apart = stage_steps.changes_before_merge
    changing = [
        replace(
            change_step(ref, each),
            after=True,
            rank=FIRST - len(request.changes) + place if apart else 0,
            urgent=apart,
            with_merge=not apart,
        )
        for place, each in enumerate(request.changes)
    ]
    first, last = (changing, []) if apart else ([], changing)
    what = f"merge all rows into {ref}, in one transaction"
    if last:
        what = f"alter columns of {ref}, and {what}"
    # Altering columns waits for readers of the table, and others wait for it.
    merging = Step(MERGE_STEP, what, "", after=True, rank=FIRST, urgent=bool(last))
    finding: list[Step] = []
    if request.deletes.is_enabled:
        before += stage_steps.create_keys_table(plan.conflict_columns)
        finding = [finding_step(ref, FIRST - 1 - len(first))]
    late = (*first, merging, *last, *stage_steps.drop_stage(), *plan.after)
    table, steps = stage_steps.stage, (*plan.before, *before, *finding)
    if request.merges_together:
        return replace(plan, table=table, steps=steps, links=(*late, *plan.links))
    return replace(plan, table=table, steps=(*steps, *late))


def finding_step(table: TableRef, rank: int = FIRST - 1) -> Step:
    """Return the step that finds rows that the source no longer has.

    Args:
        table: the target's table.
        rank: the step's rank among those after the last partition.
    """
    what = f"find rows of {table} that the source no longer has"
    return Step(GONE_STEP, what, "", after=True, rank=rank)


class SqlStageSteps(StageSteps):
    """The steps of a database that is known by its dialect.

    Args:
        dialect: the dialect of the statements.
        request: the request for the load.
        table: the target's table.
        own_key: see `TargetTables.own_key`.

    Raises:
        PlanningError: all tables of the batch are to be merged in one transaction.
    """

    def __init__(
        self, dialect: CatalogDialect, request: LoadRequest, table: TableRef, own_key: str
    ) -> None:
        if request.merges_together:
            raise PlanningError(
                f"--atomic batch: {dialect.name} as a target merges each table in a transaction of "
                "its own; use --atomic table"
            )
        super().__init__(
            request, table, replacement_table(request.run_id, table, dialect.longest_name)
        )
        self._dialect = dialect
        self._own_key = own_key
        self.changes_before_merge = dialect.ddl_commits

    def create_stage(self, columns: Sequence[str]) -> Sequence[Step]:
        script = self._copy_script(self.stage, columns)
        altered = stage_script(self._dialect, self.stage, self.request.changes)
        what = f"create {self.stage}, the stage"
        return [Step("stage", what, ";\n".join([script, *altered]))]

    def create_keys_table(self, key: Sequence[str]) -> Sequence[Step]:
        deleted = deleted_keys_table(self.stage)
        what = f"create {deleted}, for the keys of deleted rows"
        return [Step("gone keys", what, self._copy_script(deleted, key))]

    def drop_stage(self) -> Sequence[Step]:
        if not self._dialect.ddl_commits:
            return ()
        dropped = ";\n".join(map(self._dialect.drop_statement, stage_tables(self.stage)))
        return [Step(DROP, f"drop {self.stage}", dropped, after=True, rank=1)]

    def _copy_script(self, new: TableRef, columns: Sequence[str]) -> str:
        dialect = self._dialect
        copy = dialect.empty_copy(new, self.table, columns, self._own_key)
        return f"{dialect.drop_statement(new)};\n{copy}"
