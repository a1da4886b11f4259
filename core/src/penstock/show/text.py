"""Numbers, sizes, errors and objects left out, as human-readable text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.model.tables import NotCopied

PACED = "keeping to a rate"
"""A use of time besides waiting and moving."""
_MOST_OF_A_KIND = 20
_LONGEST_REMEDY = 12


def number(value: float | None) -> str:
    """Format a whole number with thousands separators; a question mark for None."""
    return "?" if value is None else f"{value:,.0f}"


def size(count: float | None) -> str:
    """Format bytes in decimal units; a question mark for None."""
    if count is None:
        return "?"
    if count < 100_000:
        return f"{count:,.0f} B"
    if count < 100_000_000_000:
        return f"{count / 1e6:,.1f} MB"
    return f"{count / 1e9:,.1f} GB"


def megabytes(count: float) -> str:
    """Format bytes in units of 10^6."""
    return f"{count / 1e6:,.1f}"


def duration(seconds: float) -> str:
    """Format seconds: ``12.3 s`` below a minute, then ``M:SS`` or ``H:MM:SS``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:,}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def moment(text: str) -> str:
    """Format a time with a zone, to the second, in UTC; other text is returned unchanged."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    except ValueError:
        return text


def percent(share: float) -> str:
    """Format a percentage, rounded down, so that only the end is 100%."""
    return f"{int(share * 100)}%"


def quantity(count: int, noun: str) -> str:
    """Format a number with its noun: ``1 partition``, ``1,234 partitions``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def printable(text: str) -> str:
    """Escape control characters, so that data cannot drive the terminal; keep line breaks."""
    return "".join(
        letter
        if letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def one_line(text: str) -> str:
    """Escape text as `printable` does, with line breaks as spaces."""
    return printable(" ".join(text.split("\n")))


def cells(text: str) -> int:
    """Return the width of a text on a terminal, in columns."""
    return sum(
        0
        if unicodedata.combining(letter)
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )


def shorten(text: str, width: int) -> str:
    """Leave out the middle, so that both bounds of a range keep their most significant parts."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    head, tail = text[: (width + 1) // 2], text[len(text) - width // 2 :]
    while cells(head) + 1 + cells(tail) > width:
        if cells(head) > cells(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def error_lines(error: Mapping[str, Any]) -> list[str]:
    """Return an event's error as lines: the message first, then detail, hint and context."""
    message = str(error.get("message") or error.get("error") or "unknown error")
    details = (str(error.get(name) or "") for name in ("side", "code"))
    # Most messages already name their side.
    where = " ".join(text for text in details if text and f"{text}:" not in message)
    lines = [(f"[{where}] " if where else "") + message]
    lines += [
        f"{name}: {error[name]}"
        for name in ("detail", "hint", "context", "constraint")
        if error.get(name)
    ]
    return [line for text in lines for line in printable(text).split("\n") if line.strip()]


def kinds(items: Iterable[NotCopied]) -> str:
    """Return how many objects there are of each kind: ``foreign keys (2), triggers (1)``."""
    return ", ".join(
        f"{kind} ({count:,})" for kind, count in Counter(i.kind for i in items).items()
    )


def not_copied_lines(items: Sequence[NotCopied]) -> list[str]:
    """Return what a copy leaves out, by kind, each with the statement or option that creates it.

    Long lists and long statements are shortened; programs read events.
    """
    lines = []
    for dropped in (False, True):
        chosen = [item for item in items if item.dropped is dropped]
        by_kind: dict[str, list[NotCopied]] = {}
        for item in chosen:
            by_kind.setdefault(item.kind, []).append(item)
        if chosen:
            lines.append("dropped with the target's old table" if dropped else "not copied")
        for kind, listed in by_kind.items():
            lines.append(f"  {one_line(kind)} ({len(listed):,})")
            for item in listed[:_MOST_OF_A_KIND]:
                lines += (f"    {line}" for line in _remedy_lines(item))
            if len(listed) > _MOST_OF_A_KIND:
                lines.append(
                    f"    and {len(listed) - _MOST_OF_A_KIND:,} more: --json lists all of them"
                )
    return lines


def _remedy_lines(item: NotCopied) -> list[str]:
    # Names may contain anything; statements keep their line breaks, which end comments.
    name = one_line(f"{item.name} of {item.table}" if item.table else item.name)
    lines = [line for line in printable(item.remedy).split("\n") if line.strip()]
    if not lines:
        return [name]
    if len(lines) > _LONGEST_REMEDY:
        return [f"{name}: a statement of {len(lines):,} lines, which --json shows"]
    return lines
