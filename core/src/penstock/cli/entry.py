"""The program's entry point, with signal handlers for the time before a command has its own."""

from __future__ import annotations

# The C module behind `signal`. Importing `signal` takes 12 ms, half of the time before handlers are
# installed.
import _signal  # type: ignore[import-not-found]
import os

TYPE_CHECKING = False  # `typing` itself takes some milliseconds
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

EXIT_INTERRUPTED = 130
"""The same code as in `penstock.errors`, which is not imported yet."""
_NAMES = {_signal.SIGINT: "SIGINT", _signal.SIGTERM: "SIGTERM"}


def _end(number: int, _frame: FrameType | None) -> None:
    """End the process at once.

    Nothing has started, so there is nothing to clean up. An exception could be swallowed by an
    import that takes it for a missing module.
    """
    try:
        os.write(2, f"penstock: interrupted by {_NAMES[number]}\n".encode())
    finally:
        os._exit(EXIT_INTERRUPTED)


def handle_signals() -> None:
    """End this process at once on SIGINT or SIGTERM, until a command installs its own handlers."""
    for number in _NAMES:
        # Shells start background processes with SIGINT ignored: keep it that way.
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)


def run() -> NoReturn:
    """Run the program; nothing else is imported before the signal handlers are installed."""
    handle_signals()
    from penstock.cli.main import run as run_command  # noqa: PLC0415

    run_command()
