"""Packages that Penstock's own processes do not import, even if they are installed.

pyarrow and drivers import numpy and pandas wherever they find them, as late as at the first list
that becomes an array. No backend here needs either, and both are optional for all of them; they
would take 0.4 s of CPU in each process, twice the time of the copy of a small table. numpy also
starts a thread per CPU, which a process that forks must not have.

A finder on `sys.meta_path` is Python's own way to say what can be imported. None in `sys.modules`
is not enough: compiled modules take it for the module.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_LEFT_OUT = frozenset({"numpy", "pandas"})
_OURS = "penstock."


class _Missing:
    """A finder that looks as if some packages were not installed."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"Penstock's processes leave out {name}", name=name)


def leave_out() -> None:
    """Leave them out of this process, which is Penstock's own, until `allow_all`.

    Never call it in another program's process, such as an orchestrator's, which may need them.
    """
    if _Missing not in sys.meta_path:
        sys.meta_path.insert(0, _Missing)


def allow_all(module: str) -> None:
    """Leave out nothing any more if a backend is another distribution's, which may need them.

    Args:
        module: the backend's module; call this before it is imported.
    """
    if not module.startswith(_OURS) and _Missing in sys.meta_path:
        sys.meta_path.remove(_Missing)
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's own threads
