"""The user that runs PostgreSQL, which refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

RunAs = Literal["auto", "self", "namespace", "user"]


@dataclass(frozen=True)
class Identity:
    """A way to run a command as a user that PostgreSQL accepts."""

    prefix: tuple[str, ...] = ()
    """The words before the command."""
    owner: tuple[int, int] | None = None
    """The user and group that must own the data, if not our own."""

    def give(self, path: Path) -> None:
        """Give `path` and everything below it to the user that runs the command."""
        if self.owner is not None:
            for entry in (path, *path.rglob("*")):
                os.chown(entry, *self.owner, follow_symlinks=False)

    def can_run(self, program: Path) -> bool:
        """Whether that user may execute `program`: a folder above may be closed to others."""
        return _succeeds(*self.prefix, str(program), "--version")


def identity(run_as: RunAs = "auto") -> Identity:
    """Choose how to run PostgreSQL.

    Args:
        run_as: ``self`` for the current user; ``namespace`` for an unprivileged user in a new user
            namespace, outside of which the files still belong to root; ``user`` for an unprivileged
            user of the system (root only); ``auto`` for the first of these that works.

    Raises:
        RuntimeError: none of them works on this machine.
    """
    if run_as == "self" or (run_as == "auto" and os.geteuid() != 0):
        return Identity()
    makers = {"namespace": [_in_namespace], "user": [_for_real]}.get(
        run_as, [_in_namespace, _for_real]
    )
    for make in makers:
        for user in _unprivileged_users():
            if _succeeds(*(candidate := make(user)).prefix, "true"):
                return candidate
    raise RuntimeError(
        "PostgreSQL does not run as root, and here neither `unshare --user` nor `setpriv` makes us "
        "somebody else; run as an ordinary user instead"
    )


def _unprivileged_users() -> list[pwd.struct_passwd]:
    # A user id is not enough, because initdb looks up its user's name.
    users = {user.pw_name: user for user in pwd.getpwall() if user.pw_uid != 0}
    return [users[name] for name in ("nobody", "postgres", "daemon") if name in users]


def _in_namespace(user: pwd.struct_passwd) -> Identity:
    return Identity(
        ("unshare", "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}")
    )


def _for_real(user: pwd.struct_passwd) -> Identity:
    ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return Identity(("setpriv", *ids), (user.pw_uid, user.pw_gid))


def _succeeds(*argv: str) -> bool:
    if shutil.which(argv[0]) is None:
        return False
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
