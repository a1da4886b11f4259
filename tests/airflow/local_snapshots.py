"""The snapshot that all mapped tasks share on a real Airflow: held, lost, and released."""

from __future__ import annotations

from contextlib import ExitStack, closing

from penstock_testkit.airflow import AirflowStack, Run, until

from ..concurrent_cases import ConcurrentCases, concurrent_test
from .lines import (
    DEGREE,
    PACK,
    PARTITIONS,
    PATIENCE,
    Gate,
    Lines,
    Servers,
    check_ended,
    digest,
    execute,
    family,
    partition_id,
    tries,
)

HOLDER = "penstock:snapshot"
# Rows of the last partition; their new versions belong to it as well.
UPDATE_LAST = """
    UPDATE public.lineitem SET l_comment = 'changed'
    WHERE l_orderkey > (SELECT max(l_orderkey) - 100 FROM public.lineitem)
"""
END_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name LIKE 'penstock:%' AND datname = current_database()
"""
UPDATE_ALL = "UPDATE public.lineitem SET l_comment = 'changed'"
CHANGES = (
    UPDATE_LAST,
    "DELETE FROM public.lineitem WHERE l_orderkey BETWEEN 30000 AND 30100",
    "INSERT INTO public.lineitem SELECT * FROM public.lineitem"
    " WHERE l_orderkey BETWEEN 40000 AND 40100",
)
FAIL_AT = """
    CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''no such row, please''; END';
    CREATE TRIGGER refuse AFTER INSERT ON public.lineitem FOR EACH ROW
        WHEN (NEW.l_orderkey = 40000) EXECUTE FUNCTION public.refuse()
