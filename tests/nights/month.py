"""A month of nights: the events within a night, and between nights."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Self

from tests.cli import run_cli
from tests.faults.cli import PATIENCE, Run
from tests.faults.gate import Gate

import penstock
from penstock.events import Committed
from penstock_testkit import PgBouncer, TcpProxy

from .moments import Ledger, Moments, Reader, check_same, check_seen
from .source import Source, wait_for_commits
from .targets import PostgresTarget, Row, Target

LAST_WORDS = 4000
DELETES = ("hard", "soft", "ignore")
# The share of nights that are built beside the target and swapped in.
SWAPPED = 0.25
# Succeeded; rejected permanently, with nothing written; to be retried.
CODES = (0, 65, 75, 76)
# 64: killed before the target stored the run.
RESUMED = (*CODES, 64)
TRIES = 20


def is_even(row: Row) -> bool:
    return bool(row[1] % 2 == 0)


EVEN = "n % 2 = 0"


class Month:
    """A source, a target, and the nights between them.

    Args:
        poolers: the poolers of the source and of the target.
        unique: whether the target has a second unique column.
        stack: closes everything that the month opens.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        seed: int,
        poolers: Sequence[PgBouncer],
        stack: ExitStack,
        unique: bool,
    ) -> None:
        self.chance = random.Random(seed)
        self.source, self.target = source, target
        self.deletes = DELETES[seed % 3]
        self.unique = unique
        self.log: list[str] = []
        self._stack = stack
        self._serial = 0
        self._more = ""
        """The name of the column that comes and goes; empty if the source lacks it."""
        self.drifts = False
        """Whether columns change only in the source, and nights follow."""

        def ways(url: str, pooler: Sequence[PgBouncer]) -> list[tuple[TcpProxy, str]]:
            urls = [url, *(each.url_for(url) for each in pooler)]
            found = []
            for each in urls:
                proxy = stack.enter_context(TcpProxy.of(each))
                found.append((proxy, proxy.url(each)))
            return found

        self._from = ways(source.read_at, poolers[:1])
        self._into = ways(target.url, poolers[1:]) if target.shared else []
        self.moments = Moments(source.read_at, [proxy for proxy, _ in self._from])
        self.ledger = Ledger(self.moments, target, self.deletes)
        self.reader = Reader(target)
        self.runs: list[str] = []

    @classmethod
    @contextmanager
    def of(
        cls,
        url: str,
        target: Target,
        seed: int,
        poolers: Sequence[PgBouncer] = (),
        read_at: str = "",
    ) -> Iterator[Self]:
        """Yield a month with a source at the URL and a target, both with a table of items."""
        parted, deletes = bool(seed % 2), DELETES[seed % 3]
        hard = not parted and deletes == "hard"
        swaps = hard and seed // 6 % 2 == 1
        source = Source(
            url, seed, parted=parted, moves_keys=parted or hard, swaps=swaps, read_at=read_at
        )
        source.make()
        unique = not parted and (target.swaps or not swaps)
        target.make(unique=unique, swaps=swaps)
        with ExitStack() as stack:
            yield cls(source, target, seed, poolers, stack, unique)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run the writers and a reader."""
        if self.target.shared:
            self.reader.start()
        self.source.work()
        try:
            yield
        except AssertionError as error:
            error.add_note("\n".join(self.log))
            raise
        finally:
            self.source.stop()
            self.reader.end()
            print("\n".join(self.log))

    def night(self, *words: str) -> Run:
        """Start a night, directly or through a pooler."""
        self._serial += 1
        run_id = f"n{self._serial}"
        self.runs.append(run_id)
        if EVEN in words:
            self.ledger.conditions[run_id] = is_even
        elif self._may_swap and self.chance.random() < SWAPPED:
            words = (*words, "--atomic-limit", "1")
        return self._started("copy", *self._ends(), "--run-id", run_id, *self._options(), *words)

    @property
    def _may_swap(self) -> bool:
        """Whether a night may be built beside the target and swapped in."""
        return self.deletes == "hard" and isinstance(self.target, PostgresTarget)

    def _options(self) -> tuple[str, ...]:
        deletes = "ignore" if self.deletes == "ignore" else f"{self.deletes},100%"
        return (
            *("--table", "public.items", "--target-table", self.target.table),
            *("--mode", "upsert", "--incremental", "xmin", "--deletes", deletes),
            *("--degree", "2", "--partitions", "3"),
            # A table that was recreated may have a narrower type than the source has later.
            *("--on-drift", "add,widen,rename" if self.drifts else "ignore"),
        )

    def _ends(self) -> tuple[str, ...]:
        source = self.chance.choice(self._from)[1]
        target = self.chance.choice(self._into)[1] if self._into else self.target.url
        return "--source", source, "--target", target

    def _started(self, *words: str) -> Run:
        run = Run(*words)
        self._stack.callback(run.close)
        return run

    def ends(self, run: Run, what: str, codes: Sequence[int] = CODES) -> int:
        code = run.popen.wait(PATIENCE)
        self.log.append(f"{what}: {code} {run.errors.strip()[-LAST_WORDS:]}")
        assert code in codes, self.log
        return code

    def done(self, what: str, *words: str) -> None:
        """Run a night until it succeeds, however often other nights interfere."""
        before = self.check(now=False)
        for _ in range(TRIES):
            if self.ends(self.night(*words), what) == 0:
                break
            wait_for_commits(self.source, 5)
        assert self.check() == before + 1

    def check(self, *, now: bool = True) -> int:
        """Check the states so far.

        Returns:
            The number of nights that succeeded.
        """
        if not self.target.shared:
            self.reader.look()
        expected = self.ledger.states()
        check_seen(self.reader.states, expected)
        if now:
            check_same(self.target.state(), expected[-1])
        return self.ledger.nights()

    @contextmanager
    def by_hand(self, what: str) -> Iterator[None]:
        """Write to the target by means other than a night."""
        with self.reader.looking_away():
            yield
            self.ledger.note(self.target.state())
        self.log.append(what)

    # Events within a night

    def kinds(self) -> list[Callable[[], None]]:
        any_target: list[Callable[[], None]] = [
            *(self.succeeding, self.killed, self.killed_as_it_merges, self.worker_killed),
            *(self.resumed, self.twice_at_once, self.skipped, self.in_tasks, self.cleared),
            *(self.reset, self.set_back, self.reading_all, self.accepting),
            *(self.edited, self.emptied, self.truncated),
        ]
        if not self.unique:  # includes rows that do not change
            any_target += [self.selecting]
        if self.deletes != "soft":
            any_target += [self.recreated]
        if isinstance(self.target, PostgresTarget) and self.source.url == self.source.read_at:
            any_target += [] if self.drifts else [self.altered] * 2
        if self.drifts:
            any_target += [self.drifted] * 15
        if not self.target.shared:
            return any_target
        return [
            *any_target,
            *[self.killed_in_the_last_transaction] * 2,
            *[self.stopped] * 2,
        ]

    def succeeding(self) -> None:
        before = self.check()
        if self.ends(self.night(), "well") == 0:
            assert self.check() == before + 1
            self._check_more()

    def skipped(self) -> None:
        wait_for_commits(self.source, 60)

    def killed(self) -> None:
        run = self.night()
        time.sleep(self.chance.random() * 1.5)
        if self.chance.random() < 0.5:
            run.kill()
        else:
            run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
        run.close()
        self.log.append("killed")

    def killed_as_it_merges(self) -> None:
        """Kill a night at some moment after its last partition was committed."""
        run = self.night()
        while len(run.of(Committed)) < 3 and not run.has_ended():
            time.sleep(0.005)
        time.sleep(self.chance.random() * 0.4)
        run.signal_all(signal.SIGKILL)
        self.log.append(f"killed as it merges: {run.popen.wait(PATIENCE)}")

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
        needle, direction = self.chance.choice(self.target.last)
        gates = [Gate(proxy, needle, direction) for proxy, _ in self._into]
        run = self.night()
        while not any(gate.wait(0.01) for gate in gates) and not run.has_ended():
            pass
        run.signal_all(signal.SIGKILL)
        code = run.popen.wait(PATIENCE)
        for gate in gates:
            gate.open()
        self.log.append(f"killed at {needle!r}: {code}")

    def resumed(self) -> None:
        run = self.night()
        time.sleep(0.5 + self.chance.random())
        run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
        self._resume(self.runs[-1], "resumed")

    def _resume(self, run_id: str, what: str, *words: str) -> int:
        run = self._started("resume", run_id, *self._ends(), *words)
        code = self.ends(run, f"{what} {run_id}", RESUMED)
        if run_id in self.ledger.inexact:
            self.ledger.note(self.target.state())
        return code

    def cleared(self) -> None:
        """Resume the run of an earlier night, whatever has happened to it since."""
        before = self.check()
        run_id = self.chance.choice(self.runs[-6:])
        how = self.chance.choice([(), ("--on-snapshot-lost", "restart")])
        self._resume(run_id, "cleared", *how)
        assert self.check() - before in (0, 1)

    def in_tasks(self) -> None:
        """Run a night like an orchestrator, which may clear a partition that is already copied."""
        self._serial += 1
        run_id = f"n{self._serial}"
        self.runs.append(run_id)
        before = self.check()
        created = run_cli("create", *self._ends(), "--run-id", run_id, *self._options())
        self.log.append(f"created {run_id}: {created.returncode} {created.stderr[-LAST_WORDS:]}")
        assert created.returncode in CODES
        if created.returncode != 0:
            return
        holder = self._started("hold", run_id, *self._ends())
        try:
            for partition in ("p0001", "p0002", "p0003"):
                words = ("--only", partition, "--await-snapshot", "5s")
                self._resume(run_id, partition, *words)
                if self.chance.random() < 0.3:
                    self._resume(run_id, f"again {partition}", *words, "--recopy")
                if self.chance.random() < 0.1:
                    self.ledger.inexact.add(run_id)
                    later = ("--only", partition, "--recopy", "--as-of-now")
                    self._resume(run_id, f"later {partition}", *later)
                if self.chance.random() < 0.2:
                    holder.signal_all(signal.SIGKILL)
            self._resume(run_id, "the rest of")
        finally:
            holder.close()
        assert self.check() - before in (0, 1)
        if run_id in self.ledger.inexact:
            self.done("after some rows were read later")

    def accepting(self) -> None:
        """Lose the snapshot and read the rest later; the next night compensates."""
        run = self.night("--on-snapshot-lost", "accept")
        self.ledger.inexact.add(self.runs[-1])
        while not run.of(Committed) and not run.has_ended():
            time.sleep(0.005)
        for proxy, _ in self._from:
            proxy.cut()
        self.ends(run, "accepting")
        self.ledger.note(self.target.state())
        self.done("after the rest was read later")

    def twice_at_once(self) -> None:
        before = self.check()
        runs = [self.night(), self.night()]
        codes = [self.ends(run, "twice") for run in runs]
        assert self.check() - before == codes.count(0)

    def stopped(self) -> None:
        """Stop a night, cut its sessions, run another night, and wake the first."""
        run = self.night()
        time.sleep(self.chance.random() * 1.2)
        run.signal_all(signal.SIGSTOP)
        for proxy, _ in (*self._from, *self._into):
            proxy.cut()
        wait_for_commits(self.source, 20)
        self.check()
        self.ends(self.night(), "while another is stopped")
        between = self.check()
        run.signal_all(signal.SIGCONT)
        code = self.ends(run, "woken")
        # If it was stopped after the end of its last transaction, it had succeeded.
        assert self.check() - between in ((0,) if code else (0, 1))

    # Actions of users

    def _watermark(self) -> str:
        return penstock.watermarks(target=self.target.url)[0].name

    def reset(self) -> None:
        if not self.ledger.nights():
            return self.succeeding()
        penstock.reset_watermark(self._watermark(), target=self.target.url)
        self.log.append("reset")
        return self.succeeding()

    def set_back(self) -> None:
        if not self.ledger.nights():
            return self.succeeding()
        name = self._watermark()
        history = penstock.watermark_history(name, target=self.target.url)
        epoch = self.chance.choice([mark.epoch for mark in history])
        penstock.set_watermark(name, epoch=epoch, target=self.target.url)
        self.log.append(f"set to {epoch}")
        return self.succeeding()

    def selecting(self) -> None:
        """Run some nights with a condition."""
        for _ in range(self.chance.randint(1, 3)):
            before = self.check()
            if self.ends(self.night("--where", EVEN), "even") == 0:
                assert self.check() == before + 1
            wait_for_commits(self.source, 10)

    def reading_all(self) -> None:
        before = self.check()
        if self.ends(self.night("--full-every", "1s"), "all") == 0:
            assert self.check() == before + 1

    def edited(self) -> None:
        """Change values in the target; only a night that reads all rows repairs them."""
        with self.by_hand("edited"):
            self.target.run("UPDATE items SET n = -1, email = NULL WHERE id % 5 = 0")
        time.sleep(1.1)
        self.done("all, after an edit", "--full-every", "1s")

    def emptied(self) -> None:
        """Delete rows from the target; the next night notices by the number of rows."""
        with self.by_hand("emptied"):
            self.target.run("DELETE FROM items WHERE id % 11 < 5")
        if self.chance.random() < 0.5:
            before = self.check()
            run = self.night("--on-target-changed", "fail")
            assert self.ends(run, "refused") != 0 or self.check() == before + 1
        self.done("after rows were deleted", "--on-target-changed", "full")

    def truncated(self) -> None:
        self._loaded("truncate")

    def recreated(self) -> None:
        self._loaded("recreate")

    def _loaded(self, mode: str) -> None:
        """Load the target by other means; readers see the rows, and the load may fail."""
        with self.by_hand(mode):
            run = self._started(
                *("copy", *self._ends(), "--table", "public.items", "--mode", mode),
                *("--target-table", self.target.table, "--partitions", "3"),
            )
            self.ends(run, mode)
        self.done(f"after {mode}")

    def altered(self) -> None:
        """Add, change or drop a column on both sides."""
        if not self._more:
            default = self.chance.randrange(100)
            change = f"ADD more int DEFAULT {default}"
            self.target.run("ALTER TABLE items ADD more int")
        else:
            change = self.chance.choice(["ALTER more TYPE bigint", "DROP more"])
            self.target.run(f"ALTER TABLE items {change}")
        self.source.alter(change)
        self._more = "" if change.startswith("DROP") else "more"
        if self._more:
            self.source.alter_rows("UPDATE items SET more = id WHERE id % 3 = 0")
        self.log.append(change)
        self.done("after it")
        self._check_more()

    def drifted(self) -> None:
        """Add, change, rename or drop a column in the source alone.

        The night that follows may first be killed.
        """
        if not self._more:
            self._more = self.chance.choice(["more", "extra"])
            change = f"ADD {self._more} int DEFAULT {self.chance.randrange(100)}"
        else:
            other = {"more": "extra", "extra": "more"}[self._more]
            change = self.chance.choice(
                [
                    f"ALTER {self._more} TYPE bigint",
                    f"RENAME {self._more} TO {other}",
                    f"RENAME {self._more} TO {other}",
                    f"DROP {self._more}",
                ]
            )
            if change.startswith("RENAME"):
                self._more = other
            if change.startswith("DROP"):
                self._more = ""
        self.source.alter(change)
        self.log.append(change)
        if self._more:
            self.source.alter_rows(f"UPDATE items SET {self._more} = id WHERE id % 3 = 0")
        if self.chance.random() < 0.5:
            self.killed_as_it_merges()
        elif self.target.shared and self.chance.random() < 0.5:
            self.killed_in_the_last_transaction()
        self.done("after it")
        self._check_more()

    def _check_more(self) -> None:
        """Check the values of the column that comes and goes, in the rows that the source has."""
        if self._more:
            with closing(self.target.open()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute(f"SELECT id, {self._more} FROM items")
                found = {
                    int(key): None if value is None else str(value)
                    for key, value in cursor.fetchall()
                }
            expected = {key: row[-1] for key, row in self.ledger.last().items()}
            assert {key: found[key] for key in expected} == expected
