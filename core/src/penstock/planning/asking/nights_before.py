"""What a target has of the nights before: asked once for all tables of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from penstock.backends.api.nights import CountsMany
from penstock.backends.api.target import TargetCatalog
from penstock.errors import Interrupted, PenstockError
from penstock.model.extents import Whole
from penstock.model.nights import Watermark
from penstock.model.tables import TableRef
from penstock.planning.nights import TargetNow, watermark_name
from penstock.spec.copy_spec import CopySpec


class NightsBefore:
    """
    Parameters:
        specs: of the tables that are planned together.
    """

    def __init__(self, target: TargetCatalog, specs: Sequence[CopySpec]) -> None:
        self._target = target
        self._specs = [s for s in specs if s.incremental or s.load_mode.starts_empty]
        self._merged = [s for s in self._specs if s.load_mode.merges_at_end]

    def of(self, spec: CopySpec) -> NightsBefore:
        """Those before one that may have been given another name since."""
        return self if spec in self._specs else NightsBefore(self._target, [spec])

    def last(self, spec: CopySpec) -> Watermark | None:
        """What the last night of a table has left."""
        return self._last.get(watermark_name(spec))

    def target_now(self, spec: CopySpec) -> TargetNow:
        """What that is compared with. Rows are counted where the last night has counted them."""
        table = spec.target_ref
        storage = self._storages.get(table, "")
        if not self._is_counted(spec):
            return TargetNow(storage, None)
        rows = self._counts.get(table)
        if rows is None:
            rows = self._target.checksum(table, None, Whole(), ()).rows
        return TargetNow(storage, rows)

    @cached_property
    def _last(self) -> Mapping[str, Watermark]:
        names = dict.fromkeys(
            watermark_name(s) for s in self._specs if s.incremental or self._has_watermark(s)
        )
        return self._target.control.latest_watermarks(list(names))

    def _has_watermark(self, spec: CopySpec) -> bool:
        return watermark_name(spec) in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        try:
            return self._target.control.watermark_names()
        except Interrupted:
            raise
        except PenstockError:
            return frozenset()  # a load that is not asked to set one does without

    @cached_property
    def _storages(self) -> Mapping[TableRef, str]:
        tables = dict.fromkeys(spec.target_ref for spec in self._merged)
        return self._target.control.storages(list(tables))

    def _is_counted(self, spec: CopySpec) -> bool:
        last = self.last(spec)
        return bool(self._storages.get(spec.target_ref)) and bool(last and last.rows is not None)

    @cached_property
    def _counts(self) -> Mapping[TableRef, int]:
        """As far as all tables can be counted by one statement."""
        tables = dict.fromkeys(s.target_ref for s in self._merged if self._is_counted(s))
        if not isinstance(self._target, CountsMany):
            return {}
        try:
            return self._target.counts(list(tables))
        except Interrupted:
            raise
        except PenstockError:
            return {}  # what is wrong with one is said where that one is counted