"""


@concurrent_test
def test_all_mapped_tasks_read_the_same_snapshot(lines: Lines) -> None:
    gates = [lines.gate(1 + task * PACK, pack=PACK) for task in range(DEGREE)]
    run = lines.run("packed")
    for gate in gates:
        gate.reached()
    assert run.task("lines.snapshot").state == "deferred"
    execute(lines.source, *CHANGES)
    assert digest(lines.source) != lines.content
    for gate in gates:
        gate.open()
    lines.check_done(run)
    assert tries(run) == {}


@concurrent_test
def test_a_worker_can_hold_the_snapshot(lines: Lines) -> None:
    gates = [lines.gate(1 + task * PACK, pack=PACK) for task in range(DEGREE)]
    run = lines.run("worker")
    for gate in gates:
        gate.reached()
    assert run.process("lines.snapshot").is_running()
    execute(lines.source, *CHANGES)
    for gate in gates:
        gate.open()
    lines.check_done(run)


@concurrent_test
def test_a_worker_killed_while_it_holds_the_snapshot_is_retried(lines: Lines) -> None:
    gate = lines.gate(6, pack=PACK)
    run = lines.run("worker")
    gate.waiting(1, 10 * PATIENCE)
    run.process("lines.snapshot").kill()
    run.wait_for("lines.snapshot", states=["running"], try_number=2)
    gate.open()
    lines.check_done(run)


@concurrent_test
def test_a_run_marked_failed_releases_the_snapshot(lines: Lines) -> None:
    gates = [lines.gate(1 + task * PACK, pack=PACK) for task in range(DEGREE)]
    run = lines.run("packed")
    processes = []
    for gate in gates:
        gate.reached()
        processes += [run.process("lines.copy", gate.index), *family(run, gate.index)]
    assert lines.backends(HOLDER)
    run.mark_run("failed")
    check_ended(processes)
    lines.check_no_backend()
    assert not lines.records(run)
    assert run.wait() == "failed"


@concurrent_test
def test_a_permanent_failure_fails_the_run_and_releases_the_snapshot(lines: Lines) -> None:
    execute(lines.target, FAIL_AT)
    run = lines.run("packed")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    lines.check_no_backend()
    states = [str(task.state) for task in run.mapped("lines.copy")]
    assert sorted(states) == ["failed"] + ["success"] * (PARTITIONS // PACK - 1)
    # It was not retried, since a retry could not help.
    assert tries(run) == {}
    log = run.log("lines.copy", states.index("failed"))
    # When it happens, and by the exception that fails the task.
    assert log.count("no such row, please") == 2, log
    assert run.task("lines.verify").state == "upstream_failed"
    assert run.task("lines.snapshot").state == "success"


class SnapshotLossRun:
    """A run that loses its snapshot halfway.

    One partition is held, all before it are committed, and none after it has begun.
    """

    HELD = 6

    def __init__(self, lines: Lines, variant: str) -> None:
        self.lines = lines
        self.gate: Gate = lines.gate(self.HELD, pack=PACK)
        self.run: Run = lines.run(variant)

    def check_begun(self) -> None:
        self.gate.reached()
        assert sorted(self.lines.records(self.run)) == [
            partition_id(number) for number in range(1, self.HELD)
        ]

    def check_failed(self) -> None:
        """Check that the run failed, and that the remaining partitions were not copied."""
        assert self.run.wait(timeout=4 * PATIENCE) == "failed"
        # The copies have failed: once they are cleared and succeed, no task is red.
        assert self.run.task("lines.snapshot").state == "success"
        assert "is lost" in self.run.log("lines.snapshot")
        self.lines.check_no_backend()
        # The held worker continues to read with the snapshot, and copies its task's partitions.
        assert set(self.lines.records(self.run)) <= {
            partition_id(number) for number in range(1, 2 * PACK + 1)
        }


def at_work(lines: Lines) -> tuple[list[Gate], Run]:
    """Begin a run of workers, each of which is held while some partitions are not read yet."""
    numbers = range(DEGREE + 1, PARTITIONS + 1)
    gates = [lines.gate(number) for number in numbers]
    run = lines.run("workers")
    until(
        lambda: True if sum(len(gate.clients()) for gate in gates) == DEGREE else None,
        4 * PATIENCE,
        lambda: f"not every worker is at a gate: {run.tasks()}",
    )
    return gates, run


@concurrent_test
def test_workers_go_on_if_the_source_ends_all_sessions(lines: Lines) -> None:
    gates, run = at_work(lines)
    committed = lines.records(run)
    execute(lines.source, END_SESSIONS)
    for gate in gates:
        gate.open()
    lines.check_done(run)
    # Nothing was written in between, so that another snapshot shows the same rows.
    assert set(tries(run).values()) <= {2, 3}
    after = lines.records(run)
    assert {name: after[name] for name in committed} == committed


def test_a_killed_triggerer_loses_the_snapshot(
    cases: ConcurrentCases, real_stack: AirflowStack, lineitem_servers: Servers
) -> None:
    # Other cases would lose their snapshots, too.
    cases.wait()
    stack = real_stack
    with ExitStack() as exit_stack:
        uncommitted, committed, accepted, restarted = (
            SnapshotLossRun(
                exit_stack.enter_context(closing(Lines(stack, lineitem_servers))), variant
            )
            for variant in ("lost", "lost", "accept", "restart")
        )
        all_of_them = (uncommitted, committed, accepted, restarted)
        for each in all_of_them:
            each.check_begun()
        shared = exit_stack.enter_context(closing(Lines(stack, lineitem_servers)))
        gates, shared_run = at_work(shared)
        stack.components["triggerer"].kill()
        for each in all_of_them:
            each.lines.check_no_backend(HOLDER)
        for each in (committed, accepted, restarted):
            execute(each.lines.source, UPDATE_LAST)
        execute(shared.source, UPDATE_ALL)
        for gate in (*gates, *(each.gate for each in all_of_them)):
            gate.open()
        stack.components["triggerer"].start()
        # Each worker has held it, so that it is not lost.
        shared.check_done(shared_run)
        assert tries(shared_run) == {}
        uncommitted.lines.check_done(uncommitted.run)
        committed.check_failed()
        # Clearing the failed tasks is a request for the current rows.
        committed.run.clear("lines.copy", only_failed=True, downstream=True)
        committed.lines.check_done(committed.run, digest(committed.lines.source))
        assert "read later" in committed.run.log("lines.verify")
        assert {task.state for task in committed.run.tasks()} == {"success"}
        for each in (accepted, restarted):
            each.lines.check_done(each.run, digest(each.lines.source))
        assert "started over" in restarted.run.log("lines.snapshot")
        assert "accepted" in accepted.run.log("lines.snapshot")
    until(lambda: True if stack.rest.healthy() else None, PATIENCE, lambda: "triggerer is not well")
