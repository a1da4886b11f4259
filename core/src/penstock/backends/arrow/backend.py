"""The object that the entry point `arrow` refers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from penstock.backends.api.capabilities import (
    COMPUTING,
    ROLL_FORWARD,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.worker import ARROW
from penstock.backends.arrow.location import checked
from penstock.errors import PlanningError
from penstock.model.tables import Place
from penstock.spec.strategies import AUTO, WHOLE

if TYPE_CHECKING:
    from penstock.backends.api.source import HeldSnapshot, SourceCatalog
    from penstock.backends.api.worker import Reader
    from penstock.model.tables import Relation
    from penstock.spec.worker_spec import WorkerSpec

SYSTEM = "Arrow"


class ArrowBackend:
    """The backend of rows of a Python process."""

    source_capabilities = SourceCapabilities(
        system=SYSTEM,
        formats=(ARROW,),
        strategies=(AUTO, WHOLE),
        options=COMPUTING,
        compares=False,
    )
    target_capabilities = TargetCapabilities(
        system=SYSTEM,
        formats=(),
        modes=(),
        replaces_by_condition=False,
        commits=ROLL_FORWARD,
        steps_with_records=False,
    )
    located = True
    rewrites = ""
    snapshot_burden = "held nothing"
    environment = ()
    kinds = ("arrow",)

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return checked(url, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return ()

    def place(self, url: str) -> Place:
        return Place("arrow", "", None, "rows")

    # Modules are imported where they are used: a worker needs no catalog.

    def source(self, url: str) -> SourceCatalog:
        from penstock.backends.arrow.source import ArrowSource  # noqa: PLC0415

        return ArrowSource(url)

    def hold_snapshot(self, url: str, relations: Sequence[Relation]) -> HeldSnapshot:
        from penstock.backends.arrow.source import HeldRows  # noqa: PLC0415

        return HeldRows()

    def target(self, url: str, control_schema: str) -> NoReturn:
        raise _no_target()

    def preload(self) -> None:
        from penstock.backends.arrow import reader  # noqa: F401, PLC0415

    def reader(self, spec: WorkerSpec) -> Reader:
        from penstock.backends.arrow.reader import ArrowReader  # noqa: PLC0415

        return ArrowReader(spec)

    def writer(self, spec: WorkerSpec) -> NoReturn:
        raise _no_target()


def _no_target() -> PlanningError:
    return PlanningError("--target: Arrow is a source only; penstock.read returns rows as Arrow")
