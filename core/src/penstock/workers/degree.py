"""The number of concurrent streams of a copy."""

from __future__ import annotations

from penstock.backends.shared.resources import cpus
from penstock.spec.degrees import AUTO, Streams

# The automatic maximum per CPU of this machine: streams mostly wait for servers.
MOST_PER_CPU = 4
# The servers may be much larger than this machine, or a container's share of it.
LEAST_MOST = 8
# With more, sessions only wait for each other.
MOST = 64


def stream_count(degree: int | str) -> int:
    """Return the number of streams for a `degree` on this machine; for `auto`, the initial one."""
    return streams_of(degree).usual


def streams_of(degree: int | str) -> Streams:
    """Return the streams for a `degree` on this machine."""
    return resolve_degree(degree, cpus())


def resolve_degree(degree: int | str, available: int) -> Streams:
    """Return streams for a `degree`: 0 is one per CPU, -n is CPUs divided by n, at least one."""
    if degree == AUTO:
        most = min(MOST, max(LEAST_MOST, MOST_PER_CPU * available))
        return Streams(available, max(available, most), automatic=True)
    number = int(degree)
    if number <= 0:
        number = max(1, available if number == 0 else available // -number)
    return Streams(number, number)
