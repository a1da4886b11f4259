"""Rows that the target rejects, temporarily or permanently."""

from __future__ import annotations

import pytest

from penstock.events import Committed, Failed, Opened, Retrying

from .pair import PARTITIONS, Pair, execute, middle, partition_id

STRUCK = 3
OTHERS = [partition_id(n) for n in range(1, PARTITIONS + 1) if n != STRUCK]


def fail_times(pair: Pair, times: int, sqlstate: str) -> None:
    """Make the target reject one row a number of times; a rollback does not reset the count."""
    execute(
        pair.target,
        "CREATE SEQUENCE refused",
        f"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.id = {middle(STRUCK)} AND nextval('refused') <= {times} THEN
                RAISE 'refused by a trigger' USING ERRCODE = '{sqlstate}';
            END IF;
            RETURN NEW;
        END $$
        """,
        "CREATE TRIGGER refuse BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION refuse()",
    )


@pytest.mark.parametrize(
    ("sqlstate", "times"),
    [
        ("40001", 1),  # serialization_failure
        ("40P01", 2),  # deadlock_detected
        ("53400", 1),  # configuration_limit_exceeded
        ("55P03", 1),  # lock_not_available
    ],
)
@pytest.mark.usefixtures("both_paths")
def test_a_transient_error_retries_one_partition(pair: Pair, sqlstate: str, times: int) -> None:
    fail_times(pair, times, sqlstate)
    run = pair.copy()
    run.ended(0)
    struck = partition_id(STRUCK)
    assert [(e.partition_id, e.attempt) for e in run.of(Failed)] == [
        (struck, attempt) for attempt in range(1, times + 1)
    ]
    assert {event.error["code"] for event in run.of(Failed)} == {sqlstate}
    assert pair.attempts() == dict.fromkeys(OTHERS, 1) | {struck: times + 1}
    pair.check_resumes()


def test_a_transient_error_that_persists_ends_with_75(pair: Pair) -> None:
    fail_times(pair, 2, "40001")
    run = pair.copy("--attempts", "2")
    run.ended(75)
    (failure,) = run.finished.failures
    assert (failure.partition_id, failure.attempts) == (partition_id(STRUCK), 2)
    assert "penstock resume faults" in run.errors
    pair.check_resumes()


def forbid(pair: Pair) -> None:
    execute(
        pair.target, f"ALTER TABLE item ADD CONSTRAINT not_this_one CHECK (id <> {middle(STRUCK)})"
    )


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_permanent_error_names_every_detail(pair: Pair, on_error: str) -> None:
    forbid(pair)
    run = pair.copy("--on-error", on_error, degree=1)
    run.ended(65)
    assert run.finished.status == "failed"
    (failure,) = run.finished.failures
    assert (failure.partition_id, failure.attempts) == (partition_id(STRUCK), 1)
    assert failure.error["error"] == "PermanentError"
    assert failure.error["side"] == "target"
    assert failure.error["code"] == "23514"
    assert failure.error["constraint"] == "not_this_one"
    assert f"({middle(STRUCK)}, " in failure.error["detail"]
    assert failure.error["context"].startswith("COPY item, line ")
    assert not run.of(Retrying)
    done = [event.partition_id for event in run.of(Committed)]
    if on_error == "stop":
        assert run.opened() == [(partition_id(n), 1) for n in (1, 2, STRUCK)]
        assert done == [partition_id(n) for n in (1, 2)]
    else:
        assert done == OTHERS
    assert run.finished.committed == len(done)
    stored = pair.status().run
    assert stored.status == "failed"
    assert [raw["partition_id"] for raw in stored.failures] == [partition_id(STRUCK)]

    still = pair.resume("--degree", "1")
    still.ended(65)
    assert [raw.partition_id for raw in still.finished.failures] == [partition_id(STRUCK)]

    execute(pair.target, "ALTER TABLE item DROP CONSTRAINT not_this_one")
    resumed = pair.check_resumes()
    assert len(resumed.of(Opened)) == PARTITIONS - still.finished.committed
    assert pair.status().run.failures == ()


def test_a_run_continues_after_the_source_is_corrected(pair: Pair) -> None:
    """Committed rows stay as of the first snapshot; the corrected ones are read again."""
    forbid(pair)
    run = pair.copy("--on-error", "continue")
    run.ended(65)
    execute(pair.source, f"DELETE FROM item WHERE id = {middle(STRUCK)}")
    refused = pair.resume()
    refused.ended(65)
    assert "1 deleted" in refused.errors
    pair.check_resumes("--on-snapshot-lost", "accept")


def test_one_partition_can_be_resumed_alone(pair: Pair) -> None:
    fail_times(pair, 1, "23514")
    run = pair.copy(degree=1)
    run.ended(65)
    chosen = partition_id(STRUCK)
    resumed = pair.resume("--only", chosen)
    resumed.ended(0)
    assert resumed.finished.status == "partial"
    assert resumed.opened() == [(chosen, 1)]
    pair.check_resumes()
