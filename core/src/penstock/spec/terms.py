"""The terms of messages: options as on the command line, or as arguments in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

from penstock.errors import PenstockError
from penstock.spec.groups.execution import ON_TABLE_ERROR
from penstock.spec.groups.order import GROUPS
from penstock.spec.option import type_of
from penstock.spec.option_values import flag_of

_flags: list[bool] = []
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")
_COMMAND = re.compile(r"(`[^`]*`)")
# Values that cannot be mistaken for the words of a sentence, by option.
_FORMS = {
    "deletes": r"(?:ignore|hard|soft(?::\w+)?)\b(?:,approved:\d+/\d+|,[\d.]+%(?:,\d[\d_]*)?)?",
    "incremental": r"(?:xmin|files)\b",
    "on_drift": r"(?:fail|ignore)\b",
    "partitions": r"\d+ rows\b",
}
# Values at the end of a message's subject, as in `--key id: expected ...`.
_SUBJECT = r"[^\s,:'\"-](?:[^\s'\"]*[^\s,:'\"])?(?=: )"

# Arguments of other functions, in addition to the fields of a `CopySpec`.
_OTHERS = (
    *("only", "recopy", "as_of_now", "await_snapshot"),
    *("checksum", "show_rows", "since", "status", "limit", "batch"),
    *("tables", "exclude", "target_schema", "on_table_error"),
)


@contextmanager
def flags() -> Iterator[None]:
    """Name options as flags in messages, for users of a command line: ``--mode``, not ``mode``."""
    _flags.append(True)
    try:
        yield
    finally:
        _flags.pop()


def in_callers_terms(error: PenstockError, subject: str | None = None) -> None:
    """Make an error that leaves Penstock name options as its caller does.

    Args:
        error: the error, changed in place.
        subject: the table or asset, for callers with many of them.
    """
    if _flags:
        return
    message = as_arguments(error.message)
    if subject and subject not in message:
        message = f"{subject}: {message}"
    error.message, error.args = message, (message,)


def as_arguments(message: str) -> str:
    """Return a message with Python arguments instead of command line flags.

    ``--on-snapshot-lost accept or restart`` becomes ``on_snapshot_lost="accept" or "restart"``,
    ``--deletes hard,5%`` becomes ``deletes="hard,5%"``, ``--degree 8`` becomes ``degree=8``, and
    ``--unlogged`` becomes ``unlogged=True``. Commands in backticks stay as they are.
    """
    return "".join(
        part if position % 2 else _as_arguments(part)
        for position, part in enumerate(_COMMAND.split(message))
    )


def _as_arguments(text: str) -> str:
    options = {item.name: item for group in GROUPS for item in fields(group)}
    for item in options.values():
        if choices := item.metadata["choices"]:
            text = _with_values(text, item.name, _one_of(choices))
        elif item.name in _FORMS:
            text = _with_values(text, item.name, _FORMS[item.name])
        if "int" in type_of(item):
            text = re.sub(rf"{flag_of(item.name)} (\d+)\b(?![.\w])", rf"{item.name}=\1", text)
        elif type_of(item) == "str":
            text = _with_values(text, item.name, _SUBJECT)
    text = _with_values(text, "on_table_error", _one_of(ON_TABLE_ERROR))

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


def _one_of(choices: Sequence[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, choices))})\\b"


def _with_values(text: str, name: str, value: str) -> str:
    """Put the values that follow a flag in quotes: one, or a list of them.

    Args:
        text: a message.
        name: the option's name.
        value: a regular expression for a value.
    """
    listed = re.compile(rf"{flag_of(name)} ({value}(?:(?:, | or |, or ){value})*)")

    def quoted(match: re.Match[str]) -> str:
        words = re.split(r"(, or |, | or )", match[1])
        return f"{name}=" + "".join(
            word if position % 2 else f'"{word}"' for position, word in enumerate(words)
        )

    return listed.sub(quoted, text)
