"""A month of nights from a source at work: killed, skipped, overlapping, stopped and woken.

After each night that ends well the target equals the source as of that night's own snapshot, and
whoever reads the target at any time sees it as some night has left it, never an earlier one after a
later one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from tests.conftest import fresh_database
from tests.faults.cli import PATIENCE, Run
from tests.faults.gate import Gate
from tests.faults.pair import connect, execute

from penstock_testkit import PostgresServer, Server, TcpProxy

from .moments import Moments, Reader, check_same, check_seen, read_target, states
from .source import Source, let_it_work

SEEDS = int(os.environ.get("PENSTOCK_NIGHTS", "5"))
FIRST_SEED = int(os.environ.get("PENSTOCK_NIGHTS_FROM", "0"))
NIGHTS = 8
LAST_WORDS = 4000
DELETES = ("hard", "soft", "ignore")
# Ended well; refused for good, with nothing written; try again.
CODES = (0, 65, 75)
# Said to the target in the last transaction, and its answer.
LAST = [
    (b'INTO "penstock"."watermark"', "to_server"),
    (b'DELETE FROM ONLY "public"."items"', "to_server"),
    (b'INSERT INTO "public"."items"', "to_server"),
    (b'DROP TABLE "public"."items__penstock', "to_server"),
    (b"DROP TABLE\x00", "to_client"),
]


@pytest.fixture(scope="module")
def source_server() -> Iterator[Server]:
    settings = {"autovacuum": False, "max_prepared_transactions": 20}
    with PostgresServer(fsync=False, settings=settings) as server:
        yield server


class Month:
    def __init__(self, source: str, target: str, seed: int, stack: ExitStack) -> None:
        self.chance = random.Random(seed)
        self.deletes = DELETES[seed % 3]
        self._stack = stack
        self._target = target
        self._proxies = [stack.enter_context(TcpProxy.of(url)) for url in (source, target)]
        self._urls = [
            proxy.url(url) for proxy, url in zip(self._proxies, (source, target), strict=True)
        ]
        parted = bool(seed % 2)
        moves = parted or self.deletes == "hard"
        swaps = not parted and self.deletes == "hard" and seed // 6 % 2 == 1
        self.source = Source(source, seed, parted=parted, moves_keys=moves, swaps=swaps)
        self.source.make()
        mark = ", deleted_at timestamptz" if self.deletes == "soft" else ""
        unique = "" if parted else ", UNIQUE (email)"
        # Where rows exchange values, they are unique again once all rows are merged.
        unique += " DEFERRABLE INITIALLY DEFERRED" if swaps else ""
        execute(
            target,
            "CREATE TABLE items (id int PRIMARY KEY, email text, n bigint, big text"
            f"{mark}{unique})",
        )
        self.moments = Moments(source, self._proxies[0])
        self.reader = Reader(target, self.deletes)
        self.log: list[str] = []
        self._watcher = stack.enter_context(closing(connect(target)))

    def night(self, *words: str) -> Run:
        run = Run(
            *("copy", "--source", self._urls[0], "--target", self._urls[1]),
            *("--table", "public.items", "--mode", "upsert", "--incremental", "xmin"),
            *("--deletes", self.deletes, "--max-deletes", "100%", "--degree", "2"),
            *("--partitions", "3", *words),
        )
        self._stack.callback(run.close)
        return run

    def ends(self, run: Run, what: str) -> int:
        code = run.popen.wait(PATIENCE)
        self.log.append(f"{what}: {code} {run.errors.strip()[-LAST_WORDS:]}")
        assert code in CODES, self.log
        return code

    def check(self, *, now: bool = True) -> int:
        """Returns: how many nights have ended well."""
        expected = states(self.moments, self._target, self.deletes)
        check_seen(self.reader.seen, expected)
        if now:
            check_same(read_target(self._watcher, self.deletes), expected[-1])
        return len(expected) - 1

    # Kinds of nights

    def well(self) -> None:
        before = self.check()
        if self.ends(self.night(), "well") == 0:
            assert self.check() == before + 1

    def killed(self) -> None:
        run = self.night()
        time.sleep(self.chance.random() * 1.5)
        if self.chance.random() < 0.5:
            run.kill()
        else:
            run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
        self.log.append("killed")

    def worker_killed(self) -> None:
        run = self.night()
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and not run.has_ended():
            for pid in run.workers()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                deadline = 0
            time.sleep(0.02)
        self.ends(run, "worker killed")

    def killed_in_the_last_transaction(self) -> None:
        needle, direction = self.chance.choice(LAST)
        gate = Gate(self._proxies[1], needle, direction)  # type: ignore[arg-type]
        run = self.night()
        while not gate.wait(0.02) and not run.has_ended():
            pass
        run.signal_all(signal.SIGKILL)
        code = run.popen.wait(PATIENCE)
        gate.open()
        self.log.append(f"killed at {needle!r}: {code}")

    def resumed(self) -> None:
        run_id = f"r{self.chance.randrange(10**9)}"
        run = self.night("--run-id", run_id)
        time.sleep(0.5 + self.chance.random())
        run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
        again = Run("resume", run_id, "--source", self._urls[0], "--target", self._urls[1])
        self._stack.callback(again.close)
        code = again.popen.wait(PATIENCE)
        self.log.append(f"resumed: {code} {again.errors.strip()[-LAST_WORDS:]}")
        # 64: it was killed before the target knew of it.
        assert code in (*CODES, 64), self.log

    def twice_at_once(self) -> None:
        before = self.check()
        runs = [self.night(), self.night()]
        codes = [self.ends(run, "twice") for run in runs]
        done = self.check() - before
        assert done == codes.count(0)

    def stopped(self) -> None:
        """Its sessions end, as a pooler or a network ends them; another night ends; it is woken."""
        run = self.night()
        time.sleep(self.chance.random() * 1.2)
        run.signal_all(signal.SIGSTOP)
        for proxy in self._proxies:
            proxy.cut()
        let_it_work(self.source, 20)
        self.check()
        self.ends(self.night(), "while another is stopped")
        between = self.check()
        run.signal_all(signal.SIGCONT)
        code = self.ends(run, "woken")
        # One that was stopped after its last transaction had ended before.
        assert self.check() - between in ((0,) if code else (0, 1))

    def skipped(self) -> None:
        let_it_work(self.source, 60)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_month(source_server: Server, target_server: Server, seed: int) -> None:
    with (
        fresh_database(source_server) as source,
        fresh_database(target_server) as target,
        ExitStack() as stack,
    ):
        month = Month(source, target, seed, stack)
        month.reader.start()
        month.source.work()
        kinds = [
            month.well,
            month.killed,
            month.killed,
            month.worker_killed,
            month.killed_in_the_last_transaction,
            month.killed_in_the_last_transaction,
            month.resumed,
            month.twice_at_once,
            month.stopped,
            month.stopped,
            month.skipped,
        ]
        try:
            month.well()
            for _ in range(NIGHTS):
                let_it_work(month.source, 15)
                month.chance.choice(kinds)()
                month.check(now=False)
            month.well()
            month.source.end()
            # Nobody writes any more: the last night leaves what the source has.
            assert month.ends(month.night(), "last") == 0
            month.check()
        except AssertionError as error:
            error.add_note("\n".join(month.log))
            raise
        finally:
            month.source.stop()
            month.reader.end()
            print("\n".join(month.log))
