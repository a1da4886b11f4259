"""Messages that name options as Python arguments, for orchestrators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from penstock.spec.groups.execution import ON_TABLE_ERROR
from penstock.spec.groups.order import GROUPS
from penstock.spec.option_values import flag_of

_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


_COMMAND = re.compile(r"(`[^`]*`)")


# Arguments of other functions, in addition to the fields of a `CopySpec`.
_OTHERS = (
    *("only", "recopy", "as_of_now", "await_snapshot"),
    *("checksum", "show_rows", "since", "status", "limit", "batch"),
    *("tables", "exclude", "target_schema", "on_table_error"),
)


def as_arguments(message: str) -> str:
    """Return a message with Python arguments instead of command line flags.

    ``--on-snapshot-lost accept or restart`` becomes ``on_snapshot_lost="accept" or "restart"``, and
    ``--unlogged`` becomes ``unlogged=True``. Commands in backticks stay as they are.
    """
    return "".join(
        part if position % 2 else _as_arguments(part)
        for position, part in enumerate(_COMMAND.split(message))
    )


def _as_arguments(text: str) -> str:
    options = {item.name: item for group in GROUPS for item in fields(group)}
    for item in options.values():
        if item.metadata["choices"]:
            text = _with_values(text, item.name, item.metadata["choices"])
    text = _with_values(text, "on_table_error", ON_TABLE_ERROR)

    def argument(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        if (
            name in options
            and options[name].type == "bool"
            and not match.string.startswith(":", match.end())
        ):
            return f"{name}=True"
        return name if name in options or name in _OTHERS else match[0]

    return _FLAG.sub(argument, text)


def _with_values(text: str, name: str, choices: Sequence[str]) -> str:
    """Put the values that follow a flag in quotes: one, or a list of them."""
    value = f"(?:{'|'.join(map(re.escape, choices))})\\b"
    listed = re.compile(rf"{flag_of(name)} ({value}(?:(?:, | or |, or ){value})*)")
    return listed.sub(
        lambda match: f"{name}=" + re.sub(f"({value})", r'"\1"', match[1]),
        text,
    )
