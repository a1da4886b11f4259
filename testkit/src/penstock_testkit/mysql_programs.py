"""The installed MySQL or MariaDB, and the initial data of its servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from penstock_testkit.cache import cached_path
from penstock_testkit.debian import debian_server
from penstock_testkit.servers import ServerError

EXTERNAL = "PENSTOCK_TEST_MYSQL"
PROGRAM = "PENSTOCK_TEST_MYSQLD"
# Debian installs it outside the PATH of ordinary users.
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
# "loose", because only some servers and versions know each of them.
LAYOUT = ("--loose-innodb-log-file-size=64M", "--loose-innodb-redo-log-capacity=64M")


def mysql_program() -> Path:
    """Return the server in PENSTOCK_TEST_MYSQLD, or else the installed one.

    Raises:
        ServerError: there is no server.
    """
    if explicit := os.environ.get(PROGRAM):
        return Path(explicit)
    for name in ("mariadbd", "mysqld"):
        if path := shutil.which(name) or shutil.which(name, path=SYSTEM_FOLDERS):
            return Path(path)
    raise ServerError(
        "neither mariadbd nor mysqld is installed; mariadb-server of Debian would do, or a URL in"
        f" {EXTERNAL}"
    )


def real_mysql_program() -> Path:
    """Return MySQL's own server, for tests that run on MariaDB too: that of Debian unstable.

    Raises:
        ServerError: the tests already run on MySQL or on a server of the user's, or there is none.
    """
    if os.environ.get(EXTERNAL):
        raise ServerError(f"tests run on the server in {EXTERNAL} alone")
    program = mysql_program()
    if "MariaDB" not in _version(program):
        raise ServerError(f"tests run on MySQL alone: {program}")
    return debian_server("mysqld", "mysql-server-core")


@cache
def _version(program: Path) -> str:
    """Return the version that a server reports.

    Raises:
        ServerError: it cannot be run.
    """
    try:
        process = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ServerError(f"{program} cannot be run: {error}") from None
    return process.stdout.strip()


def empty_data(program: Path) -> Path:
    """Return a data directory as before the first start, to be copied.

    Raises:
        ServerError: it cannot be created.
    """

    def make(path: Path) -> None:
        if "MariaDB" in _version(program):
            command = [*beginning(_installer(program)), "--skip-test-db"]
            command.append("--auth-root-authentication-method=normal")
        else:
            command = [*beginning(program), "--initialize-insecure"]
        process = subprocess.run(
            [*command, f"--datadir={path}", *LAYOUT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if process.returncode:
            raise ServerError(f"{command[0]} ended with {process.returncode}\n{process.stdout}")
        # MySQL's file with the server's identity, which must differ.
        (path / "auto.cnf").unlink(missing_ok=True)

    words = re.sub(r"[^\w.]+", "-", _version(program).partition("Ver")[2]).strip("-")
    return cached_path("mysql", words, make)


def _installer(program: Path) -> Path:
    """Return the program that creates a data directory for MariaDB."""
    name = "mariadb-install-db"
    path = shutil.which(name, path=str(program.resolve().parents[1] / "bin")) or shutil.which(name)
    if path is None:
        raise ServerError(f"{name} is not installed, beside {program}")
    return Path(path)


def beginning(program: Path) -> list[str]:
    """Return the first words of each command: without user settings, and as root if we are root."""
    return [str(program), "--no-defaults", *(["--user=root"] if os.geteuid() == 0 else [])]
