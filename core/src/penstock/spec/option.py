"""An option of a copy, as a field of a group of `penstock.spec.groups`."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def option(
    default: Any,
    text: str,
    *,
    execution: bool = False,
    planned: bool = False,
    of_mode: bool = False,
    limited: bool = False,
    metavar: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """Define a field of `CopySpec`: its default and its help.

    Args:
        default: the default value.
        text: the help text.
        execution: the option says how to run, not what to copy; it may change on resume.
        planned: the option takes effect during planning, so it cannot change on resume either.
        of_mode: the option belongs to some modes; see `table_sections.layer_options`.
        limited: a limit follows the value's first comma, and may change on resume.
        metavar: the name of the value in the help.
        choices: the allowed values; empty for any value of the type.
    """
    metadata = {
        "help": text,
        "execution": execution,
        "resumed": limited or (execution and not planned),
        "of_mode": of_mode,
        "metavar": metavar,
        "choices": choices,
    }
    return field(default=default, metadata=metadata)
