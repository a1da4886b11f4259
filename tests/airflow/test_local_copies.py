"""Copies on a real Airflow with LocalExecutor, whose mapped tasks are killed, marked, too late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock_testkit.airflow import AirflowStack

from . import copy_cases as cases
from .lines import Lines, Servers

pytestmark = pytest.mark.airflow_stack


@pytest.fixture(scope="module")
def stack(local_stack: AirflowStack) -> AirflowStack:
    cases.prepare(local_stack)
    return local_stack


@pytest.fixture
def lines(stack: AirflowStack, lineitem_servers: Servers) -> Iterator[Lines]:
    with closing(Lines(stack, lineitem_servers)) as made:
        yield made


def test_a_plain_run(lines: Lines) -> None:
    cases.plain_run(lines)


def test_a_mapped_task_that_is_killed_is_retried_alone(lines: Lines) -> None:
    cases.killed_in_mid_copy(lines)


def test_killed_once_it_has_committed_it_copies_nothing_again(lines: Lines) -> None:
    cases.killed_after_commit(lines)


def test_a_mapped_task_that_is_marked_failed_leaves_nothing_behind(lines: Lines) -> None:
    cases.marked_failed_in_mid_copy(lines)


def test_a_mapped_task_that_is_too_late_leaves_nothing_behind(lines: Lines) -> None:
    cases.timed_out_in_mid_copy(lines)
