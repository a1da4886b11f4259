"""The number of concurrent streams of a copy."""

from __future__ import annotations

import os

from penstock.spec.degrees import AUTO, Streams

# The automatic maximum per CPU of this machine: streams mostly wait for servers.
MOST_PER_CPU = 4
# The servers may be much larger than this machine, or a container's share of it.
LEAST_MOST = 8
# With more, sessions only wait for each other.
MOST = 64


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def stream_count(degree: int | str) -> int:
    """Return the number of streams for a `degree` on this machine; for `auto`, the initial one."""
    return streams_of(degree).usual


def streams_of(degree: int | str) -> Streams:
    """Return the streams for a `degree` on this machine."""
    return resolve_degree(degree, available_cpus())


def resolve_degree(degree: int | str, cpus: int) -> Streams:
    """Return streams for a `degree`: 0 is one per CPU, -n is CPUs divided by n, at least one."""
    if degree == AUTO:
        most = min(MOST, max(LEAST_MOST, MOST_PER_CPU * cpus))
        return Streams(cpus, max(cpus, most), automatic=True)
    number = int(degree)
    if number <= 0:
        number = max(1, cpus if number == 0 else cpus // -number)
    return Streams(number, number)
