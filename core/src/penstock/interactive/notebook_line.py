"""The progress of a copy as one line of a notebook, which is replaced as it changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.events import Event, Finished
from penstock.show.charts import text
from penstock.show.lines import progress_text
from penstock.show.tally import Tally
from penstock.show.text import duration, number, one_line, quantity

# Seconds: more often, the browser would be busy with it.
_EVERY = 0.25
_THICK, _THIN, _WIDTH = "━", "─", 24


@contextmanager
def notebook_line(title: str) -> Iterator[Callable[[Event], None]]:
    """Show a copy's progress in a notebook; elsewhere, show nothing.

    Args:
        title: names what is copied.

    Yields:
        a function that takes each event of the copy.
    """
    if not _is_in_notebook():
        yield lambda event: None
        return
    line = _Line(title)
    try:
        yield line.show
    except BaseException as error:
        line.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    line.end()


def _is_in_notebook() -> bool:
    """Whether this process is a notebook's kernel, which can replace what it has displayed."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


class _Line:
    """The line, from the first event on."""

    def __init__(self, title: str) -> None:
        from IPython.display import display  # noqa: PLC0415 - only there in a notebook

        self._title, self._tally = title, Tally()
        self._end: Finished | None = None
        self._shown_at = time.monotonic()
        content = self._content("connecting")
        self._handle: Any = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, event: Event) -> None:
        self._tally.add(event)
        if isinstance(event, Finished):
            self._end = event
        elif time.monotonic() - self._shown_at >= _EVERY:
            self._replace(self._now())

    def end(self, why: str = "done") -> None:
        """Replace the line by the outcome."""
        if self._end is None:
            self._replace(why)
            return
        end = self._end
        count = f"{end.committed:,} of {quantity(end.partitions, 'partition')}"
        self._replace(f"{why}: {number(end.rows)} rows in {duration(end.seconds)}, {count}")

    def _now(self) -> str:
        tally = self._tally
        if not tally.is_planned:
            return "planning"
        if tally.steps and not tally.streams:
            return one_line(next(iter(tally.steps.values())))
        share = tally.overall()
        filled = int(share * _WIDTH)
        bar = _THICK * filled + _THIN * (_WIDTH - filled)
        return f"{bar} {progress_text(tally)}"

    def _replace(self, words: str) -> None:
        self._shown_at = time.monotonic()
        self._handle.update(self._content(words), raw=True)

    def _content(self, words: str) -> dict[str, str]:
        line = f"{one_line(self._title)}: {words}"
        return {"text/plain": line, "text/html": f"<code>{text(line)}</code>"}
