"""The outcomes of a copy whose tasks are marked and cleared, as a table of plain data.

Each row is tested on a real Airflow (`local_clearing_table.py`), and shown in `docs/airflow.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# The forms of a copy.
GROUP = "group"
UNSHARED = "group, no snapshot"
WIRED = "by hand"
APPEND = "group, append"
ONE_TASK = "one task"
ONE_APPEND = "one task, append"
CELERY = "group, CeleryExecutor"
WORKER = "group, a worker holds"
RECOPY = "group, recopy"
WORKERS = "group, workers"
AFTER = "group after two tasks"
FORMS = (
    GROUP,
    ONE_TASK,
    ONE_APPEND,
    UNSHARED,
    APPEND,
    WIRED,
    RECOPY,
    AFTER,
    CELERY,
    WORKER,
    WORKERS,
)

# When the copy is disturbed.
BEFORE = "while the first of two tasks before the group runs"
PLANNING = "while `prepare` plans"
COPYING = "while two of four copy"
FAILED = "after a copy has failed"
DONE = "after the end"
NIGHT = "after a night has merged"
MOMENTS = (BEFORE, PLANNING, COPYING, FAILED, DONE, NIGHT)

# From then on, every copy fails.
REFUSE_ROWS = "the target refuses all rows"
EMPTY_TABLE = "the target's table is emptied"
DELETE_ROWS = "some of the target's rows are deleted"
LOAD_OTHERWISE = "another run empties and loads the target's table"
CHANGE_OPTIONS = "the DAG's options change"
OUTSIDE = (REFUSE_ROWS, EMPTY_TABLE, DELETE_ROWS, LOAD_OTHERWISE, CHANGE_OPTIONS)
"""Acts that are no clicks."""
MARK_RUN_FAILED = "mark the DAG run failed"
MARK_RUN_SUCCESS = "mark the DAG run success"
CLEAR_RUN = "clear the DAG run"
CLEAR_RUN_FAILED = "clear the DAG run, only failed tasks"
MARK_COPY_FAILED = "mark a copy failed"
MARK_COPY_SUCCESS = "mark a copy success"
MARK_COPIES_SUCCESS = "mark all copies success"
CLEAR_COPY = "clear a copy"
CLEAR_COPY_DOWN = "clear a copy, downstream"
CLEAR_COPY_UP = "clear a copy, upstream"
CLEAR_COPY_BOTH = "clear a copy, upstream and downstream"
CLEAR_COPIES = "clear all copies, downstream"
CLEAR_COPIES_FAILED = "clear all copies, only failed, downstream"
CLEAR_VERIFY = "clear `verify`"
CLEAR_VERIFY_DOWN = "clear `verify`, downstream"
CLEAR_VERIFY_UP = "clear `verify`, upstream"
CLEAR_PLAN_DOWN = "clear `plan`, downstream"
CLEAR_PREPARE = "clear `prepare`"
CLEAR_PREPARE_DOWN = "clear `prepare`, downstream"
CLEAR_SNAPSHOT = "clear `snapshot`"
CLEAR_RELEASE = "clear `release`"
MARK_PREPARE_FAILED = "mark `prepare` failed"
MARK_PREPARE_SUCCESS = "mark `prepare` success"
MARK_PLAN_SUCCESS = "mark `plan` success"
MARK_PLAN_FAILED = "mark `plan` failed"
MARK_SNAPSHOT_FAILED = "mark `snapshot` failed"
MARK_SNAPSHOT_SUCCESS = "mark `snapshot` success"
MARK_VERIFY_FAILED = "mark `verify` failed"
MARK_VERIFY_SUCCESS = "mark `verify` success"
MARK_RELEASE_FAILED = "mark `release` failed"
MARK_RELEASE_SUCCESS = "mark `release` success"

# After these acts, no running task continues.
ENDING = {MARK_RUN_FAILED, MARK_RUN_SUCCESS, MARK_PREPARE_FAILED, MARK_PREPARE_SUCCESS}

GREEN = "green"
RED = "red"
# A user has said that the missing rows do not matter.
TAKEN = "as marked"


@dataclass(frozen=True)
class Cell:
    """One way to disturb one form of a copy."""

    form: str
    moment: str
    acts: tuple[str, ...]
    ends: str
    """`GREEN`: the run succeeds with each row once. `RED`: it fails. `TAKEN`: it succeeds."""
    usual: bool
    """Whether the suite tests it by default."""

    @property
    def name(self) -> str:
        return f"{self.form}: {self.moment}, {', then '.join(self.acts)}".replace("`", "")


@dataclass(frozen=True)
class Row:
    moment: str
    acts: tuple[str, ...]
    ends: dict[str, str]
    """Outcomes by form."""
    usual: tuple[str, ...] = ()
    """The forms that the suite tests by default."""

    def cells(self) -> Iterator[Cell]:
        for form, ends in self.ends.items():
            yield Cell(form, self.moment, self.acts, ends, form in self.usual)


_MAPPED = (GROUP, WORKERS, UNSHARED, WIRED, APPEND)


def _groups(ends: str, *other_forms: str) -> dict[str, str]:
    """Return the outcome for a group, and for the other forms that are tested."""
    return dict.fromkeys((GROUP, WORKERS, *other_forms), ends)


def _every(ends: str, one_task: str) -> dict[str, str]:
    return {**dict.fromkeys(_MAPPED, ends), ONE_TASK: one_task}


ROWS = (
    # The whole DAG run
    Row(BEFORE, (MARK_RUN_FAILED,), {AFTER: RED}),
    Row(BEFORE, (MARK_RUN_FAILED, CLEAR_RUN_FAILED), {AFTER: RED}, usual=(AFTER,)),
    Row(BEFORE, (MARK_RUN_FAILED, CLEAR_RUN_FAILED, CLEAR_PREPARE_DOWN), {AFTER: RED}),
    Row(BEFORE, (MARK_RUN_FAILED, CLEAR_RUN), {AFTER: GREEN}),
    Row(BEFORE, (MARK_RUN_SUCCESS,), {AFTER: RED}),
    Row(BEFORE, (CLEAR_RUN,), {AFTER: GREEN}),
    Row(PLANNING, (MARK_RUN_FAILED,), {**_groups(RED, UNSHARED), ONE_TASK: RED}),
    Row(PLANNING, (MARK_RUN_FAILED, CLEAR_RUN_FAILED), {**_groups(RED), ONE_TASK: GREEN}),
    Row(PLANNING, (MARK_RUN_FAILED, CLEAR_RUN), {**_groups(GREEN), ONE_TASK: GREEN}),
    Row(PLANNING, (MARK_RUN_SUCCESS,), {**_groups(RED), ONE_TASK: TAKEN}),
    Row(PLANNING, (CLEAR_RUN,), {**_groups(GREEN), ONE_TASK: GREEN}),
    Row(COPYING, (MARK_RUN_FAILED,), {**_every(RED, RED), CELERY: RED}),
    Row(
        COPYING,
        (MARK_RUN_FAILED, CLEAR_RUN_FAILED),
        {**_every(RED, GREEN), CELERY: RED},
        usual=(GROUP, UNSHARED),
    ),
    Row(
        COPYING,
        (MARK_RUN_FAILED, CLEAR_RUN_FAILED, CLEAR_VERIFY_DOWN),
        dict.fromkeys((*_MAPPED, CELERY), GREEN),
        usual=(GROUP, WORKERS),
    ),
    Row(
        COPYING,
        (MARK_RUN_FAILED, CLEAR_RUN),
        {**_every(GREEN, GREEN), CELERY: GREEN},
        usual=(APPEND,),
    ),
    Row(COPYING, (MARK_RUN_SUCCESS,), {**_every(RED, TAKEN), CELERY: RED}, usual=(GROUP,)),
    Row(
        COPYING, (MARK_RUN_SUCCESS, MARK_RUN_SUCCESS), {**_groups(TAKEN, UNSHARED), ONE_TASK: TAKEN}
    ),
    Row(COPYING, (CLEAR_RUN,), {**_every(GREEN, GREEN), CELERY: GREEN}, usual=(GROUP,)),
    Row(COPYING, (CLEAR_RUN_FAILED,), {**_groups(GREEN), ONE_TASK: GREEN}),
    Row(
        FAILED,
        (CLEAR_RUN_FAILED,),
        {**_every(GREEN, GREEN), CELERY: GREEN},
        usual=(GROUP, WORKERS),
    ),
    Row(FAILED, (CLEAR_RUN,), _every(GREEN, GREEN)),
    Row(FAILED, (MARK_RUN_SUCCESS,), {**_groups(TAKEN), ONE_TASK: TAKEN}),
    Row(DONE, (CLEAR_RUN,), {**_every(GREEN, GREEN), RECOPY: GREEN, CELERY: GREEN}),
    Row(DONE, (REFUSE_ROWS, CLEAR_RUN), {**_groups(RED, UNSHARED, RECOPY), ONE_TASK: RED}),
    Row(DONE, (MARK_RUN_FAILED, CLEAR_RUN_FAILED), {**_groups(RED), ONE_TASK: RED}),
    # The table, or the DAG's file
    Row(
        DONE,
        (EMPTY_TABLE, CLEAR_RUN),
        {**_every(GREEN, GREEN), ONE_APPEND: GREEN},
        usual=(APPEND, ONE_APPEND),
    ),
    Row(DONE, (EMPTY_TABLE, CLEAR_COPY_DOWN), {**_groups(RED, APPEND), ONE_APPEND: GREEN}),
    Row(
        DONE,
        (EMPTY_TABLE, CLEAR_COPY_DOWN, CLEAR_PREPARE_DOWN),
        _groups(GREEN, APPEND),
        usual=(APPEND,),
    ),
    Row(DONE, (EMPTY_TABLE, CLEAR_VERIFY_DOWN), _groups(RED, APPEND)),
    Row(DONE, (DELETE_ROWS, CLEAR_COPY_DOWN), _groups(RED, APPEND)),
    Row(
        DONE,
        (DELETE_ROWS, CLEAR_COPY_DOWN, EMPTY_TABLE, CLEAR_PREPARE_DOWN),
        _groups(GREEN, APPEND),
        usual=(APPEND,),
    ),
    Row(FAILED, (LOAD_OTHERWISE, CLEAR_COPY_DOWN), _groups(RED)),
    Row(FAILED, (LOAD_OTHERWISE, CLEAR_COPY_DOWN, CLEAR_PREPARE_DOWN), _groups(GREEN), (GROUP,)),
    Row(DONE, (CHANGE_OPTIONS, CLEAR_RUN), {**_groups(GREEN), APPEND: RED, ONE_TASK: GREEN}),
    Row(
        DONE,
        (CHANGE_OPTIONS, CLEAR_RUN, EMPTY_TABLE, CLEAR_RUN),
        {APPEND: GREEN, ONE_APPEND: GREEN},
        usual=(APPEND, ONE_APPEND),
    ),
    Row(DONE, (CHANGE_OPTIONS, CLEAR_PREPARE, CLEAR_PREPARE_DOWN), _groups(GREEN)),
    # A mapped copy
    Row(COPYING, (MARK_COPY_FAILED,), {**_every(RED, RED), CELERY: RED}),
    Row(COPYING, (MARK_COPY_FAILED, CLEAR_COPY), {**_groups(RED, UNSHARED), ONE_TASK: GREEN}),
    Row(COPYING, (MARK_COPY_FAILED, CLEAR_COPY_DOWN), {**_groups(GREEN, CELERY), ONE_TASK: GREEN}),
    Row(COPYING, (MARK_COPY_FAILED, CLEAR_COPY_BOTH), _groups(GREEN)),
    Row(
        COPYING,
        (MARK_COPY_SUCCESS,),
        {**_every(GREEN, TAKEN), CELERY: GREEN},
        usual=(GROUP, WORKERS),
    ),
    Row(COPYING, (MARK_COPIES_SUCCESS,), _groups(GREEN, UNSHARED)),
    Row(COPYING, (CLEAR_COPY,), {**_groups(GREEN), ONE_TASK: GREEN}),
    Row(COPYING, (CLEAR_COPY_DOWN,), {**_groups(GREEN), ONE_TASK: GREEN}),
    Row(COPYING, (CLEAR_COPY_UP,), _groups(GREEN)),
    Row(COPYING, (CLEAR_COPIES,), _groups(GREEN, UNSHARED)),
    Row(FAILED, (CLEAR_COPY,), {**_groups(RED, UNSHARED), ONE_TASK: GREEN}),
    # Each worker fails at the same partition, so one of them is not all.
    Row(
        FAILED,
        (CLEAR_COPY_DOWN,),
        {**_every(GREEN, GREEN), RECOPY: GREEN, CELERY: GREEN, WORKERS: RED},
    ),
    Row(FAILED, (CLEAR_COPY_UP,), _groups(RED)),
    Row(FAILED, (CLEAR_COPIES_FAILED,), _groups(GREEN)),
    Row(FAILED, (MARK_COPY_SUCCESS,), {**_every(GREEN, RED), WORKERS: RED}, usual=(UNSHARED,)),
    Row(DONE, (CLEAR_COPY,), {**_groups(GREEN, UNSHARED, RECOPY), ONE_TASK: GREEN}),
    Row(DONE, (CLEAR_COPY_DOWN,), {**_groups(GREEN, UNSHARED, RECOPY, CELERY), ONE_TASK: GREEN}),
    Row(DONE, (CLEAR_COPY_UP,), _groups(GREEN, UNSHARED, RECOPY), usual=(GROUP,)),
    Row(DONE, (REFUSE_ROWS, CLEAR_COPY), _groups(GREEN, UNSHARED, RECOPY), usual=(RECOPY,)),
    Row(DONE, (REFUSE_ROWS, CLEAR_COPY_UP), _groups(GREEN, UNSHARED, RECOPY)),
    Row(
        DONE,
        (REFUSE_ROWS, CLEAR_COPY_DOWN),
        {GROUP: GREEN, WORKERS: GREEN, UNSHARED: RED, RECOPY: RED},
        usual=(WORKERS,),
    ),
    Row(DONE, (REFUSE_ROWS, CLEAR_VERIFY_UP), _groups(GREEN, UNSHARED, RECOPY), usual=(GROUP,)),
    Row(DONE, (CLEAR_COPY_BOTH,), _groups(GREEN)),
    Row(DONE, (CLEAR_COPIES,), _groups(GREEN, UNSHARED)),
    # The tasks around them
    Row(PLANNING, (MARK_PREPARE_FAILED,), _groups(RED)),
    Row(PLANNING, (MARK_PREPARE_SUCCESS,), _groups(RED, UNSHARED)),
    Row(PLANNING, (CLEAR_PREPARE_DOWN,), _groups(GREEN)),
    Row(PLANNING, (MARK_PLAN_SUCCESS,), _groups(RED, UNSHARED)),
    Row(PLANNING, (MARK_PLAN_FAILED,), _groups(RED)),
    Row(PLANNING, (MARK_PLAN_FAILED, CLEAR_PREPARE_DOWN), _groups(GREEN), usual=(GROUP,)),
    Row(PLANNING, (MARK_VERIFY_SUCCESS,), _groups(GREEN)),
    # A worker takes the snapshot that no task holds.
    Row(PLANNING, (MARK_SNAPSHOT_SUCCESS,), {**_groups(RED), WORKERS: GREEN}),
    # Workers hold the snapshot, too.
    Row(
        COPYING,
        (MARK_SNAPSHOT_FAILED, CLEAR_SNAPSHOT),
        {**_groups(RED), WORKERS: GREEN},
        (WORKERS,),
    ),
    Row(COPYING, (CLEAR_SNAPSHOT,), _groups(GREEN, WIRED, APPEND), usual=(GROUP,)),
    Row(COPYING, (CLEAR_PREPARE,), _groups(GREEN)),
    Row(COPYING, (CLEAR_PREPARE_DOWN,), _groups(GREEN, UNSHARED, APPEND)),
    Row(COPYING, (CLEAR_PLAN_DOWN,), _groups(GREEN, UNSHARED)),
    Row(COPYING, (MARK_VERIFY_SUCCESS,), _groups(GREEN, UNSHARED)),
    Row(COPYING, (MARK_VERIFY_FAILED,), _groups(RED, UNSHARED)),
    Row(COPYING, (MARK_RELEASE_SUCCESS,), _groups(GREEN)),
    Row(COPYING, (MARK_RELEASE_FAILED,), _groups(RED)),
    Row(FAILED, (CLEAR_SNAPSHOT,), _groups(RED, WIRED, WORKER), usual=(GROUP,)),
    Row(FAILED, (CLEAR_VERIFY,), _groups(RED)),
    Row(FAILED, (CLEAR_VERIFY_DOWN,), _groups(RED)),
    Row(FAILED, (MARK_VERIFY_SUCCESS,), dict.fromkeys(_MAPPED, RED), usual=(GROUP,)),
    Row(FAILED, (MARK_RELEASE_SUCCESS,), _groups(RED)),
    Row(FAILED, (CLEAR_PREPARE_DOWN,), _groups(GREEN, UNSHARED, APPEND)),
    Row(FAILED, (CLEAR_RELEASE,), _groups(RED, UNSHARED)),
    Row(DONE, (CLEAR_VERIFY_UP,), _groups(GREEN, UNSHARED)),
    Row(DONE, (CLEAR_VERIFY,), _groups(GREEN, UNSHARED)),
    Row(DONE, (CLEAR_SNAPSHOT,), _groups(GREEN)),
    Row(DONE, (CLEAR_PREPARE,), _groups(GREEN)),
    Row(DONE, (CLEAR_PREPARE_DOWN,), _groups(GREEN, UNSHARED, APPEND)),
    Row(DONE, (CLEAR_PLAN_DOWN,), _groups(GREEN)),
    Row(DONE, (CLEAR_RELEASE,), _groups(GREEN, UNSHARED)),
    Row(DONE, (MARK_VERIFY_FAILED, CLEAR_RUN_FAILED), _groups(GREEN)),
    # Nights
    Row(NIGHT, (CLEAR_RUN,), {**_groups(GREEN), ONE_TASK: GREEN}),
    Row(NIGHT, (CLEAR_COPY_DOWN,), {**_groups(GREEN), ONE_TASK: GREEN}, usual=(GROUP, WORKERS)),
    Row(NIGHT, (CLEAR_COPIES,), _groups(GREEN)),
    Row(NIGHT, (CLEAR_VERIFY_DOWN,), _groups(GREEN)),
    Row(NIGHT, (CLEAR_PREPARE_DOWN,), _groups(GREEN)),
)
CELLS = sorted(
    (cell for row in ROWS for cell in row.cells()), key=lambda cell: FORMS.index(cell.form)
)
