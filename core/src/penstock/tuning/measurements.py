"""Measurements of each setting, and the conclusions from them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from penstock.figures.run_report import TimeSpent, WaitShare
from penstock.model.codec import JsonForm, to_json
from penstock.tuning.settings import Setting

# Seconds. Servers are sampled about once a second, and buffers hold much of what is written.
SHORT = 5.0
# Below this, a copy is mostly startup and shutdown, and a chart of it shows nothing.
TOO_SHORT = 2.0
TOLERANCE = 0.05
"""The difference from the fastest time that is ignored, as a share of that time."""
# Seconds by which starting and ending a copy may vary by chance.
CHANCE = 0.3
# With more noise, measurements say little, and must not make all settings equal.
MOST_NOISE = 0.25


@dataclass(frozen=True, slots=True)
class Measurement:
    """One copy of the sample."""

    setting: Setting
    seconds: float
    """Seconds from the start of the first partition to the end of the last step after the load."""
    steps: float
    """The part of `seconds` spent in the steps after the load, such as indexes."""
    cpu: float
    """Seconds of CPU (user and system) of all Penstock processes."""
    rows: int
    bytes: int
    """Bytes sent to the target."""
    spent: TimeSpent
    """The time of all streams together."""
    waits: Mapping[str, tuple[WaitShare, ...]]
    """By side, the waits of the sessions."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All copies with one setting."""

    json_form = JsonForm(computed=("seconds", "cpu", "rows_a_second", "bytes_a_second"))

    setting: Setting
    copies: tuple[Measurement, ...]

    @property
    def seconds(self) -> float:
        """The median of the copies, in seconds."""
        return median(each.seconds for each in self.copies)

    @property
    def cpu(self) -> float:
        """The median of the copies, in seconds of CPU."""
        return median(each.cpu for each in self.copies)

    @property
    def least(self) -> float:
        """The seconds of the fastest copy."""
        return min(each.seconds for each in self.copies)

    @property
    def most(self) -> float:
        """The seconds of the slowest copy."""
        return max(each.seconds for each in self.copies)

    @property
    def typical(self) -> Measurement:
        """The copy whose time is nearest the median."""
        return min(self.copies, key=lambda each: abs(each.seconds - self.seconds))

    @property
    def shows_sessions(self) -> bool:
        """Whether the servers were sampled often enough to say what their sessions did."""
        return self.typical.seconds >= SHORT

    @property
    def rows_a_second(self) -> float:
        """The rows per second of the typical copy."""
        return self.typical.rows / max(self.seconds, 0.001)

    @property
    def bytes_a_second(self) -> float:
        """The bytes per second of the typical copy."""
        return self.typical.bytes / max(self.seconds, 0.001)


def group_by_setting(copies: Sequence[Measurement]) -> tuple[Figures, ...]:
    """Group the copies by setting, in the order in which each setting was first tried."""
    order = dict.fromkeys(each.setting for each in copies)
    return tuple(
        Figures(setting, tuple(each for each in copies if each.setting == setting))
        for setting in order
    )


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommended setting."""

    setting: Setting
    reason: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """The findings of `tune`."""

    source: str
    """A human-readable description of the source table."""
    table: str | None
    query: str | None
    target: str
    """A human-readable description of the target table."""
    target_table: str
    at: str
    """The time at which it ended."""
    mode: str
    partitions: int
    """The number of partitions in the sample."""
    of_partitions: int
    sampled_bytes: int
    """Bytes in the source, by its own estimate."""
    of_bytes: int | None
    figures: tuple[Figures, ...]
    recommendation: Recommendation
    remarks: tuple[str, ...]
    """Caveats, as sentences."""

    def as_json(self) -> dict[str, object]:
        """Return the output of ``penstock tune --json``."""
        content: dict[str, object] = to_json(self)
        return content


def recommend(figures: Sequence[Figures]) -> Recommendation:
    """Return the recommended setting, with the reasons.

    Args:
        figures: the measurements by setting; at least one.
    """
    fastest = min(figures, key=lambda each: each.seconds)
    noise = noise_of(figures)
    tolerance = max(TOLERANCE, noise, CHANCE / max(fastest.seconds, 0.001))
    near = [each for each in figures if each.seconds <= fastest.seconds * (1 + tolerance)]
    # Prefer fewer options: each has a price, in a crash or while the copy runs.
    best = min(near, key=lambda each: (len(each.setting.options), each.setting.degree))
    return Recommendation(best.setting, _reason(figures, fastest, best, noise))


def noise_of(figures: Sequence[Figures]) -> float:
    """Return how far the times of one setting are from their median, as a share of it.

    The result is 0 if each setting was tried once.
    """
    shares = [
        (each.most - each.least) / 2 / each.seconds
        for each in figures
        if len(each.copies) > 1 and each.seconds > 0
    ]
    return min(median(shares), MOST_NOISE) if shares else 0.0


def _reason(figures: Sequence[Figures], fastest: Figures, best: Figures, noise: float) -> str:
    rate = f"{best.bytes_a_second / 1e6:,.1f} MB/s"
    varies = f", and times vary by {noise:.0%}" if noise > TOLERANCE else ""
    if best is not fastest:
        more = best.seconds / max(fastest.seconds, 0.001) - 1
        return f"{rate}; {fastest.setting} is fastest, but only by {more:.0%}{varies}"
    alternatives = [each for each in figures if each is not best]
    if not alternatives:
        return f"{rate}; the only setting tried"
    second = min(alternatives, key=lambda each: each.seconds)
    more = second.seconds / max(best.seconds, 0.001) - 1
    return f"{rate}, the fastest; next: {second.setting}, {more:.0%} slower{varies}"
