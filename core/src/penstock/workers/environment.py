"""The environment of a worker: what it needs, without secrets."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

# What every Python program needs; the backend adds what the driver needs.
ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "PYTHON*", "PENSTOCK_NATIVE", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip


def is_inherited(name: str, patterns: Iterable[str]) -> bool:
    """Whether workers inherit a variable of that name, unless it contains a secret.

    Args:
        name: the name of the variable.
        patterns: the patterns of the backends.
    """
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*ENVIRONMENT, *patterns))


def worker_environment(
    environ: Mapping[str, str], patterns: Iterable[str], secrets: Iterable[str]
) -> dict[str, str]:
    """Return the variables that a worker needs, without those that contain a secret.

    Args:
        environ: the environment variables.
        patterns: patterns of names that workers inherit in addition.
        secrets: URLs and passwords; a variable that contains one is left out whatever its name.
    """
    patterns = tuple(patterns)
    hidden = tuple(secret for secret in secrets if secret)
    return {
        name: value
        for name, value in environ.items()
        if is_inherited(name, patterns) and not any(secret in value for secret in hidden)
    }
