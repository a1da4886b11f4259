"""Two runs on one table: no run that reported success loses rows."""

from __future__ import annotations

import signal
import time

import pytest

from penstock.events import Committed, Opened

from ...faults.cli import PATIENCE, Run, eventually
from .mysql_pair import ROWS, RUN_ID, Pair, execute, middle, rows

WITHOUT_KEY = "ALTER TABLE item DROP PRIMARY KEY, ADD INDEX (id)"
WAITING = """
    SELECT 1 FROM information_schema.processlist
    WHERE state LIKE 'Waiting for table metadata lock%'
"""


def start_other_run(pair: Pair, mode: str) -> Run:
    return pair.copy("--mode", mode, run_id="other", partitions=5)


@pytest.mark.parametrize(
    ("mode", "second"),
    [("append", "swap"), ("swap", "append"), ("truncate", "swap"), ("swap", "truncate")],
)
def test_the_second_is_refused_while_the_first_is_executing(
    pair: Pair, mode: str, second: str
) -> None:
    execute(pair.target, WITHOUT_KEY)
    gate = pair.gate(middle(1))
    running = pair.copy("--mode", mode)
    gate.reached()
    refused = start_other_run(pair, second)
    refused.ended(75)
    assert f"run faults (--mode {mode}) is already writing these rows" in refused.errors
    assert not refused.of(Opened)
    gate.open()
    running.ended(0)
    pair.check_done()


def unseen(pair: Pair, run: Run) -> None:
    """Suspend a run, and end its sessions except those of its attempts: it appears dead."""
    run.signal_all(signal.SIGSTOP)
    database = pair.target.rpartition("/")[2]
    # The server shows the state of transactions at the previous query, if that was recent.
    time.sleep(0.2)
    idle = (
        "SELECT id FROM information_schema.processlist WHERE db = '{}' AND id <> connection_id()"
        " AND id NOT IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx)"
    )
    for (number,) in rows(pair.target, idle.format(database)):
        execute(pair.target, f"KILL {number}")


def check_nothing_lost(pair: Pair, taking: Run, append: Run, append_id: str) -> None:
    """Check that the removing run ended well, and that no rows it removed were reported as
    committed."""
    codes = [run.popen.wait(PATIENCE) for run in (taking, append)]
    ((found,),) = rows(pair.target, "SELECT count(*) FROM item")
    details = f"{codes}, {found} rows: {taking.errors} {append.errors}"
    assert codes == [0, 65], details
    assert found == ROWS, details
    assert not pair.attempts(append_id), details
    assert "has deleted rows of" in append.errors


def test_swap_waits_for_an_attempt_of_an_invisible_run(pair: Pair) -> None:
    """The attempt has rows in the table before swap can lock it, and would commit them first."""
    execute(pair.target, WITHOUT_KEY)
    gate = pair.gate(middle(4))
    append = pair.copy("--mode", "append", degree=1, partitions=1)
    gate.reached()
    unseen(pair, append)
    gate.open()
    swap = start_other_run(pair, "swap")
    eventually("swap waits", lambda: bool(rows(pair.target, WAITING)), PATIENCE)
    append.signal_all(signal.SIGCONT)
    check_nothing_lost(pair, swap, append, RUN_ID)


def test_a_restarting_run_waits_for_such_an_attempt(pair: Pair) -> None:
    """TRUNCATE would delete what the attempt commits before it."""
    execute(pair.target, WITHOUT_KEY)
    words = ("--on-snapshot-lost", "restart")
    gate = pair.gate(middle(4))
    killed = pair.copy("--mode", "truncate", *words, degree=1)
    gate.reached()
    killed.signal_all(signal.SIGKILL)
    killed.ended(-signal.SIGKILL)
    gate.open()
    gate = pair.gate(middle(4))
    append = pair.copy("--mode", "append", run_id="other", degree=1, partitions=1)
    gate.reached()
    unseen(pair, append)
    gate.open()
    execute(pair.source, "INSERT INTO digit VALUES (10)", "DELETE FROM digit WHERE d = 10")
    again = pair.resume(*words)
    eventually("it waits", lambda: bool(rows(pair.target, WAITING)), PATIENCE)
    append.signal_all(signal.SIGCONT)
    check_nothing_lost(pair, again, append, "other")


@pytest.mark.parametrize("verify", ["counts", "checksums"])
@pytest.mark.parametrize("mode", ["truncate", "append", "replace"])
def test_rows_deleted_by_another_user_during_the_load(pair: Pair, mode: str, verify: str) -> None:
    gate = pair.gate(middle(4))
    running = pair.copy("--mode", mode, "--verify", verify)
    gate.reached()
    running.wait_for(Committed, partition_id="p0001")
    execute(pair.target, "DELETE FROM item WHERE id < 1000")
    gate.open()
    running.ended(65)
    assert "source and target differ" in running.errors
