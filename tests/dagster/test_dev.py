"""A real Dagster: backfills, killed processes, canceled runs; committed rows stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from penstock_testkit.dagster import Backfill, DagsterStack, Run

from ..concurrent_cases import ConcurrentCases, concurrent_test, start_cases
from .dev_lines import ALL, KEYS, SECRETS, Lines, Servers, connect, rows, servers

DEFINITIONS = Path(__file__).with_name("dev_definitions.py")
# In the middle of the partition that must fail once.
REFUSED = "ALTER TABLE backfilled.lineitem ADD CONSTRAINT refused CHECK (l_orderkey <> 68993)"
FAILED = "004"
NURSERY = "penstock.workers.fork_server"
# The number of cases that run on the stack at once.
AT_ONCE = 3
# A test may have to wait for all earlier ones to end.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def both() -> Iterator[Servers]:
    with servers() as started:
        yield started


@pytest.fixture(scope="module")
def stack(both: Servers) -> Iterator[DagsterStack]:
    with DagsterStack(DEFINITIONS, {"PG_SRC": both.source, "PG_DST": both.target}) as started:
        yield started


@dataclass(frozen=True)
class Dev:
    """The environment of the cases: a Dagster, two servers, and two backfills.

    The backfills start first, because the daemon checks only every 30 seconds.
    """

    stack: DagsterStack
    both: Servers
    backfilled: Backfill
    one_by_one: Backfill

    @contextmanager
    def lines(self, schema: str) -> Iterator[Lines]:
        with closing(Lines(self.stack, self.both, schema)) as lines:
            yield lines


@pytest.fixture(scope="module")
def cases(
    request: pytest.FixtureRequest, stack: DagsterStack, both: Servers
) -> Iterator[ConcurrentCases]:
    with closing(connect(both.target)) as connection:
        connection.execute(REFUSED)
    dev = Dev(
        stack,
        both,
        stack.backfill("backfilled/lineitem", KEYS),
        stack.backfill("one_by_one/lineitem", KEYS[:2]),
    )
    with start_cases(request, lambda case: case(dev), AT_ONCE) as running:
        yield running


def hold_in_mid_copy(lines: Lines) -> Run:
    """Start a run of all partitions, with two streams held and some partitions committed."""
    lines.hold(2)
    lines.hold(5)
    run = lines.stack.launch(lines.asset, partitions=ALL)
    lines.wait_for_gates()
    assert 0 < len(lines.records()) < 7
    return run


def family(run: Run) -> list[psutil.Process]:
    """Return the step's process, the nursery and its workers."""
    step = run.step_process()
    # Dagster has processes there, too, which collect the output.
    found = [one for one in step.children(recursive=True) if NURSERY in one.cmdline()]
    assert len(found) == 3, found
    return [step, *found]


def check_reexecution(lines: Lines, run: Run) -> None:
    """Check that a re-execution from failure copies only uncommitted partitions."""
    before = lines.records()
    lines.close()
    again = run.reexecute()
    again.ended("SUCCESS")
    after = lines.records()
    assert {name: after[name] for name in before} == before
    assert len(after) == len(KEYS)
    # Partitions that the first run committed are compared at the end, too.
    assert lines.stack.checks(lines.asset, "same_row_count") == dict.fromkeys(KEYS, True)
    lines.check_content()
    lines.check_all_reported(run, again)
    lines.check_ended([])


@concurrent_test
def test_a_backfill_retries_only_its_failed_partition(dev: Dev) -> None:
    with dev.lines("backfilled") as lines:
        backfill = dev.backfilled
        (run,) = backfill.runs(1)
        run.ended("FAILURE")
        others = [key for key in KEYS if key != FAILED]
        assert run.partitions() == others
        found = lines.stack.statuses(lines.asset)
        assert (found.materialized, found.failed) == (others, [FAILED])
        assert "refused" in run.log()
        before = lines.records()

        with closing(connect(dev.both.target)) as connection:
            connection.execute("ALTER TABLE backfilled.lineitem DROP CONSTRAINT refused")
        assert backfill.wait() == "COMPLETED_FAILED"
        (again,) = backfill.reexecute().runs(1)
        again.ended("SUCCESS")
        assert again.partitions() == [FAILED]
        after = lines.records()
        assert {name: after[name] for name in before} == before
        lines.check_content()
        lines.check_all_reported(run, again)


