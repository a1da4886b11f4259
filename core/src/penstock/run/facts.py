"""The facts of both sides that planning asks for: read for the tables of many copies together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.backends.api.optional.bulk_catalogs import describing
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Table


@contextmanager
def describing_both(
    specs: Sequence[CopySpec], source: SourceCatalog, target: TargetCatalog
) -> Iterator[None]:
    """Let both catalogs cache their answers while the tables of these copies are planned."""
    with (
        describing(source, [spec.relation for spec in specs]),
        describing(target, [spec.target_ref for spec in specs]),
    ):
        yield


def definitions_of(specs: Sequence[CopySpec]) -> set[bool]:
    """Return which definitions of tables planning needs; see `Prefetches.prefetch`."""
    return {spec.partitioning for spec in specs if spec.load_mode.table is Table.RECREATED}
