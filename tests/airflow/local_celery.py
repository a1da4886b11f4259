"""Copies with CeleryExecutor, whose workers are daemons."""

from __future__ import annotations

from ..side_by_side import side_by_side
from . import copy_cases
from .lines import Lines


@side_by_side
def test_a_plain_run_with_celery(lines: Lines) -> None:
    copy_cases.plain_run(lines, "celery")


@side_by_side
def test_only_a_killed_mapped_task_is_retried_with_celery(lines: Lines) -> None:
    copy_cases.killed_in_mid_copy(lines, "celery")


@side_by_side
def test_a_mapped_task_marked_failed_leaves_nothing_behind_with_celery(
    lines: Lines,
) -> None:
    copy_cases.marked_failed_in_mid_copy(lines, "celery")
