"""The environment of a worker: what it needs, and no secrets."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

# What any Python program needs; what the driver needs is the backend's to say.
ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "PYTHON*", "PENSTOCK_NATIVE", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip


def is_inherited(name: str, patterns: Iterable[str]) -> bool:
    """Whether workers have a variable of that name, unless it holds a secret.

    Parameters:
        patterns: of the backends.
    """
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*ENVIRONMENT, *patterns))


def worker_environment(
    environ: Mapping[str, str], patterns: Iterable[str], secrets: Iterable[str]
) -> dict[str, str]:
    """The environment of a worker: what it needs by name, and nothing that holds a secret.

    Parameters:
        secrets: URLs and passwords; a variable that holds one is left out whatever its name.
    """
    patterns = tuple(patterns)
    hidden = tuple(secret for secret in secrets if secret)
    return {
        name: value
        for name, value in environ.items()
        if is_inherited(name, patterns) and not any(secret in value for secret in hidden)
    }
