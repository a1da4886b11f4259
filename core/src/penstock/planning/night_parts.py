"""The night of a plan: the rows or files that it reads, and how they reach the target."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.facts import TableStatistics
from penstock.model.nights import Night
from penstock.model.plans import MERGE_STEP, LoadPlan
from penstock.planning.answers import part
from penstock.planning.cursors import explain_cursor_night
from penstock.planning.drift import followed_columns, read_all_rows, read_exchanged
from penstock.planning.drift_parts import DriftParts
from penstock.planning.facts import fact
from penstock.planning.incremental import ContinuedNight, continue_watermark
from penstock.planning.load_parts import LoadParts
from penstock.planning.night_rebuild import apply_atomic_limit, plan_rebuild
from penstock.planning.nights import explain_night, with_watermark_step
from penstock.planning.request import PlanRequest
from penstock.planning.seen_files import new_files
from penstock.spec.modes import Ending
from penstock.spec.option import derived
from penstock.spec.strategies import FILES


class NightParts:
    """The night that a load runs: the rows that it reads, or the files, and how they get in."""

    def __init__(self, sides: DriftParts, loads: LoadParts) -> None:
        self._sides = sides
        self._request = sides.request
        self._route = sides.route
        self._loading = sides.loading
        self._mode = sides.mode
        self._facts = sides.facts
        self._answers = sides.answers
        self._loads = loads

    @part
    def continuation(self) -> ContinuedNight:
        facts = fact(self._facts.night)
        if facts is None:
            return None, "", ()
        night, selection, reasons = continue_watermark(
            self._route,
            self._loading,
            self._sides.mapping.pairs,
            facts,
            self._request.moment,
        )
        if night is None:
            return night, selection, reasons
        before = fact(self._facts.columns_before)
        copied = [each.name for each in self._sides.mapping.columns]
        columns = followed_columns(
            self._route,
            self._sides.columns,
            self._sides.selected,
            self._sides.table.columns,
            self._sides.changes,
            copied,
            before,
            ignored=self._loading.drift.ignores,
        )
        night = replace(night, columns=columns)
        if self._mode.ending is Ending.MERGE:
            limited = read_all_rows(night, self._sides.changes)
            limited = read_exchanged(limited, self._sides.columns, copied, before)
            if limited is not night:
                night, selection, reasons = limited, "", self._explained(limited)
        return night, selection, reasons

    def _explained(self, night: Night) -> tuple[str, ...]:
        """Return remarks on a night that reads all rows."""
        if night.cursor is not None:
            return explain_cursor_night(night, self._loading, merges=True)
        return explain_night(night, ())

    @part
    def limited_night(self) -> tuple[ContinuedNight, bool]:
        """The night, with its rows counted, and whether they may be merged."""
        night, selection, reasons = self.continuation
        if night is None or self._mode.ending is not Ending.MERGE:
            return self.continuation, True
        limited, may_merge = apply_atomic_limit(
            self._route,
            self._loading,
            night,
            selection,
            self._sides.statistics,
            self._answers,
        )
        if limited is not night:
            selection, reasons = "", self._explained(limited)
        return (limited, selection, reasons), may_merge

    @part
    def load(self) -> tuple[LoadPlan, ContinuedNight]:
        """The load with any step that moves the watermark, and what the load continues."""
        (night, selection, reasons), may_merge = self.limited_night
        load, _ = self._loads.load_with_pending_steps
        if night is None:
            return load, (night, selection, reasons)
        if self._mode.ending is Ending.MERGE and night.full:
            load, remarks = plan_rebuild(
                self._route,
                self._loading,
                self._loads.load_request,
                load,
                self._sides.table.columns,
                self._sides.statistics,
                self._answers,
                may_merge=may_merge,
                can_build=self._facts.builds_nights,
            )
            reasons = (*reasons, *remarks)
        if load.night_step != MERGE_STEP:
            with_swap = self._request.capabilities.target.steps_with_records
            load = with_watermark_step(load, night.name, with_swap=with_swap)
        return load, (night, selection, reasons)

    @property
    def partitioned(self) -> tuple[PlanRequest, TableStatistics]:
        """The request and statistics of what is partitioned: of a night by files, its files."""
        request, statistics = self._request, self._sides.statistics
        facts = fact(self._facts.night)
        if facts is None or facts.files is None:
            return request, statistics
        (night, selection, _), _ = self.limited_night
        if night is None or not selection:
            return request, statistics
        by_files = derived(request.partitioning, strategy=FILES.name)
        files = new_files(facts.files, facts.known_digests)
        size = sum(file.size for file in files)
        return replace(request, partitioning=by_files), replace(statistics, files=files, bytes=size)

    @property
    def night_statistics(self) -> TableStatistics | None:
        """Statistics of the rows that a night reads by an index."""
        facts = fact(self._facts.night)
        if facts is None or facts.selected is None:
            return None
        (night, _, _), _ = self.limited_night
        return None if night is None or night.full else facts.selected
