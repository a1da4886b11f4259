"""The inputs of a comparison: the run, how to read both sides, and the findings so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import Checksum
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import SHARED_FORMATS, compared_pairs
from penstock.errors import PlanningError
from penstock.model.extents import BlockRange, ChildBlocks, Children, Files, Whole
from penstock.model.plans import WATERMARK_STEP
from penstock.model.records import CommitRecord
from penstock.model.tables import ColumnPair, TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Ending, Entry
from penstock.spec.source_changes import HARD
from penstock.verification.result import RowDifference

# Extents that select rows by their place in the source's storage.
STORAGE = BlockRange | Children | ChildBlocks | Files
_ARGUMENTS = re.compile(r"\([\d,\s-]*\)")


@dataclass(frozen=True, slots=True)
class Sums:
    """Row counts and digests of one side."""

    parts: Mapping[str, Checksum] = field(default_factory=dict)
    """By partition; empty if the partitions' rows cannot be told apart."""
    total: Checksum | None = None
    """The sum over the run's rows; None if they cannot be told from others."""
    records: Sequence[CommitRecord] = ()
    """The commit records that tell the parts apart; empty if the partitions' conditions do."""
    missing: Sequence[RowDifference] | None = None
    """Source rows missing from this side; None if rows were not looked up one by one."""


class Comparison:
    """A comparison of a run's rows on both sides.

    Args:
        checksums: compare values, not only row counts.
    """

    def __init__(
        self,
        spec: CopySpec,
        run: RunRow,
        source: SourceCatalog,
        target: TargetCatalog,
        *,
        checksums: bool,
    ) -> None:
        self.spec = spec
        self.run = run
        self.source = source
        self.target = target
        self.checksums = checksums
        # Between partitions that the caller defines there may be other rows.
        self.given_partitions = run.plan.has_given_partitions
        self.owns_rows = spec.load_mode.owns_selection and not self.given_partitions
        self.records: Mapping[str, CommitRecord] = {
            record.partition_id: record
            for record in target.control.commits.of([run.run_id])[run.run_id]
        }
        self.outdated: frozenset[str] = frozenset()
        """Partitions read as of a past moment: their rows in the source may have changed since."""
        self.changed: dict[str, str] = {}
        """The outdated partitions whose source rows have changed, and how they changed."""
        self.table = self._loaded_table()
        self.selection = spec.where if self.is_merged else run.plan.where(spec.where)
        """The condition that selects the compared rows in the source."""
        # In mode replace, rows outside the run's condition do not belong to the run.
        owns = spec.load_mode.entry is Entry.REPLACE or (
            self.is_merged and spec.deletion.how == HARD
        )
        self.where = spec.where if owns else None
        self.notes: list[str] = []
        self.warnings: tuple[str, ...] = ()
        self.pairs = run.plan.pairs
        self.compared: Sequence[ColumnPair] = ()
        if checksums:
            self._note_compared()
            self.pairs = self.compared = self.comparable()

    @property
    def is_merged(self) -> bool:
        """Whether the run's rows are merged with others in the target's table, as a night's are."""
        mode = self.spec.load_mode
        return mode.ending is Ending.MERGE and self.table != self.run.plan.load.table

    def _loaded_table(self) -> TableRef:
        after = {step.id for step in self.run.plan.load.after if step.id != WATERMARK_STEP}
        if after <= self.target.control.steps.in_effect(self.run.run_id):
            return replace(self.spec.target_ref, only=self.run.plan.load.table.only)
        return self.run.plan.load.table

    def _note_compared(self) -> None:
        copied = self.run.plan.pairs
        compared = compared_pairs(self._all_pairs, self.run.plan.format)
        if computed := [pair.target for pair in compared if pair not in copied]:
            self.notes.append(f"compared, too, since both sides compute it: {', '.join(computed)}")
        skipped = [pair.target for pair in copied if pair not in compared]
        if skipped:
            self.warnings += (
                f"values of {', '.join(skipped)} are not compared by checksums, since the two "
                "systems write them differently",
            )

    def comparable(self) -> tuple[ColumnPair, ...]:
        """Return the pairs whose values both sides write in one form.

        Two unlike systems may have none for a column; alike ones may need a cast.
        """
        if self.run.plan.format in SHARED_FORMATS:
            return compared_pairs(self._all_pairs, self.run.plan.format)
        return self._as_target_has_them()

    @cached_property
    def _all_pairs(self) -> tuple[ColumnPair, ...]:
        return (*self.run.plan.pairs, *self._computed_pairs())

    def _as_target_has_them(self) -> tuple[ColumnPair, ...]:
        """Return the pairs, some with a cast to the target's type.

        A pair has one if the types differ only in length or precision.
        """
        mine = {column.name: column.type for column in self.run.source_state.columns}
        mine |= {column.name: column.type for column in self.run.plan.columns}
        theirs = {column.name: column.type for column in self.target.columns(self.table)}

        def as_target(pair: ColumnPair) -> ColumnPair:
            source_type, target_type = pair.cast or mine[pair.source], theirs.get(pair.target, "")
            is_same = _ARGUMENTS.sub("", source_type) == _ARGUMENTS.sub("", target_type)
            return (
                replace(pair, cast=target_type) if is_same and source_type != target_type else pair
            )

        return tuple(as_target(pair) for pair in self._all_pairs)

    def _computed_pairs(self) -> tuple[ColumnPair, ...]:
        """Return pairs of columns that both sides compute, and that no run copies.

        They are equal as long as both sides compute them by the same expression.
        """
        route, copied = self.spec, {pair.target for pair in self.run.plan.pairs}
        names = {
            column.name
            for column in self.run.source_state.columns
            if column.generated and not route.hides(column.name)
        } - copied
        if not names or route.columns is not None or route.map == "position":
            return ()
        theirs = {each.name: each for each in self.target.columns(self.table) if each.generated}
        mine = [
            each
            for each in self.source.columns(route.relation)
            if each.generated and each.name in names and each.name in theirs
        ]
        if not mine:
            return ()
        if self.run.plan.format in SHARED_FORMATS:
            mine = list(self.source.in_arrow(route.relation, mine))
        fits = self.target.fit(mine, [theirs[each.name] for each in mine])
        return tuple(
            ColumnPair(each.name, each.name, canonical=fit.canonical)
            for each, fit in zip(mine, fits, strict=True)
        )

    @property
    def committed_rows(self) -> int:
        return sum(record.rows for record in self.records.values())

    def same_keys(self) -> bool:
        """Whether the partitions' conditions select the same rows in the target."""
        theirs = {column.name: column.type for column in self.target.columns(self.table)}
        if any(pair.expression for pair in self.run.plan.pairs):
            return False  # conditions on the source's storage
        if any(theirs.get(column.name) != column.type for column in self.run.plan.columns):
            return False
        return self.evaluates_conditions()

    def evaluates_conditions(self) -> bool:
        """Whether the target can evaluate the partitions' conditions.

        A run that deletes by them was planned only if they select the same rows there.
        """
        partitions = self.run.plan.partitions
        if any(isinstance(p.extent, STORAGE | Whole) for p in partitions):
            return False
        try:
            self.target.check_condition(self.table, self.spec.where, partitions[0].extent)
        except PlanningError:
            return False
        return True
