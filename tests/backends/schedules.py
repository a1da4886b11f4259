"""Threads that take turns: before each call that touches files, a seeded generator picks the next
one.

Each thread stands for a process that works on one local dataset. It pauses before every such call
until its next turn, like a slow or suspended process, or is killed there. Everything that happens
follows from the seed alone, so that a schedule can be repeated.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import random
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar

import pytest

from penstock.backends.duckdb import database as duck_database
from penstock.backends.parquet.storage import documents, local_uploads
from penstock.backends.roll_forward import records, writer
from penstock.backends.shared.attempts import attempt_files, locked_files, older_attempts
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.one_file import writer as file_writer
from penstock.errors import PenstockError, PermanentError
from penstock.workers.stream import Waiter

ATTEMPTS = 4
CALLS = ("link", "listdir", "mkdir", "rename", "rmdir", "scandir", "unlink")
# An execution of a run of two partitions makes about 90 such calls; one that is copied already, 60.
LAST_MOMENT = 90
MOST_TURNS = 60_000


class Killed(BaseException):
    """Raised in a killed process, which cleans nothing up: every later call raises it again."""


class Actor(threading.Thread):
    """A thread that stands for a process.

    Args:
        dies_before: number of the call before which it is killed; 0 for never.
    """

    def __init__(
        self, schedule: Schedule, name: str, call: Callable[[], object], dies_before: int
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._schedule = schedule
        self._call = call
        self._left = dies_before
        self._turn = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self.killed = False
        self.ended = False
        self.descriptors: set[int] = set()
        """Its open files."""
        self.result: object = None
        """The value that its call returned, or the exception it raised."""

    def run(self) -> None:
        self._turn.acquire()
        try:
            self.result = self._call()
        except BaseException as error:
            self.result = error
        for descriptor in list(self.descriptors):  # as the kernel does when a process ends
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
        self.ended = True
        self._back.release()

    def go_on(self) -> None:
        """Let it run to its next call that touches files, or to its end."""
        self._turn.release()
        self._back.acquire()

    def pause(self, call: str) -> None:
        """Pause before a call that touches files, on the actor's own thread."""
        if not self.killed:
            self._schedule.trace.append(f"{self.name}: {call}")
            self._back.release()
            self._turn.acquire()
            self._left -= 1
            if self._left == 0:
                self.killed = True
        if self.killed:
            raise Killed

    def kill(self) -> None:
        self.killed = True
        while not self.ended:
            self.go_on()


