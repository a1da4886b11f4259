"""What is measured of each setting, and what follows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from penstock.figures.run_report import TimeSpent, WaitShare
from penstock.model.codec import JsonForm, to_json
from penstock.tuning.settings import Setting

# Seconds. Servers are looked at about once in each, and buffers hold much of what is written.
SHORT = 5.0
# Below, a copy is mostly its begin and its end, and no chart of it shows anything.
TOO_SHORT = 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One copy of the sample."""

    setting: Setting
    seconds: float
    """From the first partition's begin to the end of the last step after the load."""
    steps: float
    """Of these, seconds of the steps after the load, such as indexes."""
    cpu: float
    """Seconds of CPU (user and system) of all of Penstock's processes."""
    rows: int
    bytes: int
    """As they went to the target."""
    spent: TimeSpent
    """Of all streams together."""
    waits: Mapping[str, tuple[WaitShare, ...]]
    """By side, what the sessions waited for."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All copies with one setting."""

    json_form = JsonForm(computed=("seconds", "cpu", "rows_a_second", "bytes_a_second"))

    setting: Setting
    copies: tuple[Measured, ...]

    @property
    def seconds(self) -> float:
        """The median."""
        return median(each.seconds for each in self.copies)

    @property
    def cpu(self) -> float:
        """The median."""
        return median(each.cpu for each in self.copies)

    @property
    def least(self) -> float:
        return min(each.seconds for each in self.copies)

    @property
    def most(self) -> float:
        return max(each.seconds for each in self.copies)

    @property
    def typical(self) -> Measured:
        """The copy whose time is nearest to the median."""
        return min(self.copies, key=lambda each: abs(each.seconds - self.seconds))

    @property
    def shows_sessions(self) -> bool:
        """Whether servers were looked at often enough to say what their sessions did."""
        return self.typical.seconds >= SHORT

    @property
    def rows_a_second(self) -> float:
        return self.typical.rows / max(self.seconds, 0.001)

    @property
    def bytes_a_second(self) -> float:
        return self.typical.bytes / max(self.seconds, 0.001)


def gathered(copies: Sequence[Measured]) -> tuple[Figures, ...]:
    """By setting, in the order in which each was tried first."""
    order = dict.fromkeys(each.setting for each in copies)
    return tuple(
        Figures(setting, tuple(each for each in copies if each.setting == setting))
        for setting in order
    )


@dataclass(frozen=True, slots=True)
class Recommendation:
    setting: Setting
    reason: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `tune` has found out."""

    source: str
    """What is read, for people."""
    table: str | None
    query: str | None
    target: str
    """What is written, for people."""
    target_table: str
    at: str
    """When it ended."""
    mode: str
    allow_ddl: bool
    """Whether the copy may alter the table, as it was asked for."""
    partitions: int
    """In the sample."""
    of_partitions: int
    sampled_bytes: int
    """Bytes of the source, by its own estimate."""
    of_bytes: int | None
    figures: tuple[Figures, ...]
    recommendation: Recommendation
    remarks: tuple[str, ...]
    """What to bear in mind."""

    def as_json(self) -> dict[str, object]:
        written: dict[str, object] = to_json(self)
        return written