@concurrent_test
def test_a_killed_step_leaves_nothing_behind(dev: Dev) -> None:
    with dev.lines("step_killed") as lines:
        run = hold_in_mid_copy(lines)
        processes = family(run)
        for process in processes[1:]:
            seen = f"{process.cmdline()} {process.environ()}"
            assert not [secret for secret in SECRETS if secret in seen]
        processes[0].kill()
        lines.check_ended(processes)
        lines.check_only_committed_rows()
        run.ended("FAILURE")
        check_reexecution(lines, run)


@concurrent_test
def test_a_killed_run_worker_leaves_nothing_behind(dev: Dev) -> None:
    with dev.lines("worker_killed") as lines:
        run = hold_in_mid_copy(lines)
        worker, processes = run.worker_process(), family(run)
        assert processes[0] in worker.children()
        worker.kill()
        lines.check_ended([worker, *processes])
        lines.check_only_committed_rows()
        run.ended("FAILURE")
        check_reexecution(lines, run)


@concurrent_test
def test_a_canceled_run_leaves_nothing_behind(dev: Dev) -> None:
    with dev.lines("canceled") as lines:
        run = hold_in_mid_copy(lines)
        processes = family(run)
        run.cancel()
        lines.check_ended(processes)
        lines.check_only_committed_rows()
        run.ended("CANCELED")
        check_reexecution(lines, run)


@concurrent_test
def test_a_run_for_each_partition(dev: Dev) -> None:
    with dev.lines("one_by_one") as lines:
        runs = dev.one_by_one.runs(2)
        for run in runs:
            run.ended("SUCCESS")
        assert sorted(run.partitions() for run in runs) == [[key] for key in KEYS[:2]]
        events = [one for run in runs for one in run.materializations()]
        counts = {one.partition: one.metadata["dagster/partition_row_count"] for one in events}
        assert counts == lines.rows()
        lines.check_only_committed_rows()


@concurrent_test
def test_a_run_is_re_executed_from_the_page_after_a_row_is_corrected(dev: Dev) -> None:
    """Only the row changes: the run succeeds, and downstream assets run."""
    stack, both = dev.stack, dev.both
    run = stack.launch("mended/orders", "after_mended")
    run.ended("FAILURE")
    assert "bad" in run.log()
    with closing(connect(both.source)) as connection:
        connection.execute("UPDATE orders_to_mend SET region = 'good' WHERE id = 350")
    again = run.reexecute()
    again.ended("SUCCESS")
    done = {event.asset for event in again.materializations()}
    assert done == {"mended/orders", "after_mended"}
    assert rows(both.target, "SELECT count(*), min(region) FROM mended.orders") == [(400, "good")]
    assert ", as requested" in again.log()
    assert stack.checks("mended/orders", "same_rows") == {None: True}


def test_no_password_appears_anywhere(cases: ConcurrentCases, stack: DagsterStack) -> None:
    cases.wait()
    # Dagster's databases and logs, and the logs of the steps.
    files = {path: path.read_bytes() for path in stack.home.rglob("*") if path.is_file()}
    for secret in SECRETS:
        assert not [path for path, content in files.items() if secret.encode() in content]
    # Proof that the test looked in the right places.
    assert sum(b"step_killed" in content for content in files.values()) > 2
    shown = stack.metadata("step_killed/lineitem")
    assert shown["dagster/table_name"] == "step_killed.lineitem"
    assert not [secret for secret in SECRETS if secret in str(shown)]
