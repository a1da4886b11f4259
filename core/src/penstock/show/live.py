"""The live display of a run on a terminal."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from threading import Lock
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.events import Event
from penstock.show.console import STYLES, ShortenedText, TextColumn, make_table, print_line
from penstock.show.notes import Notes, waiting_text
from penstock.show.tally import Tally
from penstock.show.text import cells, duration, megabytes, number, one_line, percent, quantity, size

# Title, bar, figures, an empty line, the streams' heading, an empty line, and one spare line.
_OTHER_LINES = 7
# Columns: on a wider terminal, figures would stand far from their partitions.
_WIDEST = 110
# Failed tables or partitions to show.
_MOST_NAMED = 10


class Bar:
    """A share as a thick line, and the rest as a thin one, so that colours do not matter.

    Rich's own bar differs only in colour; on a light background, the rest stands out.
    """

    def __init__(self, share: float) -> None:
        self._share = share

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        thick, thin = "#-" if options.ascii_only else "━─"
        width = options.max_width
        # Full only at the end.
        filled = min(width, int(self._share * width))
        yield Text.assemble((thick * filled, "green"), (thin * (width - filled), "dim"))


class LiveDisplay:
    """A bar, overall figures and one line per stream, redrawn in place below the notes.

    Args:
        tally: adds up the events.
        console: the console to draw on.
        title: names what is copied.
    """

    def __init__(self, tally: Tally, console: Console, title: str) -> None:
        self.tally = tally
        self._notes = Notes(tally)
        self._console = console
        self._title = title
        # Guards the tally, which the refresh thread reads. Never hold it while printing: printing
        # takes the console's own lock, which the refresh thread already holds when it takes this
        # one.
        self._lock = Lock()
        # stdout is for results and may go to another file, so do not redirect it.
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        with self._lock:
            self.tally.add(event)
            notes = self._notes.of(event)
        for note in notes:
            first, *rest = note.lines
            print_line(self._console, Text(first, style=STYLES[note.style]))
            for line in rest:
                warned = line.startswith("    warning: ")
                print_line(self._console, Text(line, style=STYLES["warning"] if warned else ""))

    def render(self) -> RenderableType:
        """Return the lower part of the screen."""
        with self._lock:
            # Ends with an empty line, so that the terminal's echo of ^C overwrites nothing.
            ended = [*self._tables(), *self._failed("partition", self.tally.failed)]
            streams = self._streams(max(1, self._console.height - _OTHER_LINES - len(ended)))
            shown = (self._header(), self._bar(), self._figures(), *ended, "", streams, "")
            return Constrain(Group(*shown), min(self._console.width, _WIDEST))

    def _header(self) -> RenderableType:
        kind = "batch" if self.tally.is_batch else "run"
        run = f"{kind} {self.tally.run_id}" if self.tally.run_id else "connecting"
        if self.tally.cancelling:
            return Text("interrupted: ending the streams", style="bold yellow")
        words = [word for word in (self._title, run) if word]
        return ShortenedText("  ".join(words), "bold")

    def _bar(self) -> RenderableType:
        tally = self.tally
        share = tally.overall()
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, justify="right", min_width=4)
        done, total = tally.commit_counts()
        count = f"{done:,}/{total:,} partitions" if tally.is_planned else "planning"
        if tally.is_batch:
            count = f"{tally.tables.loaded_or_failed:,}/{len(tally.tables.names):,} tables"
        parts: list[RenderableType] = [
            Bar(share),
            Text(percent(share), style="bold"),
        ]
        if self._console.width >= 40:
            table.add_column(no_wrap=True)
            parts.append(Text(count))
        table.add_row(*parts)
        return table

    def _figures(self) -> RenderableType:
        tally = self.tally
        rows_a_second, bytes_a_second = tally.rate()
        seconds_left = tally.seconds_left()
        parts = [
            f"{number(tally.rows)} rows",
            f"{number(rows_a_second)} rows/s",
            f"{megabytes(bytes_a_second)} MB/s",
            f"about {duration(seconds_left)} left" if seconds_left else "",
            f"{duration(tally.elapsed)} elapsed",
            size(tally.bytes),
        ]
        text = ""
        for part in parts:
            longer = f"{text}   {part}" if text and part else text or part
            if cells(longer) > self._console.width:
                break
            text = longer
        return Text(text, no_wrap=True, overflow="ellipsis")

    def _tables(self) -> list[RenderableType]:
        """Return the done tables of a batch in one line, and its failed tables."""
        tables = self.tally.tables
        if not self.tally.is_batch or not tables.ended:
            return []
        rows, moved = number(tables.done_rows), size(tables.done_bytes)
        done = f"done: {quantity(tables.done, 'table')}, {rows} rows, {moved}"
        line = Text(done, style="dim", no_wrap=True, overflow="ellipsis")
        return [line, *self._failed("table", tables.failed.values())]

    def _failed(self, kind: str, failed: Collection[str]) -> list[RenderableType]:
        """Return a line that names what has failed; nothing if nothing has."""
        if not failed:
            return []
        names = ", ".join(map(one_line, islice(failed, _MOST_NAMED)))
        more = ", ..." if len(failed) > _MOST_NAMED else ""
        shown = f"failed: {quantity(len(failed), kind)}: {names}{more}"
        return [Text(shown, style="bold red", no_wrap=True, overflow="ellipsis")]

    def _steps(self, room: int) -> list[str]:
        """Return the running steps after the last partition."""
        steps = [
            f"{table}: {step}" if (table := self.tally.table(run_id)) else step
            for (run_id, _), step in self.tally.steps.items()
        ]
        return steps[:room]

    def _streams(self, room: int) -> RenderableType:
        tally = self.tally
        streams = list(tally.streams.values())
        shown = streams if len(streams) <= room else streams[: max(1, room - 1)]
        if tally.steps and not streams:
            return Group(*(Text(one_line(step), no_wrap=True) for step in self._steps(room)))
        rows: list[list[RenderableType]] = []
        for stream in shown:
            attempt_label = f" #{stream.attempt}" if stream.attempt > 1 else ""
            rate_rows, rate_bytes = stream.rate()
            idle = tally.idle(stream)
            rows.append(
                [
                    one_line(stream.partition_id) + attempt_label,
                    ShortenedText(one_line(stream.label)),
                    number(stream.rows),
                    Text(f"idle {duration(idle)}", style="yellow") if idle else number(rate_rows),
                    "" if idle else megabytes(rate_bytes),
                ]
            )
        if not rows:
            waiting = tally.waiting
            return ShortenedText(waiting_text(waiting)) if waiting is not None else ""
        table = make_table(
            self._console,
            [
                TextColumn("partition", width=24 if tally.is_batch else 9),
                TextColumn("what it selects", wide=True, from_width=60),
                TextColumn("rows", right=True, width=11),
                TextColumn("rows/s", right=True, width=11, from_width=36),
                TextColumn("MB/s", right=True, width=7, from_width=48),
            ],
            rows,
            expand=True,
        )
        if len(shown) == len(streams):
            return table
        return Group(table, Text(f"and {len(streams) - len(shown):,} more streams", style="dim"))
