"""Planning from plain facts and answers: the plan, the questions, and the errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from penstock import CopySpec, Partition
from penstock.errors import (
    MissingTarget,
    PenstockError,
    PermanentError,
    PlanningError,
    TransientError,
    UsageError,
)
from penstock.model.extents import Bound, Crossing, HashBucket, Key, KeyRange, KeyValues
from penstock.model.nights import Horizon, Watermark
from penstock.model.tables import Column, TableRef
from penstock.planning import questions as asked
from penstock.planning.answers import (
    AnswersNeeded,
    Outdated,
    Question,
    Questions,
    evaluate_together,
)
from penstock.planning.asking.catalogs import Catalogs
from penstock.planning.facts import Facts, NightFacts, TargetTable
from penstock.planning.questions import KeyBounds, ListedValues
from penstock.planning.step import source_step, step
from penstock.spec.modes import MODES
from penstock.spec.strategies import STRATEGIES

from .plain import (
    COLUMNS,
    NIGHT,
    STATISTICS,
    VERSIONS,
    World,
    facts_of,
    missing_table,
    planned,
    request_of,
    spec_of,
    without_statistics,
)

MOST_ROUNDS = 3
LAST = Watermark("s.t to s.t", 1, "run-1", "then", Horizon(900, 905), VERSIONS, target="storage")


def specs() -> Iterator[CopySpec]:
    """Return a spec of every valid mode and strategy, with options that lead to more questions."""
    more: tuple[dict[str, Any], ...] = (
        {},
        {"verify": "checksums", "where": "id > 1"},
        {"atomic": "table"},
        {"incremental": "xmin"},
        {"incremental": "xmin", "deletes": "hard", "where": "id > 1"},
        {"incremental": "xmin", "atomic_limit": "100"},
        {"schema_only": True},
        {"indexes": "defer"},
    )
    for mode in MODES:
        for strategy in STRATEGIES:
            for key in (None, "id", "id % 10"):
                for options in more:
                    try:
                        spec = spec_of(mode=mode, strategy=strategy, key=key, **options)
                        request_of(spec)
                    except UsageError:
                        continue
                    yield spec


def kinds() -> set[type[Question[Any]]]:
    """Return all kinds of questions."""
    return {
        each
        for each in vars(asked).values()
        if isinstance(each, type) and issubclass(each, Question) and each is not Question
    }


def situations(spec: CopySpec) -> Iterator[tuple[Facts, World]]:
    """Return facts and answers that lead planning to different questions."""
    nights: list[NightFacts | None] = [None]
    if spec.incremental:
        nights = [NIGHT, replace(NIGHT, last=LAST, changed="changed")]
    for table in (TargetTable(COLUMNS), missing_table()):
        for night in nights:
            for statistics in (STATISTICS, without_statistics()):
                for world in (World(), World({asked.Bounds: _disordered})):
                    yield facts_of(table=table, night=night, statistics=statistics), world


def test_every_spec_is_planned_in_three_rounds() -> None:
    seen, covered = set(), set()
    for spec in specs():
        for facts, world in situations(spec):
            with suppress(PlanningError):
                plan = planned(request_of(spec), facts, world)
                assert plan.partitions or spec.schema_only
                seen.add((spec.mode, plan.strategy))
            assert len(world.rounds) <= MOST_ROUNDS, (spec, world.rounds)
            assert len(world.questions) == len(set(map(repr, world.questions))), world.rounds
            covered |= {type(question) for question in world.questions}
    # All combinations were covered.
    assert {mode for mode, _ in seen} == set(MODES)
    assert {strategy for _, strategy in seen} == {
        str(each) for each in STRATEGIES.values() if not each.chooses
    }
    # Given partitions have types and ranks; a nullable key is checked for NULL.
    assert covered == kinds() - {asked.KeyType, asked.RankedValues, asked.HeldRows}


def _disordered(question: Question[Any]) -> KeyBounds:
    found = World().answer(question)
    assert isinstance(found, KeyBounds)
    return replace(found, disorder="they are in disorder")


def _part(number: int, extent: Any) -> Partition:
    return Partition(f"day{number}", extent)


def _range(lower: int, upper: int, key: str = "id") -> KeyRange:
    return KeyRange(Key(key), Bound("", str(lower)), Bound("", str(upper)))


@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize(
    "partitions",
    [
        [_part(1, _range(1, 2)), _part(2, _range(2, 3))],
        [_part(1, KeyValues(Key("id"), (Bound("", "1"),))), _part(2, _range(2, 3))],
        [_part(1, HashBucket(Key("id"), 2, 0)), _part(2, HashBucket(Key("id"), 2, 1))],
        [
            _part(1, Crossing(_range(1, 2), _range(1, 5, "day"))),
            _part(2, Crossing(_range(2, 3), _range(1, 5, "day"))),
        ],
    ],
    ids=["ranges", "values", "hash", "crossings"],
)
def test_given_partitions_take_three_rounds(mode: str, partitions: list[Partition]) -> None:
    world = World()
    plan = planned(request_of(spec_of(mode=mode, key="id"), partitions), facts_of(), world)
    assert len(world.rounds) <= MOST_ROUNDS
    assert [partition.id for partition in plan.partitions] == ["day1", "day2"]


def test_independent_questions_travel_together() -> None:
    spec = spec_of(mode="replace", strategy="range", key="id", verify="checksums")
    existing, missing = World(), World()
    planned(request_of(spec), facts_of(), existing)
    assert existing.rounds == [
        (asked.Fits, asked.Order),
        (asked.WritableTable, asked.ComparedColumns, asked.PlannedLoad, asked.Bounds),
        (asked.TargetCondition,),
    ]
    planned(request_of(spec), facts_of(table=missing_table()), missing)
    assert missing.rounds == [
        (asked.Fits, asked.Order),
        (asked.ComparedColumns, asked.PlannedLoad, asked.StillMissing, asked.Bounds),
        (asked.TargetCondition,),
    ]


def test_a_plan_from_facts_and_answers() -> None:
    plan = planned(request_of(spec_of(strategy="range", key="id", partitions=4)), facts_of())
    assert [str(partition.extent) for partition in plan.partitions] == [
        "id < 2", "id [2, 3)", "id [3, 4)", "id >= 4",
    ]  # fmt: skip
    assert (plan.strategy, plan.rows, plan.bytes, plan.format) == ("range", 1000, 1 << 30, "binary")
    assert [(pair.source, pair.target) for pair in plan.pairs] == [
        (column.name, column.name) for column in COLUMNS
    ]


def test_planning_is_pure() -> None:
    request, facts = request_of(spec_of(strategy="values", key="label")), facts_of()
    answers: dict[Question[Any], object] = {}
    assert step(request, facts, answers) == step(request, facts, answers)
    assert not answers


def test_a_missing_answer_raises_its_question() -> None:
    request, facts = request_of(spec_of(strategy="ntile", key="id")), facts_of()
    world = World()
    answers: dict[Question[Any], object] = {}
    while isinstance(found := step(request, facts, answers), Questions):
        answers |= {question: world.answer(question) for question in found.questions}
    for left_out in world.questions:
        others = {question: known for question, known in answers.items() if question != left_out}
        again = step(request, facts, others)
        assert isinstance(again, Questions)
        assert type(again.questions[0]) is type(left_out)


def test_a_question_takes_exactly_its_arguments() -> None:
    table, mode = TableRef("a", "b"), MODES["append"]
    question = asked.StillMissing(table, mode=mode)
    assert (question.table, question.mode) == (table, mode)
    assert question == asked.StillMissing(table=table, mode=mode)
    assert question != asked.StillMissing(TableRef("a", "c"), mode)
    assert len({question, asked.StillMissing(table, mode)}) == 1
    for arguments, named in (
        ((table,), {}),
        ((table, mode, mode), {}),
        ((table,), {"table": table}),
        ((table, mode), {"other": 1}),
    ):
        with pytest.raises(TypeError, match=r"^StillMissing: expected table, mode$"):
            asked.StillMissing(*arguments, **named)


REFUSED = PlanningError("refused")


@pytest.mark.parametrize(
    ("question", "options"),
    [
        (asked.Fits, {}),
        (asked.WritableTable, {}),
        (asked.ComparedColumns, {"verify": "checksums"}),
        (asked.PlannedLoad, {}),
        (asked.Order, {"strategy": "range", "key": "id"}),
        (asked.KeyHashes, {"strategy": "hash", "key": "id"}),
        (asked.Bounds, {"strategy": "range", "key": "id"}),
        (asked.Bounds, {"strategy": "ntile", "key": "id"}),
        (asked.Values, {"strategy": "values", "key": "id"}),
        (asked.TimeWindows, {"strategy": "time", "key": "day"}),
        (asked.KeyFacts, {"strategy": "time", "key": "day"}),
        (asked.TargetCondition, {"strategy": "range", "key": "id", "mode": "replace"}),
        (asked.ChildTables, {"strategy": "range", "key": "id", "mode": "attach"}),
    ],
)
def test_an_error_in_an_answer_is_raised(
    question: type[Question[Any]], options: dict[str, Any]
) -> None:
    world = World({question: REFUSED})
    with pytest.raises(PlanningError, match="refused"):
        planned(request_of(spec_of(**options)), facts_of(), world)
    assert question in map(type, world.questions)


def test_the_earlier_of_two_errors_is_raised() -> None:
    """The result is the same as if the questions were asked one after the other."""
    spec = spec_of(mode="replace", strategy="range", key="id")
    late = World({asked.Order: PlanningError("of the key"), asked.PlannedLoad: REFUSED})
    with pytest.raises(PlanningError, match="refused"):
        planned(request_of(spec), facts_of(), late)
    other, late = (*COLUMNS, Column("more", "int")), World({asked.Order: REFUSED})
    with pytest.raises(PlanningError, match="no such column"):
        planned(request_of(spec), facts_of(columns=other), late)


@pytest.mark.parametrize(
    "fact",
    ["columns", "table", "heirs", "positions", "is_same", "pending_steps", "night", "statistics",
     "heirs_columns"],
)  # fmt: skip
def test_a_fact_that_could_not_be_read_raises_its_error(fact: str) -> None:
    with pytest.raises(PlanningError, match="refused"):
        planned(request_of(spec_of()), facts_of(**{fact: REFUSED}))


def test_a_missing_target_keeps_its_class() -> None:
    with pytest.raises(MissingTarget):
        planned(request_of(spec_of()), facts_of(table=MissingTarget("no such table")))


def test_facts_that_decide_leave_no_questions() -> None:
    world = World()
    with pytest.raises(PlanningError, match="no column 'nosuch'"):
        planned(request_of(spec_of(columns=("nosuch",))), facts_of(), world)
    assert world.questions == []


def test_copying_a_table_onto_itself_is_rejected() -> None:
    with pytest.raises(PlanningError, match="source and target are the same table"):
        planned(request_of(spec_of()), facts_of(is_same=True))


def test_a_table_created_since_makes_the_facts_outdated() -> None:
    world = World({asked.StillMissing: False})
    with pytest.raises(Outdated):
        planned(request_of(spec_of()), facts_of(table=missing_table()), world)


def test_bounds_in_disorder_change_or_reject_the_strategy() -> None:
    """A chosen strategy gives way to one that needs no order; a requested one is rejected."""
    world = World({asked.Bounds: _disordered})
    chosen = planned(request_of(spec_of(key="id", mode="replace")), facts_of(), world)
    assert chosen.strategy == "hash"
    assert len(world.rounds) == MOST_ROUNDS
    with pytest.raises(PlanningError, match="they are in disorder"):
        planned(request_of(spec_of(key="id", strategy="range")), facts_of(), world)
    listed = World({asked.Values: ListedValues((), "two are equal")})
    with pytest.raises(PlanningError, match="two are equal"):
        planned(request_of(spec_of(key="id", strategy="values")), facts_of(), listed)


def test_a_warning_names_columns_that_only_child_tables_have() -> None:
    heir = TableRef("s", "heir")
    facts = facts_of(heirs=(heir,), heirs_columns={heir: (*COLUMNS, Column("own", "int"))})
    (warning,) = planned(request_of(spec_of()), facts).warnings
    assert "rows of s.heir" in warning
    assert "(own)" in warning


# Nights

MERGING: dict[str, Any] = {"mode": "upsert", "incremental": "xmin"}


def test_a_night_reads_only_possible_changes() -> None:
    facts = facts_of(night=replace(NIGHT, last=None))
    first = planned(request_of(spec_of(**MERGING)), facts)
    assert first.night is not None
    assert first.night.full == "this is the first night"
    selects = first.night.selects
    last = replace(LAST, selects=selects)
    facts = facts_of(night=replace(NIGHT, last=last, changed="age(xmin) < 7"))
    plan = planned(request_of(spec_of(**MERGING)), facts)
    assert plan.selection == "age(xmin) < 7"
    assert plan.rows is None


def test_a_source_behind_the_watermark_is_rejected() -> None:
    facts = facts_of(night=replace(NIGHT, last=LAST, ahead=LAST))
    with pytest.raises(TransientError, match="earlier moment than the last night"):
        planned(request_of(spec_of(**MERGING)), facts)
    # A load without the option leaves the watermark unchanged.
    plan = planned(request_of(spec_of(mode="truncate")), facts)
    assert plan.night is None
    assert any("not moved, so the next night reads all rows: " in reason for reason in plan.reasons)


def test_a_watermark_that_cannot_move_is_rejected() -> None:
    facts = facts_of(night=replace(NIGHT, last=LAST, refused="rows have no versions"))
    plan = planned(request_of(spec_of(mode="truncate")), facts)
    assert any(
        "next night reads all rows: rows have no versions" in reason for reason in plan.reasons
    )


@pytest.mark.parametrize(
    ("limit", "counted", "built"),
    [
        ("2000", None, True),  # the target has no rows
        ("100", asked.RowCounts(1000, 10), False),
        ("100", asked.RowCounts(1000, 500), True),
    ],
)
def test_a_night_is_merged_or_built(
    limit: str, counted: asked.RowCounts | None, built: bool
) -> None:
    first = planned(request_of(spec_of(**MERGING)), facts_of(night=NIGHT)).night
    assert first is not None
    last = replace(LAST, selects=first.selects) if counted else None
    facts = facts_of(night=replace(NIGHT, last=last, changed="changed" if last else ""))
    world = World({asked.MergedRows: counted})
    plan = planned(request_of(spec_of(**MERGING, atomic_limit=limit)), facts, world)
    assert bool(counted) == any(asked.MergedRows in kinds for kinds in world.rounds)
    assert any("built beside" in reason for reason in plan.reasons) == built
    assert len(world.rounds) <= MOST_ROUNDS


def test_a_night_that_cannot_be_built_is_merged() -> None:
    world = World({asked.NightRebuild: PlanningError("it has triggers")})
    plan = planned(request_of(spec_of(**MERGING)), facts_of(night=NIGHT), world)
    assert "night: rows are staged and merged, since it has triggers" in plan.reasons


# Without a target


def test_a_source_is_partitioned_without_a_target() -> None:
    request = request_of(spec_of(strategy="ntile", key="id", partitions=4))
    facts = facts_of(table=None)
    answers: dict[Question[Any], object] = {}
    names = []
    while isinstance(found := source_step(request, facts, answers), Questions):
        names.append([type(question) for question in found.questions])
        answers |= {question: World().answer(question) for question in found.questions}
    assert names == [[asked.Order], [asked.Bounds]]
    assert len(found.partitions) == 4


# Questions


def test_each_question_is_answered() -> None:
    answer = vars(Catalogs)["answer"].dispatcher
    assert all(answer.dispatch(kind) is not answer.dispatch(object) for kind in kinds())


def test_questions_are_asked_together() -> None:
    def about(name: str) -> Question[str]:
        return asked.KeyType(TableRef("public", name), Key(name))

    def want(*names: str) -> Callable[[], int]:
        def part() -> int:
            raise AnswersNeeded([about(name) for name in names])

        return part

    def fail() -> int:
        raise PermanentError("no")

    assert evaluate_together(lambda: 1, lambda: "a") == (1, "a")
    with pytest.raises(AnswersNeeded) as raised:
        evaluate_together(want("a"), lambda: 1, want("a", "b"))
    assert raised.value.questions == (about("a"), about("b"))
    with pytest.raises(AnswersNeeded) as raised:
        evaluate_together(want("a"), fail, want("b"))
    assert raised.value.questions == (about("a"),)
    with pytest.raises(PenstockError):
        evaluate_together(fail, want("a"))
