"""Values of single options: read from a text, a list or a number, and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import UsageError, did_you_mean
from penstock.spec.degrees import parse_degree
from penstock.spec.masks import split_rules
from penstock.spec.units import parse_duration, parse_size

LISTS = ("columns", "exclude_columns", "conflict_columns", "order_by", "partition_by")

RULES = ("set", "mask")
"""Options that are lists of COLUMN=... items."""

MOST = 2**31 - 1

MOST_BYTES = 2**62

SIZES = ("file_size", "max_rate")

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}

_QUOTED = r'\s*"(?:[^"]|"")+"\s*'

_BARE = r'(?!\s*")[^,]*'

_NAME_OF_LIST = re.compile(rf"(?:^|(?<=,))(?:{_QUOTED}|{_BARE})(?=,|$)")

_NAMES = re.compile(rf"(?:{_QUOTED}|{_BARE})(?:,(?:{_QUOTED}|{_BARE}))*")


def flag_of(name: str) -> str:
    """Return the command line option of a field of `CopySpec`."""
    return "--" + name.replace("_", "-")


def coerce(name: str, kind: str, value: Any) -> Any:
    """Convert an option's value from a file or a command line to the option's type.

    Args:
        name: the option's name.
        kind: the type of the field, as its annotation is written.
        value: the value to convert.

    Raises:
        UsageError: the value is not of that type.
    """
    flag = flag_of(name)
    if name in LISTS:
        if isinstance(value, str):
            return split_names(value, flag)
        if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
            raise UsageError(f"{flag}: expected names separated by commas, found {value!r}")
        return tuple(part.strip() for part in value)
    if name == "types":
        return _split_types(value)
    if name in RULES:
        return split_rules(value, flag)
    if name in SIZES:
        return parse_size(value, flag)
    if name == "degree":
        return parse_degree(value, flag)
    if name == "partitions":  # a number, or a text with a unit
        text = str(value).strip()
        return int(text) if text.isdecimal() else text
    if kind.startswith("float"):
        return parse_duration(value, flag)
    if kind == "bool":
        if not isinstance(value, bool):
            raise UsageError(f"{flag}: expected true or false, found {value!r}")
        return value
    if kind.startswith("int"):
        try:
            if isinstance(value, bool):
                raise ValueError
            return int(str(value))
        except ValueError:
            raise UsageError(f"{flag}: expected a whole number, found {value!r}") from None
    if not isinstance(value, str):
        # The value may contain a secret.
        shown = type(value).__name__ if name in ("source", "target") else repr(value)
        if name == "source" and hasattr(value, "__arrow_c_stream__"):
            shown += "; for rows of this process pass penstock.ArrowRows of it"
        raise UsageError(f"{flag}: expected a string, found {shown}")
    return value


def split_names(text: str, flag: str) -> tuple[str, ...]:
    """Split ``a, "b, c", "d""e"`` at the commas outside quotes.

    Raises:
        UsageError: a quote is not closed.
    """
    if _NAMES.fullmatch(text) is None:
        raise UsageError(
            f"{flag}: expected names separated by commas, with a name that contains a comma in "
            f"double quotes; found {text!r}"
        )
    parts = [part.strip() for part in _NAME_OF_LIST.findall(text)]
    return tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts)


def _split_types(value: Any) -> tuple[str, ...]:
    """Split ``a=numeric(12,2), b=text`` at the commas outside parentheses; or a table or list."""
    if isinstance(value, Mapping):
        value = [f"{name}={kind}" for name, kind in value.items()]
    if isinstance(value, str):
        value = re.split(r",(?![^(]*\))", value)
    # Options of a batch are read before those of its tables.
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise UsageError(f"--types: expected NAME=TYPE, separated by commas; found {value!r}")
    return tuple(part.strip() for part in value)


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Check that an option has an allowed value.

    Args:
        name: the option's field in `CopySpec`.
        value: the value.
        allowed: the allowed values.

    Raises:
        UsageError: the value is not allowed.
    """
    if value not in allowed:
        raise UsageError(
            f"{flag_of(name)}: expected one of {', '.join(allowed)}; found {value!r}"
            + did_you_mean(str(value), allowed)
        )


def check_within(name: str, value: int | None, least: int, most: int) -> None:
    """Check that a number is within bounds.

    Args:
        name: the option's field in `CopySpec`.
        value: the number; None is always allowed.
        least: the lower bound, inclusive.
        most: the upper bound, inclusive.

    Raises:
        UsageError: the number is out of bounds.
    """
    if value is None or least <= value <= most:
        return
    expected = f"at least {least}" if value < least else f"at most {most}"
    raise UsageError(f"{flag_of(name)}: expected {expected}, found {value}")
