"""Mode truncate: the target is emptied once per run, even if steps or commands are repeated."""

from __future__ import annotations

from penstock.events import Opened, Prepared

from .pair import Pair, ask, execute, middle

FOREIGN = "SELECT array_agg(id ORDER BY id DESC) FROM item WHERE id < 0"


def insert_foreign(pair: Pair, item_id: int) -> None:
    execute(pair.target, f"INSERT INTO item VALUES ({item_id}, 'foreign', NULL, now(), NULL, '')")


def test_neither_resume_nor_copy_empties_it_again(pair: Pair) -> None:
    insert_foreign(pair, -1)
    execute(pair.target, f"ALTER TABLE item ADD CHECK (id <> {middle(3)})")
    run = pair.copy("--mode", "truncate")
    run.ended(65)
    assert [event.already for event in run.of(Prepared)] == [False]
    assert ask(pair.target, FOREIGN) is None

    insert_foreign(pair, -2)
    still = pair.resume()
    still.ended(65)
    assert [event.already for event in still.of(Prepared)] == [True]
    execute(pair.target, "ALTER TABLE item DROP CONSTRAINT item_id_check")

    insert_foreign(pair, -3)
    again = pair.copy("--mode", "truncate")
    again.ended(0)
    assert again.finished.status == "done"

    # Once more, when the run is done.
    for repeated in (pair.copy("--mode", "truncate"), pair.resume()):
        repeated.ended(0)
        assert not repeated.of(Opened)
    assert ask(pair.target, FOREIGN) == [-2, -3]
    execute(pair.target, "DELETE FROM item WHERE id < 0")
    pair.check_resumes()


def test_a_run_killed_between_preparation_and_its_first_partition(pair: Pair) -> None:
    insert_foreign(pair, -1)
    gates = pair.gates(1, 2)
    run = pair.copy("--mode", "truncate")
    run.wait_for(Prepared)
    run.kill()
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
    assert ask(pair.target, FOREIGN) is None
    insert_foreign(pair, -2)
    resumed = pair.resume()
    resumed.ended(0)
    assert ask(pair.target, FOREIGN) == [-2]
    execute(pair.target, "DELETE FROM item WHERE id < 0")
    pair.check_resumes()


def test_a_run_killed_before_its_preparation(pair: Pair) -> None:
    insert_foreign(pair, -1)
    with pair.lock_target():
        run = pair.copy("--mode", "truncate")
        pair.waiting_for_lock("target", 1)
        run.kill()
        pair.check_nothing_left()
        assert ask(pair.target, FOREIGN) == [-1]
    resumed = pair.check_resumes()
    assert [event.already for event in resumed.of(Prepared)] == [False]
