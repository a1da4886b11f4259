"""How a user installs Penstock: from a clone until its first release, from the index afterwards."""

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
