"""How a user installs Penstock, and whether a backend's requirements are installed.

It is installed from a clone until its first release, from the index afterwards.
"""

from __future__ import annotations

RELEASED = False
"""Whether the package index has Penstock. After a change, `scripts/install_lines.py` changes every
page."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra of the core.

    Args:
        extra: the name of the extra.
    """
    if RELEASED:
        return f"pip install 'penstock[{extra}]'"
    folder = "./core/native" if extra == "native" else f"'./core[{extra}]'"
    return f"pip install {folder} (at the top of a clone of Penstock)"


def check_installed(*modules: str) -> None:
    """Check a backend's requirements, which its modules import only when they use them.

    Raises:
        ModuleNotFoundError: a module is missing; the registry knows which extra includes it.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - not every backend searches

    for name in modules:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
