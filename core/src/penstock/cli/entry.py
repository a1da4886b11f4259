"""The program's entry point, which installs signal handlers before it imports anything else."""

from __future__ import annotations

from penstock.cli.early_signals import handle_signals

TYPE_CHECKING = False  # `typing` itself takes some milliseconds
if TYPE_CHECKING:
    from typing import NoReturn


def run() -> NoReturn:
    """Run the program."""
    handle_signals()
    from penstock.cli.main import run as run_command  # noqa: PLC0415

    run_command()


if __name__ == "__main__":
    run()
