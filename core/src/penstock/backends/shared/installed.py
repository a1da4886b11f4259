"""Whether what a backend needs is installed, without importing it."""

from __future__ import annotations

from importlib.util import find_spec


def check_installed(*modules: str) -> None:
    """For a backend's package: its modules import them only where they use them.

    Raises:
        ModuleNotFoundError: there is none of the name; the registry says which extra has it.
    """
    for name in modules:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
