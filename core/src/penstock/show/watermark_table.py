"""Watermarks as tables: the latest of each name, and the nights of one name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.show.console import Console, ShortenedText, Text, TextColumn, make_table, print_names
from penstock.show.text import moment, number, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.model.nights import Watermark


def print_watermarks(console: Console, watermarks: Sequence[Watermark]) -> None:
    """Print watermarks, one a line."""
    if not watermarks:
        console.print("no watermarks: no copy with --incremental has ended in this target")
        return
    rows: list[list[RenderableType]] = [
        [ShortenedText(one_line(each.name)), *_night(each)] for each in watermarks
    ]
    print_names(console, [TextColumn("watermark", wide=True), *_NIGHT], rows)


def print_history(console: Console, watermarks: Sequence[Watermark]) -> None:
    """Print the nights of one watermark, the newest first."""
    console.print(Text(one_line(watermarks[0].name), style="bold"))
    console.print(make_table(console, list(_NIGHT), [_night(each) for each in watermarks]))


_NIGHT = (
    TextColumn("epoch", right=True),
    TextColumn("as of"),
    TextColumn("read", right=True),
    TextColumn("inserted", right=True, from_width=80),
    TextColumn("updated", right=True, from_width=80),
    TextColumn("deleted", right=True, from_width=80),
    TextColumn("rows", right=True, from_width=100),
    TextColumn("read up to", from_width=140),
    TextColumn("run", from_width=104),
    TextColumn("why all rows were read", from_width=120, wide=True),
)


def _night(mark: Watermark) -> list[RenderableType]:
    return [
        str(mark.epoch),
        moment(mark.moment) if mark.moment else "reset",
        number(mark.read),
        number(mark.inserted),
        number(mark.updated),
        number(mark.deleted),
        "" if mark.rows is None else number(mark.rows),
        _read_to(mark),
        mark.run_id,
        Text(mark.full),
    ]


def _read_to(mark: Watermark) -> str:
    """Return how far a watermark has read; with row versions, all it has is the horizon."""
    cursor = mark.cursor
    if mark.files is not None:
        return "its files"
    if cursor is None:
        return "its versions" if mark.horizon else ""
    proof = " (not proven)" if cursor.unproven else ""
    return f"{one_line(cursor.name)} {cursor.text or 'nothing'}{proof}"
