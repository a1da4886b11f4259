"""The CPUs, memory and tasks that this process may use, within its container's limits.

A container's limits are those of its control group (cgroup), and of every group above it; the
tightest counts. Both versions are read, as Linux lays them out:
https://docs.kernel.org/admin-guide/cgroup-v2.html and
https://docs.kernel.org/admin-guide/cgroup-v1/index.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from penstock.errors import UsageError
from penstock.spec.units import parse_size

VARIABLE = "PENSTOCK_MAX_MEMORY"
"""The most memory of all processes of a command together, as ``--max-memory`` sets it."""
FLAG = "--max-memory"
# The share of a container's memory that streams may plan with: pages of files, and other programs,
# take some, and at the limit the kernel kills.
CONTAINER_SHARE = 0.8
# What the process that starts workers takes (32 MB measured), and what the supervisor grows by.
OTHERS = 64 << 20
# Tasks (threads) of a worker, and of all other processes (14 and 23 measured).
TASKS, OTHER_TASKS = 16, 32
# The least memory for which a worker's buffers can be cut.
LEAST_BUFFER = 48 << 20
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a container; None where it has none."""

    cpus: int | None = None
    memory: int | None = None
    """In bytes."""
    tasks: int | None = None
    """Processes and threads."""


def read_limits(root: Path = Path("/")) -> Limits:
    """Return the limits of this process's control groups.

    Args:
        root: the folder that has ``proc`` and ``sys``.
    """
    cpus: list[float] = []
    memory: list[int] = []
    tasks: list[int] = []
    for folder in _folders(root):
        cpus.extend(_cpus(folder))
        memory.extend(_numbers(folder, "memory.max", "memory.limit_in_bytes"))
        tasks.extend(_numbers(folder, "pids.max"))
    return Limits(
        max(1, -int(-min(cpus) // 1)) if cpus else None,
        min(memory, default=None),
        min(tasks, default=None),
    )


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folder of each of this process's control groups, and of those above it."""
    with suppress(OSError):
        groups = _groups(root)
        for line in (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            fields, _, rest = line.partition(" - ")
            _, _, _, top, mount, *_ = map(_unescaped, fields.split(" "))
            kind, _, options = rest.split(" ", 2)
            names = {""} if kind == "cgroup2" else set(options.split(","))
            if kind not in ("cgroup", "cgroup2"):
                continue
            for path in {groups[name] for name in names & groups.keys()}:
                try:
                    inside = path.relative_to(top)
                except ValueError:  # the mount shows a part of the tree that we are not in
                    inside = PurePosixPath()
                if ".." in inside.parts:
                    inside = PurePosixPath()
                folder = root / mount.lstrip("/")
                yield folder
                for part in inside.parts:
                    folder /= part
                    yield folder


def _groups(root: Path) -> dict[str, PurePosixPath]:
    """Return the paths of this process's groups by controller; the one of version 2 by ``""``."""
    groups: dict[str, PurePosixPath] = {}
    for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        groups |= dict.fromkeys(names.split(","), PurePosixPath(path))
    return groups


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _words(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(encoding="ascii").split()
    return []


def _numbers(folder: Path, *names: str) -> Iterator[int]:
    for name in names:
        # "max" is no limit.
        if (words := _words(folder / name)) and words[0].isdecimal():
            yield int(words[0])


def _cpus(folder: Path) -> Iterator[float]:
    quota = _words(folder / "cpu.max") or [
        *_words(folder / "cpu.cfs_quota_us"),
        *_words(folder / "cpu.cfs_period_us"),
    ]
    # "max" and -1 are no limit.
    if len(quota) == 2 and all(word.isdecimal() for word in quota):
        yield int(quota[0]) / int(quota[1])


@cache
def limits() -> Limits:
    """Return the limits of this process's container, as they were when first asked for."""
    return read_limits()


def cpus() -> int:
    """Return the number of CPUs that this process may use; part of one counts as one."""
    affinity = getattr(os, "sched_getaffinity", None)
    available = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(available, limits().cpus or available)


def memory() -> int:
    """Return the bytes of memory of this machine, or of this process's container."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(installed, limits().memory or installed)


def max_memory() -> int | None:
    """Return the most bytes of memory of all processes together; None without ``--max-memory``.

    Raises:
        UsageError: the environment variable holds something else.
    """
    text = os.environ.get(VARIABLE)
    return parse_size(text, f"{FLAG} ({VARIABLE})") if text else None


@dataclass(frozen=True, slots=True)
class Room:
    """The workers that there is room for."""

    workers: int
    why: str
    """What limits them."""
    memory: int | None
    """The most bytes for each; None if nothing but its own needs limits a worker."""


def room(wanted: int, need: int, *, automatic: bool) -> Room:
    """Return how many workers there is room for.

    ``--max-memory`` bounds any number. A container's limits bound an automatic one; who names a
    number may know that the streams need less.

    Args:
        wanted: the number of workers to begin with, and the most of the result.
        need: what a worker takes, in bytes.
        automatic: whether Penstock chose the number.

    Raises:
        UsageError: ``--max-memory`` has no room for one worker.
    """
    most, own = max_memory(), _own_memory()
    if most is not None:
        workers = (most - own - OTHERS) // need
        if workers < 1:
            least = own + OTHERS + need
            raise UsageError(
                f"{FLAG}: expected at least {-(-least // MB):,} MB for one stream of this copy, "
                f"found {most // MB:,} MB"
            )
        workers = min(wanted, workers)
        return Room(workers, f"{FLAG} {most // MB:,} MB", (most - own - OTHERS) // workers)
    if not automatic:
        return Room(wanted, "", None)
    found = limits()
    bounds = {wanted: ""}
    if found.tasks is not None:
        why = f"the container may have {found.tasks:,} processes and threads"
        bounds[max(1, (found.tasks - OTHER_TASKS) // TASKS)] = why
    if found.memory is not None:
        fit = int(found.memory * CONTAINER_SHARE - own - OTHERS) // need
        bounds[max(1, fit)] = f"the container has {found.memory // MB:,} MB of memory"
    workers = min(bounds)
    return Room(workers, bounds[workers], None)


def _own_memory() -> int:
    """Return the bytes of memory that this process takes now; 0 if the system does not say."""
    words = _words(Path("/proc/self/statm"))
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


class _Share:
    bytes: int | None = None


_share = _Share()


def set_share(most: int | None) -> None:
    """Set the bytes of memory that this process, a worker, may take; None for no limit."""
    _share.bytes = most


def share() -> int | None:
    """Return the bytes of memory that this worker may take; None for no limit."""
    return _share.bytes


def buffer(usual: int, rest: int) -> int:
    """Return the bytes that a worker may use for a library's buffers.

    Args:
        usual: what they take without a limit.
        rest: what the worker takes besides.
    """
    most = share()
    return usual if most is None else max(LEAST_BUFFER, min(usual, most - rest))
