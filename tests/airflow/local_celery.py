"""Copies with CeleryExecutor, whose workers are daemons."""

from __future__ import annotations

from ..concurrent_cases import concurrent_test
from . import copy_cases
from .lines import Lines


@concurrent_test
def test_a_plain_run_with_celery(lines: Lines) -> None:
    copy_cases.plain_run(lines, "celery")


@concurrent_test
def test_only_a_killed_mapped_task_is_retried_with_celery(lines: Lines) -> None:
    copy_cases.killed_in_mid_copy(lines, "celery")


@concurrent_test
def test_a_mapped_task_marked_failed_leaves_nothing_behind_with_celery(
    lines: Lines,
) -> None:
    copy_cases.marked_failed_in_mid_copy(lines, "celery")
