"""What a sweep tries: combinations of options, and a sample of the partitions to copy with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from penstock.errors import UsageError
from penstock.model.plans import Partition, PartitionPlan
from penstock.planning.choice import SMALLEST_PARTITION_BYTES
from penstock.spec.copy_spec import CopySpec

DEGREES = (1, 2, 4, 8)
MOST = 64
"""The maximum number of streams: with more, sessions only wait for each other."""
UNLOGGED, DEFERRED = "unlogged", "deferred"
OPTIONS = (UNLOGGED, DEFERRED)


@dataclass(frozen=True, slots=True)
class Setting:
    """A degree and options to try."""

    degree: int
    options: tuple[str, ...] = ()
    """The options from `OPTIONS` that are tried, in addition to those of the copy itself."""

    @property
    def variant(self) -> str:
        """The setting's options, as tables show them."""
        return ", ".join(self.options) or "as requested"

    def __str__(self) -> str:
        return ", ".join((f"degree {self.degree}", *self.options))

    @property
    def load(self) -> Mapping[str, Any]:
        """The options, as fields of a `CopySpec`."""
        options: dict[str, Any] = {}
        if UNLOGGED in self.options:
            options["unlogged"] = True
        if DEFERRED in self.options:
            options["indexes"] = "defer"
        return options

    def of(self, spec: CopySpec) -> CopySpec:
        """Return the copy with this setting; it may alter its table, a scratch table."""
        return replace(spec, degree=self.degree, **self.load)


def settings(degrees: Sequence[int], options: Collection[str]) -> tuple[Setting, ...]:
    """Return each degree: without options, with each option, and with all options at once.

    Raises:
        UsageError: a degree or an option is invalid, or appears twice.
    """
    for degree in degrees:
        if not 1 <= degree <= MOST:
            raise UsageError(f"--degrees: expected numbers from 1 to {MOST}, found {degree}")
    if not degrees or len(set(degrees)) < len(degrees):
        raise UsageError(f"--degrees: expected each number once, found {_value_list(degrees)}")
    unknown = [option for option in options if option not in OPTIONS]
    if unknown or len(set(options)) < len(options):
        raise UsageError(
            f"--with: expected some of {', '.join(OPTIONS)}, each once; found "
            f"{_value_list(options)}"
        )
    variants = [
        tuple(option for option, chosen in zip(OPTIONS, picked, strict=True) if chosen)
        for picked in product(*((False, True) if each in options else (False,) for each in OPTIONS))
    ]
    return tuple(
        Setting(degree, variant)
        for variant in sorted(variants, key=len)
        for degree in sorted(degrees)
    )


def turns(chosen: Sequence[Setting], repeat: int) -> tuple[Setting, ...]:
    """Return the settings in the order of trial: forwards, then backwards, to cancel out drift.

    Raises:
        UsageError: `repeat` is less than 1.
    """
    if not 1 <= repeat <= 100:
        raise UsageError(f"--repeat: expected a number from 1 to 100, found {repeat}")
    return tuple(
        setting
        for turn in range(repeat)
        for setting in (chosen if turn % 2 == 0 else reversed(chosen))
    )


def _value_list(values: Collection[object]) -> str:
    return ", ".join(map(str, values)) or "none"


SAMPLE = 10**9
"""The default size of a sample, in bytes of the source."""
PER_STREAM = 4
"""Partitions in a sample for each stream, so that every stream stays busy to the end."""
LEAST_PER_STREAM = 2


def partition_size(sample: int, most: int) -> str:
    """Return the size of a partition, as `--partitions` takes it.

    Args:
        sample: the size of the sample, in bytes.
        most: the highest number of streams tried.
    """
    return f"{max(SMALLEST_PARTITION_BYTES, sample // (PER_STREAM * most))} B"


def choose_sample(plan: PartitionPlan, size: int, most: int) -> tuple[Partition, ...]:
    """Choose partitions of about `size` bytes in all, spread evenly over the table's extent.

    Args:
        plan: the plan of the whole table.
        size: the size of the sample, in bytes.
        most: the number of streams that share the sample; each gets enough partitions, even if
            `size` is exceeded.
    """
    partitions = plan.partitions
    total = plan.bytes or 0
    count = round(len(partitions) * size / total) if total else len(partitions)
    return evenly(partitions, max(count, LEAST_PER_STREAM * most))


def evenly(partitions: Sequence[Partition], count: int) -> tuple[Partition, ...]:
    """Return `count` partitions, or all: the middle one of each of `count` equal parts."""
    total = len(partitions)
    if count >= total:
        return tuple(partitions)
    return tuple(partitions[(2 * place + 1) * total // (2 * count)] for place in range(count))


def sampled_bytes(partitions: Sequence[Partition], plan: PartitionPlan) -> int:
    """Return the bytes of the partitions in the source, by its own estimate; 0 if unknown."""
    if all(partition.bytes is not None for partition in partitions):
        return sum(partition.bytes or 0 for partition in partitions)
    return (plan.bytes or 0) * len(partitions) // len(plan.partitions)