class Schedule:
    """A sequence of turns that follows from a seed.

    Args:
        root: prefix that is removed from paths in the trace.
    """

    def __init__(self, seed: int, root: str) -> None:
        self.random = random.Random(seed)
        self.actors: list[Actor] = []
        self.trace: list[str] = []
        """The calls in the order of the actors' turns, each with its actor's name."""
        self._root = root + "/"
        self._stays = self.random.choice([0.0, 0.5, 0.9, 0.97])
        self._deadly = self.random.choice([0.0, 0.0, 0.3, 0.6])

    def add(self, name: str, call: Callable[[], object]) -> None:
        dies = self.random.random() < self._deadly
        moment = self.random.randint(1, LAST_MOMENT) if dies else 0
        self.actors.append(Actor(self, name, call, moment))

    def run(self) -> None:
        """Run until all actors have ended.

        Raises:
            AssertionError: the actors block each other.
        """
        for actor in self.actors:
            actor.start()
        try:
            for actor in self._turns():
                actor.go_on()
        finally:
            for actor in self.actors:
                actor.kill()
                actor.join()

    def _turns(self) -> Iterator[Actor]:
        suspended_until = dict.fromkeys(self.actors, 0)
        current = None
        for turn in range(MOST_TURNS):
            unfinished = [actor for actor in self.actors if not actor.ended]
            if not unfinished:
                return
            awake = [actor for actor in unfinished if suspended_until[actor] <= turn] or unfinished
            if current not in awake or self.random.random() > self._stays:
                if current in awake and self.random.random() < 0.4:
                    suspended_until[current] = turn + self.random.choice([20, 100, 400, 2000])
                current = self.random.choice(awake)
            yield current
        raise AssertionError(f"actors that do not end in {MOST_TURNS:,} turns")

    # Replacements in the actors' modules

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pause actors where they touch files, and make time, randomness and threads
        deterministic."""
        for name in CALLS:
            monkeypatch.setattr(os, name, self._stopping(name, getattr(os, name)))
        for module in (documents, local_uploads):
            monkeypatch.setattr(module, "open", self._stopping("open", open), raising=False)
        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: self._stop("sleep"))
        monkeypatch.setattr(documents, "time", clock)
        monkeypatch.setattr(os, "fsync", _ticking())
        monkeypatch.setattr(os, "urandom", self.random.randbytes)
        monkeypatch.setattr(secrets, "token_bytes", self.random.randbytes)
        monkeypatch.setattr(Waiter, "answering", lambda *_: contextlib.nullcontext())
        for module in (documents, records):
            monkeypatch.setattr(module, "ThreadPoolExecutor", _OneByOne)
        monkeypatch.setattr(writer, "threading", SimpleNamespace(Thread=_AtOnce))

    def patch_database(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pause actors where they wait for a database file, open it or change a table."""
        clock = _Clock(self._stop)
        for module in (attempt_files, duck_database, locked_files, older_attempts):
            monkeypatch.setattr(module, "time", clock)
        for name in ("listdir", "mkdir", "rmdir", "unlink"):
            monkeypatch.setattr(os, name, self._stopping(name, getattr(os, name)))
        monkeypatch.setattr(os, "open", self._opening(os.open))
        monkeypatch.setattr(os, "close", _closing(os.close))
        monkeypatch.setattr(os, "urandom", self.random.randbytes)
        monkeypatch.setattr(secrets, "token_bytes", self.random.randbytes)
        for name in ("begin", "end"):
            real = getattr(LoadedTable, name)
            monkeypatch.setattr(LoadedTable, name, self._around(name, real))
        monkeypatch.setattr(Waiter, "answering", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(file_writer, "compute", lambda call, *_: call())

    def _opening(self, real: Callable[..., int]) -> Callable[..., int]:
        def opening(*args: Any, **kwargs: Any) -> int:
            self._stop(f"open {str(args[0]).removeprefix(self._root)}")
            found = real(*args, **kwargs)
            actor = threading.current_thread()
            if isinstance(actor, Actor):
                actor.descriptors.add(found)
            return found

        return opening

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def stopping(*args: Any) -> None:
            self._stop(f"before {name}")
            real(*args)
            self._stop(f"after {name}")

        return stopping

    def _stop(self, call: str) -> None:
        actor = threading.current_thread()
        if isinstance(actor, Actor):
            actor.pause(call)

    def _stopping(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def stopping(*args: Any, **kwargs: Any) -> Any:
            # No other process reads a draft before it is linked or renamed.
            if name == "link" or not str(args[0]).endswith(".draft"):
                paths = (str(each).removeprefix(self._root) for each in args)
                self._stop(" ".join([name, *paths]))
            found = real(*args, **kwargs)
            # File systems list entries in an order of their own.
            if name == "listdir":
                return sorted(found)
            if name == "scandir" and isinstance(threading.current_thread(), Actor):
                with found:
                    return sorted(found, key=lambda entry: str(entry.name))
            return found

        return stopping


class Load(Protocol):
    """A run, and how it is executed."""

    mode: str

    @property
    def id(self) -> str: ...

    def execute(self) -> str:
        """Execute the run, and return its status."""
        ...


L = TypeVar("L", bound=Load)


class Trial(Generic[L]):
    """One seed of one scenario."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.chance = schedule.random
        self.loads: list[L] = []
        self.ended: dict[str, str | PermanentError] = {}
        """The end of each run after it was resumed without interference."""

    def perform(self) -> None:
        """Run all actors to their ends."""
        self.schedule.run()
        for actor in self.schedule.actors:
            if isinstance(actor.result, BaseException):
                assert isinstance(actor.result, PenstockError | Killed), repr(actor.result)

    def resume_all(self) -> None:
        """Resume every run, in any order, without interference."""
        for load in self.chance.sample(self.loads, len(self.loads)):
            self.ended[load.id] = resumed(load)

    def story(self) -> str:
        runs = [f"run {load.id} ({load.mode})" for load in self.loads]
        actors = [f"{actor.name}: {actor.result!r}" for actor in self.schedule.actors]
        ended = [f"{run_id}, resumed: {end}" for run_id, end in self.ended.items()]
        return "\n".join([*runs, *actors, *ended, "", "...", *self.schedule.trace[-100:]])


T = TypeVar("T", bound=Trial[Any])


def seeds(few: str) -> range:
    """Return the seeds to try.

    Args:
        few: the range to use if PENSTOCK_SCHEDULES is not set.
    """
    return range(*(int(bound) for bound in os.environ.get("PENSTOCK_SCHEDULES", few).split(":")))


def tried(
    scenario: Callable[[T], None],
    seed: int,
    root: Path,
    trial: Callable[[pytest.MonkeyPatch, Schedule], T],
) -> list[str]:
    """Try one seed of a scenario.

    Args:
        root: the trial's own folder, which is removed at the end.
        trial: creates the trial.

    Returns:
        The trace.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        schedule = Schedule(seed, str(root))
        new_trial = trial(monkeypatch, schedule)
        try:
            scenario(new_trial)
        except Exception as error:
            name = scenario.__name__
            raise AssertionError(f"{name}, seed {seed}: {error}\n{new_trial.story()}") from error
    shutil.rmtree(root)
    return schedule.trace


def resumed(load: Load) -> str | PermanentError:
    """Return how a run ends without interference."""
    for _ in range(ATTEMPTS):
        try:
            if load.execute() == "done":
                return "done"
        except PermanentError as error:
            return error
    return "does not end"


def again_and_again(call: Callable[[], object]) -> None:
    """Retry transient errors, as the supervisor does."""
    for remaining in reversed(range(ATTEMPTS)):
        try:
            call()
            return
        except PenstockError as error:
            if not error.transient or not remaining:
                raise


def _closing(real: Callable[[int], None]) -> Callable[[int], None]:
    def closing(descriptor: int) -> None:
        actor = threading.current_thread()
        if isinstance(actor, Actor):
            actor.descriptors.discard(descriptor)
        real(descriptor)

    return closing


class _Clock:
    """A clock that advances only while an actor waits."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._now = 0.0
        self._stop = stop

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        self._stop("sleep")


def _ticking() -> Callable[[int], None]:
    """Replace sync, which is slow: give each written file a distinct time, so that its stamp
    differs from the previous one."""
    ticks = itertools.count(1)

    def tick(descriptor: int) -> None:
        now = next(ticks) * 1_000_000
        os.utime(descriptor, ns=(now, now))

    return tick


class _OneByOne(contextlib.nullcontext[Any]):
    """A thread pool that runs calls at once."""

    def __init__(self, threads: int) -> None:
        super().__init__(self)

    def map(self, call: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
        return list(map(call, *args))


class _AtOnce:
    """A thread that runs its target at once."""

    def __init__(self, target: Callable[[], None], daemon: bool) -> None:
        self.start = target

    def join(self, timeout: float) -> None:
        """Return, because the call has ended."""
