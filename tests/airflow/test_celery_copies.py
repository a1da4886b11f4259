"""Copies on a real Airflow with CeleryExecutor, whose workers are daemons."""

from __future__ import annotations

import pytest

from ..side_by_side import side_by_side
from . import copy_cases
from .lines import Lines

STACK = "celery_stack"
# Every test may wait for all that has begun before it.
pytestmark = [pytest.mark.airflow_stack, pytest.mark.timeout(900)]


@side_by_side
def test_a_plain_run(lines: Lines) -> None:
    copy_cases.plain_run(lines)


@side_by_side
def test_a_mapped_task_that_is_killed_is_retried_alone(lines: Lines) -> None:
    copy_cases.killed_in_mid_copy(lines)


@side_by_side
def test_a_mapped_task_that_is_marked_failed_leaves_nothing_behind(lines: Lines) -> None:
    copy_cases.marked_failed_in_mid_copy(lines)
