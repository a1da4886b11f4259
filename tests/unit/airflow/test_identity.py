"""The name of a task's run: valid in the core, kept by every retry, and new after clearing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import CopySpec
from penstock.spec.ids import check_run_id
from penstock_airflow.runs.run_ids import (
    clearings,
    earlier_run_ids,
    recopies_partition,
    run_id_of,
    starts_new_run,
)

IDS = st.text(min_size=1, max_size=250)


def context(
    dag_id: str = "nightly",
    run_id: str = "scheduled__2026-01-01T00:00:00+00:00",
    task_id: str = "orders.prepare",
    **ti: Any,
) -> Any:
    """Return the context of a first try with three retries, with some changes."""
    fields = {"map_index": -1, "try_number": 1, "max_tries": 3, **ti}
    task = SimpleNamespace(retries=fields.pop("retries", 3))
    instance = SimpleNamespace(dag_id=dag_id, task_id=task_id, task=task, **fields)
    return {"ti": instance, "dag_run": SimpleNamespace(run_id=run_id)}


@given(IDS, IDS, IDS, st.integers(-1, 1024), st.integers(0, 10**6), st.booleans())
def test_the_core_accepts_the_name_for_any_ids(
    dag_id: str, run_id: str, task_id: str, map_index: int, tries: int, again: bool
) -> None:
    name = run_id_of(
        context(dag_id, run_id, task_id, map_index=map_index, max_tries=3 + tries), again=again
    )
    check_run_id(name)
    CopySpec(source="env:S", target="env:T", table="a.b", run_id=name)


def test_a_name_identifies_its_task() -> None:
    assert run_id_of(context(), again=True).startswith("orders-")
    assert run_id_of(context(task_id="copy_orders"), again=True).startswith("copy_orders-")
    assert run_id_of(context(task_id="ü.prepare"), again=True).startswith("run-")


def test_a_retry_continues_the_same_run() -> None:
    names = {run_id_of(context(try_number=number), again=True) for number in (1, 2, 3, 4)}
    assert len(names) == 1


def test_a_cleared_task_begins_a_new_run_that_its_retries_continue() -> None:
    first = run_id_of(context(try_number=2), again=True)
    # Cleared after its second try: Airflow raises max_tries to the number of tries so far plus the
    # retries.
    cleared = [
        run_id_of(context(try_number=number, max_tries=5), again=True) for number in (3, 4, 5)
    ]
    cleared_again = run_id_of(context(try_number=4, max_tries=6), again=True)
    assert len({first, *cleared, cleared_again}) == 3
    assert len(set(cleared)) == 1


def test_a_run_that_must_not_be_repeated_survives_clearing() -> None:
    assert run_id_of(context(), again=False) == run_id_of(context(max_tries=9), again=False)


def test_names_of_possible_runs_from_before_a_task_was_cleared() -> None:
    assert earlier_run_ids(context()) == []
    twice = run_id_of(context(max_tries=5), again=True)
    earlier = earlier_run_ids(context(max_tries=6))
    assert twice in earlier
    assert earlier[-1] == run_id_of(context(), again=True)
    assert run_id_of(context(max_tries=6), again=True) not in earlier


def test_other_tasks_have_other_runs() -> None:
    contexts = [
        context(),
        context(dag_id="hourly"),
        context(run_id="manual__2026-01-01T00:00:00+00:00"),
        context(task_id="orders.other"),
        context(map_index=0),
        context(map_index=1),
        # The boundary between two ids makes a difference.
        context(dag_id="nightly2", run_id="x"),
        context(dag_id="nightly", run_id="2x"),
    ]
    names = {run_id_of(each, again=True) for each in contexts}
    assert len(names) == len(contexts)


@pytest.mark.parametrize("retries", [0, None, 3])
def test_retries_do_not_count_as_clearing(retries: int | None) -> None:
    ti = context(retries=retries, max_tries=retries or 0, try_number=(retries or 0) + 1)["ti"]
    assert clearings(ti) == 0


def test_a_changed_number_of_retries_does_not_count_as_clearing() -> None:
    assert clearings(context(retries=5, max_tries=3)["ti"]) == 0


@pytest.mark.parametrize(
    ("mode", "run_again", "partition_again"),
    [
        ("append", False, False),
        ("truncate", True, False),
        ("replace", True, True),
        ("upsert", True, True),
        ("recreate", True, False),
        ("swap", True, False),
    ],
)
def test_effects_of_clearing_by_mode(mode: str, run_again: bool, partition_again: bool) -> None:
    assert starts_new_run(None, mode) is run_again
    assert recopies_partition(None, mode) is partition_again
    for again in (True, False):
        assert starts_new_run(again, mode) is again
        assert recopies_partition(again, mode) is again
