"""Servers of Debian's unstable distribution, beside whatever Debian this machine runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from penstock_testkit.cache import cached_path
from penstock_testkit.servers import ServerError

SUITE = "sid"
ORIGIN = ("Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main")
# A server's own loader and libraries, because this machine's may be older.
RUN = """\
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")
library=$(dirname "$(ls "$root"/usr/lib/*/libc.so.6)")
exec "$(ls "$root"/lib64/ld-linux-*.so.*)" --library-path "$library:$root/usr/lib/mysql/private" \\
    "$root/usr/sbin/{program}" "$@" --basedir="$root/usr" {options}
"""
OPTIONS = {
    "mysqld": '--lc-messages-dir="$root/usr/share/mysql" --plugin-dir="$root/usr/lib/mysql/plugin"',
}


def debian_server(program: str, package: str) -> Path:
    """Return a command that runs a server of Debian unstable, which is installed once and kept.

    Args:
        program: the server's program in /usr/sbin.
        package: the package that contains it.

    Raises:
        ServerError: it is not installed, and cannot be.
    """
    root, why = _root(program, package)
    if root is None:
        raise ServerError(f"{package} of Debian unstable is not available: {why}")
    return root / program


@cache
def _root(program: str, package: str) -> tuple[Path | None, str]:
    """Return the folder with the server; None and the reason if there is none.

    The reason is kept, too: each test would ask the mirror again.
    """

    def make(root: Path) -> None:
        if os.geteuid() != 0:
            raise ServerError("only root can install it")
        for tool in ("apt-get", "mmdebstrap"):
            if shutil.which(tool) is None:
                raise ServerError(f"that needs {tool}")
        mirror = _output("apt-get", "indextargets", "--format", "$(REPO_URI)", *ORIGIN).split()
        if not mirror:
            raise ServerError("apt reads from no mirror of Debian; apt-get update may be missing")
        _output(
            *("mmdebstrap", "--variant=apt", "--mode=root", f"--include={package}"),
            # A mirror of a past day is as good.
            *("--aptopt=Acquire::Check-Valid-Until false", SUITE, str(root), mirror[0]),
        )
        command = root / program
        command.write_text(RUN.format(program=program, options=OPTIONS[program]))
        command.chmod(0o755)

    try:
        return cached_path("debian", f"{SUITE}-{package}", make), ""
    except ServerError as error:
        return None, str(error)


def _output(*command: str) -> str:
    """Return what a command prints.

    Raises:
        ServerError: it fails, or takes too long.
    """
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, cwd="/"
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(f"{command[0]} took more than {error.timeout:g} s") from None
    if process.returncode:
        last = process.stderr.strip().splitlines()[-1:]
        raise ServerError(f"{command[0]} ended with {process.returncode}: {' '.join(last)}")
    return process.stdout
