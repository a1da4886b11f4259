"""Copies on a real Airflow with CeleryExecutor, whose workers are daemons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock_testkit.airflow import AirflowStack

from . import copy_cases as cases
from .lines import PACK, Lines, Servers

pytestmark = pytest.mark.airflow_stack


@pytest.fixture(scope="module")
def stack(celery_stack: AirflowStack) -> AirflowStack:
    cases.prepare(celery_stack)
    return celery_stack


@pytest.fixture
def lines(stack: AirflowStack, lineitem_servers: Servers) -> Iterator[Lines]:
    with closing(Lines(stack, lineitem_servers)) as made:
        yield made


def test_a_plain_run(lines: Lines) -> None:
    cases.plain_run(lines, "packed", PACK)


def test_a_mapped_task_that_is_killed_is_retried_alone(lines: Lines) -> None:
    cases.killed_in_mid_copy(lines, "packed", PACK)


def test_a_mapped_task_that_is_marked_failed_leaves_nothing_behind(lines: Lines) -> None:
    cases.marked_failed_in_mid_copy(lines, "packed", PACK)


def test_in_mode_replace_a_partition_that_is_cleared_is_copied_again(lines: Lines) -> None:
    cases.cleared_after_success(lines)
