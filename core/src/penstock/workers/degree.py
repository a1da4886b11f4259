"""How many streams a copy runs at once."""

from __future__ import annotations

import os


def available_cpus() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def stream_count(degree: int) -> int:
    """How many streams a `degree` means on this machine."""
    return resolve_degree(degree, available_cpus())


def resolve_degree(degree: int, cpus: int) -> int:
    """Streams for a `degree`: 0 is one per CPU, -n is CPUs divided by n, at least one."""
    if degree > 0:
        return degree
    return max(1, cpus if degree == 0 else cpus // -degree)
