"""The installed parts for `--version`, read from metadata alone, so that no driver is imported."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, entry_points, version

from penstock.backends.api.registry import ENTRY_POINTS
from penstock.backends.shared.native import SWITCH, VERSION

DISTRIBUTION = "penstock"
NATIVE = "native"
INTEGRATIONS = "penstock.integrations"
"""The entry point group in which an orchestrator's distribution declares itself."""
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*;.*\bextra == ['\"]([\w.-]+)['\"]")


def version_lines() -> Iterator[str]:
    """Return the lines of ``penstock --version``; the first is exactly ``penstock X.Y.Z``."""
    yield f"{DISTRIBUTION} {version(DISTRIBUTION)}"
    parts = {"python": f"{platform.python_version()}, {platform.system()} {platform.machine()}"}
    parts |= _drivers()
    parts |= _foreign(ENTRY_POINTS) | _foreign(INTEGRATIONS)
    width = max(map(len, parts))
    for name, text in parts.items():
        yield f"  {name:{width}}  {text}"


def _drivers() -> dict[str, str]:
    """Return the drivers of each extra of Penstock by the extra's name, each driver once."""
    needs: dict[str, set[str]] = {}
    for requirement in distribution(DISTRIBUTION).requires or ():
        if match := _REQUIREMENT.match(requirement):
            needs.setdefault(match[2], set()).add(match[1])
    drivers = {}
    for extra, names in needs.items():
        unshared = names.difference(*(subset for subset in needs.values() if subset < names))
        driver = _native if extra == NATIVE else _driver
        drivers[extra] = ", ".join(driver(name) for name in sorted(unshared))
    return drivers


def _driver(name: str) -> str:
    return f"{name} {_version(name)}"


def _native(name: str) -> str:
    installed = _version(name)
    if installed[0].isdigit():
        if os.environ.get(SWITCH) == "off":
            return f"{installed}, switched off by {SWITCH}"
        if installed != VERSION:
            return f"{installed}, not used: expected {VERSION}"
    return installed


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _foreign(group: str) -> dict[str, str]:
    """Return other distributions that declare an entry point in a group."""
    return {
        entry.name: f"{entry.dist.name} {entry.dist.version}"
        for entry in entry_points(group=group)
        if entry.dist is not None and entry.dist.name != DISTRIBUTION
    }
