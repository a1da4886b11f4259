"""The optional distribution `penstock-native`, if installed."""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from types import ModuleType

from penstock.backends.api.installation import install_command

VERSION = "0.1.0"
SWITCH = "PENSTOCK_NATIVE"
"""An environment variable; with "off", Python does everything."""

_log = logging.getLogger("penstock")


@cache
def native() -> ModuleType | None:
    """Return the package, or None if Python does everything; logs the reason once per process."""
    if os.environ.get(SWITCH) == "off":
        return None
    try:
        module = import_module("penstock_native")
    except ImportError:
        _log.debug(
            "penstock-native is not installed: rows move through Python, which takes twice the "
            "CPU time or more; to install it: %s",
            install_command("native"),
        )
        return None
    if module.__version__ != VERSION:
        _log.warning(
            "penstock-native %s is installed but not used: expected %s, the version of Penstock; "
            "to install it: %s",
            module.__version__,
            VERSION,
            install_command("native"),
        )
        return None
    return module
