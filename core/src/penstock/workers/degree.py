"""How many streams a copy runs at once."""

from __future__ import annotations

import os

from penstock.spec.degrees import AUTO, Streams

# Streams for each CPU here, automatically, at most: they wait for servers most of the time.
MOST_PER_CPU = 4
# The servers may be much larger than this machine, or than a container's share of it.
LEAST_MOST = 8
# Beyond this, sessions only wait for each other.
MOST = 64


def available_cpus() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def stream_count(degree: int | str) -> int:
    """How many streams a `degree` means on this machine; of `auto`, to begin with."""
    return streams_of(degree).usual


def streams_of(degree: int | str) -> Streams:
    """What a `degree` means on this machine."""
    return resolve_degree(degree, available_cpus())


def resolve_degree(degree: int | str, cpus: int) -> Streams:
    """Streams for a `degree`: 0 is one per CPU, -n is CPUs divided by n, at least one."""
    if degree == AUTO:
        most = min(MOST, max(LEAST_MOST, MOST_PER_CPU * cpus))
        return Streams(cpus, max(cpus, most), automatic=True)
    number = int(degree)
    if number <= 0:
        number = max(1, cpus if number == 0 else cpus // -number)
    return Streams(number, number)
