"""The optional distribution `penstock-native`, where it is installed."""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from types import ModuleType

VERSION = "0.1.0"
SWITCH = "PENSTOCK_NATIVE"
"""An environment variable; "off" has everything done in Python."""

_log = logging.getLogger("penstock")


@cache
def native() -> ModuleType | None:
    """The package, or None where all is done in Python; says why, once for each process."""
    if os.environ.get(SWITCH) == "off":
        return None
    try:
        module = import_module("penstock_native")
    except ImportError:
        _log.debug(
            "penstock-native is not installed: rows move through Python, which takes twice the "
            "CPU time or more (pip install 'penstock[native]')"
        )
        return None
    if module.__version__ != VERSION:
        _log.warning(
            "penstock-native %s is installed, expected %s, as that is Penstock's own version: "
            "it is not used (pip install --upgrade 'penstock[native]')",
            module.__version__,
            VERSION,
        )
        return None
    return module
