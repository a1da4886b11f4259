"""Whether a backend's requirements are installed, without importing them."""

from __future__ import annotations

from importlib.util import find_spec


def check_installed(*modules: str) -> None:
    """Check a backend's requirements, which its modules import only when they use them.

    Raises:
        ModuleNotFoundError: a module is missing; the registry knows which extra includes it.
    """
    for name in modules:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
