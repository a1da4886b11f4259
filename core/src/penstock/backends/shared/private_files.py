"""Folders and files of Penstock's own state, which belong to this user, whatever the umask.

Within a dataset, others may list the folders, as libraries that read it do, but not read the files.
"""

from __future__ import annotations

import os
from contextlib import suppress

PRIVATE = 0o600
"""The mode of files that only their user may read."""
READABLE = 0o644
"""The mode of files that others may read, as far as the umask permits."""
OUTPUT = 0o666
"""The mode of files that are the result of a copy: the umask decides."""
_PRIVATE_FOLDER, _LISTED_FOLDER = 0o700, 0o755
_SUFFIX = ".penstock"


def make_own_folder(folder: str, within: str) -> None:
    """Create a folder that nobody else may write to, and missing ones above it.

    Args:
        folder: the folder; may exist.
        within: the folder itself, or one above it, from which on folders are Penstock's own. Nobody
            else may enter one with the suffix of folders beside files.

    Raises:
        FileNotFoundError: another process is removing one of them.
    """
    missing = []
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    own = os.path.abspath(within)
    for path in reversed(missing):
        mode = 0o777
        if path.endswith(_SUFFIX):
            mode = _PRIVATE_FOLDER
        elif path == own or path.startswith(f"{own}{os.sep}"):
            mode = _LISTED_FOLDER
        with suppress(FileExistsError):
            os.mkdir(path, mode)


def open_new(path: str, flags: int, mode: int = PRIVATE) -> int:
    """Open a file, created with a mode if it is missing, and return its descriptor."""
    return os.open(path, flags | os.O_CREAT, mode)
