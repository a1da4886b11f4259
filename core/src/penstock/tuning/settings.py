"""The settings that `tune` tries: degrees, each with some options, and their order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from penstock.errors import UsageError
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
