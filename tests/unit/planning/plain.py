"""A table as plain data: facts, and the answers of its catalogs. No database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from penstock import CopySpec, Partition, PartitionPlan
from penstock.backends.api.capabilities import (
    SOURCE_OPTIONS,
    Capabilities,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.facts import (
    ChildTable,
    Fit,
    HashStatistics,
    KeyStatistics,
    RankedBound,
    SourceFile,
    TableStatistics,
    WeightedBound,
)
from penstock.backends.api.optional.children import PlannedChildren
from penstock.errors import PenstockError
from penstock.model.extents import Bound
from penstock.model.nights import Horizon, SourceVersions
from penstock.model.plans import MERGE_STEP, LoadPlan, Step
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, TableRef
from penstock.planning.answers import Question, Questions
from penstock.planning.facts import Facts, NightFacts, TargetTable
from penstock.planning.nights import TargetNow
from penstock.planning.questions import (
    Bounds,
    ChildTables,
    ComparedColumns,
    Fits,
    HeldRows,
    KeyBounds,
    KeyFacts,
    KeyHashes,
    KeyType,
    KeyWindows,
    ListedValues,
    MergedRows,
    NightRebuild,
    Order,
    PlannedLoad,
    RankedValues,
    RowCounts,
    StillMissing,
    TargetCondition,
    TimeWindows,
    Values,
    WritableTable,
)
from penstock.planning.request import PlanRequest
from penstock.planning.step import step
from penstock.spec.degrees import Streams
from penstock.spec.modes import MODES, STAGED, Ending, Entry
from penstock.spec.night_kinds import COLUMN, XMIN
from penstock.spec.strategies import STRATEGIES

ALL = (*MODES.values(), *STAGED)
SOURCE = SourceCapabilities(
    system="Plain",
    formats=("text", "binary"),
    strategies=tuple(STRATEGIES.values()),
    options=frozenset(SOURCE_OPTIONS),
    nights=(XMIN, COLUMN),
)
TARGET = TargetCapabilities(
    system="Plain",
    formats=("binary",),
    modes=ALL,
    creating_modes=ALL,
    options={"conflict_columns": ALL, "indexes": ALL, "unlogged": ALL},
    replaces_by_condition=True,
    commits="transactional",
    steps_with_records=True,
    control_ddl=False,
    identifies_loaded_rows=True,
)
COLUMNS = (Column("id", "int", nullable=False), Column("day", "date"), Column("label", "text"))
BOUNDS = tuple(WeightedBound(Bound("int", str(text)), 0.25) for text in (1, 2, 3, 4))
STATISTICS = TableStatistics(
    rows=1000,
    bytes=1 << 30,
    selected=1.0,
    blocks=1 << 17,
    storage="a heap",
    default_key="id",
    children=(ChildTable(TableRef("s", "part"), 1000, 1 << 30, None),),
    files=(SourceFile("f", 1 << 30, "1", ((1000, 1 << 30),)),),
)
VERSIONS = SourceVersions("system", 1, 5, 10, {"10": "a"}, "shape")
NIGHT = NightFacts(
    last=None,
    now=Horizon(1000, 1010),
    versions=VERSIONS,
    max_transaction_distance=2**31,
    target=TargetNow("storage", 7),
)


def spec_of(**options: Any) -> CopySpec:
    ends = {"source": "plain://a/b", "target": "plain://c/d", "table": "s.t"}
    return CopySpec(**{**ends, **options})


def request_of(spec: CopySpec, partitions: Sequence[Partition] = ()) -> PlanRequest:
    request = PlanRequest.of(spec, Streams(2, 2), "run", Capabilities(SOURCE, TARGET), partitions)
    return replace(request, moment=datetime(2024, 1, 1, tzinfo=UTC))


def facts_of(**changes: Any) -> Facts:
    known: dict[str, Any] = {
        "columns": COLUMNS,
        "table": TargetTable(COLUMNS),
        "statistics": STATISTICS,
        "finds_deleted": True,
        "builds_nights": True,
    }
    return Facts(**{**known, **changes})


def missing_table() -> TargetTable:
    return TargetTable(COLUMNS, TableDefinition("Plain"))


@dataclass
class World:
    """Catalogs that know one table.

    Args:
        changed: other answers, by the kind of question; an error is raised when it is looked up.
        rounds: the kinds of the questions of each round.
    """

    changed: Mapping[type[Question[Any]], Any] = field(default_factory=dict)
    questions: list[Question[Any]] = field(default_factory=list)
    rounds: list[tuple[type[Question[Any]], ...]] = field(default_factory=list)

    def answer(self, question: Question[Any]) -> object:
        self.questions.append(question)
        if type(question) in self.changed:
            found = self.changed[type(question)]
            return found(question) if callable(found) else found
        known: Mapping[type[Question[Any]], Callable[[Any], object]] = {
            Fits: _fits,
            WritableTable: _nothing,
            ComparedColumns: _nothing,
            TargetCondition: _nothing,
            StillMissing: lambda _: True,
            PlannedLoad: _load,
            ChildTables: _children,
            MergedRows: lambda _: RowCounts(1000, 10),
            HeldRows: lambda _: False,
            NightRebuild: lambda asked: LoadPlan(asked.request.target),
            KeyType: lambda _: "int",
            KeyFacts: lambda _: (False, True),
            KeyHashes: lambda _: HashStatistics(),
            Order: lambda _: "",
            Bounds: _bounds,
            TimeWindows: lambda _: KeyWindows(_texts("date", "2024-01-01", "2024-02-01"), "", "x"),
            Values: lambda _: ListedValues(_texts("text", "a", "b")),
            RankedValues: _ranked,
        }
        return known[type(question)](question)


def planned(request: PlanRequest, facts: Facts, world: World | None = None) -> PartitionPlan:
    """Ask questions round by round, until planning needs no more answers."""
    world = world or World()
    answers: dict[Question[Any], object] = {}
    while isinstance(found := step(request, facts, answers), Questions):
        world.rounds.append(tuple(type(question) for question in found.questions))
        for question in found.questions:
            answers[question] = world.answer(question)
            if isinstance(answers[question], PenstockError):
                break
    return found


def _nothing(_: object) -> None:
    return None


def _texts(tag: str, *texts: str) -> tuple[Bound, ...]:
    return tuple(Bound(tag, text) for text in texts)


def _fits(asked: Fits) -> list[Fit]:
    return [Fit(formats=("binary",), canonical="x") for _ in asked.mine]


def _load(asked: PlannedLoad) -> LoadPlan:
    request = asked.request
    keyed = request.mode.entry is Entry.BY_KEY or request.mode.ending is Ending.MERGE
    merges = (
        (Step(MERGE_STEP, "merge", "", after=True),) if request.mode.ending is Ending.MERGE else ()
    )
    return LoadPlan(request.target, merges, conflict_columns=("id",) if keyed else ())


def _children(asked: ChildTables) -> PlannedChildren:
    return PlannedChildren(asked.request.partitions, ("children of their own",))


def _bounds(asked: Bounds) -> KeyBounds:
    return KeyBounds(KeyStatistics(asked.key, False, 0.0, BOUNDS, "statistics", True))


def _ranked(asked: RankedValues) -> tuple[Any, ...]:
    texts = asked.texts
    ranks = {text: rank for rank, text in enumerate(dict.fromkeys(texts), start=1)}
    return tuple(RankedBound(Bound("int", text), ranks[text], exact=True) for text in texts)


def without_statistics() -> TableStatistics:
    return replace(STATISTICS, rows=None)
