"""Options of a copy, as fields of a group of `penstock.spec.groups`."""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any, TypeVar

G = TypeVar("G")


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


def type_of(item: Field[Any]) -> str:
    """Return the type of an option's values, as its annotation is written, without ``| None``.

    A choice of texts is a `str`.
    """
    return "str" if item.metadata["choices"] else str(item.type).removesuffix(" | None")


def derived(options: G, **changes: Any) -> G:
    """Return options of which planning has changed some.

    Unlike `dataclasses.replace`, it checks nothing: nobody has asked for what planning derives, so
    options may stand together that a user may not combine.

    Args:
        options: a `CopySpec`, as one of its groups.
        changes: the new values, by the names of fields.
    """
    made = object.__new__(type(options))
    for item in fields(options):  # type: ignore[arg-type]
        object.__setattr__(made, item.name, changes.get(item.name, getattr(options, item.name)))
    return made
