"""One file of all partitions, which replaces an older one atomically.

Parts are assembled into a draft. A document, which only one process can create, determines which
draft becomes the file; then any process may rename it. Drafts of other runs are removed before, so
that a process stopped for long cannot restore one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex

from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.storage.documents import sync_folder
from penstock.backends.shared.private_files import make_own_folder
from penstock.backends.text.load.storage import TextStorage
from penstock.errors import Diagnosis, TransientError

FOLDER = "whole"
PIECE = 8 << 20


class WholeFile:
    """The single file of a dataset.

    Args:
        name: identifies its content, by run and generation; no two are equal.
    """

    def __init__(self, storage: TextStorage, name: str) -> None:
        self._storage = storage
        self._document = f"{FOLDER}/{name}.json"
        self._name = name

    def draft(self, header: bytes, parts: Sequence[str]) -> str:
        """Assemble parts in order, without making the result visible.

        Args:
            header: the first line, compressed as the parts are; empty for none.
            parts: paths within the dataset.

        Returns:
            The draft's name.

        Raises:
            TransientError: a part no longer exists, because another process has made the file
                since.
        """
        name = f"{FOLDER}/{self._name}-{token_hex(6)}.part"
        path = self._path(name)
        with translated("target", path):
            make_own_folder(os.path.dirname(path), self._storage.hidden)
            with open(path, "xb") as file:
                file.write(header)
                file.flush()
                for part in parts:
                    self._append(file.fileno(), os.path.join(self._storage.location.path, part))
                os.fsync(file.fileno())
        return name

    def _append(self, descriptor: int, part: str) -> None:
        try:
            source = os.open(part, os.O_RDONLY)
        except FileNotFoundError:
            raise TransientError(
                f"target: {part} no longer exists: another process has assembled the parts",
                Diagnosis(side="target"),
            ) from None
        try:
            _copy(source, descriptor)
        finally:
            os.close(source)

    def publish(self, draft: str) -> None:
        """Make a draft the file, or find that another with the same rows was chosen."""
        documents = self._storage.documents
        if not documents.create(self._document, json.dumps({"draft": draft}).encode()):
            choice = documents.get(self._document)
            assert choice is not None
            mine, draft = draft, json.loads(choice[0])["draft"]
            self._remove(mine)
        for other in self._drafts():
            if other != draft:
                self._remove(other)
        self._rename(draft)

    def publish_again(self) -> bool:
        """Complete what a killed process began; return False if no draft was chosen."""
        choice = self._storage.documents.get(self._document)
        if choice is None:
            return False
        self._rename(json.loads(choice[0])["draft"])
        return True

    def _rename(self, draft: str) -> None:
        final = self._storage.whole
        with translated("target", final):
            with suppress(FileNotFoundError):  # another process has renamed it
                os.rename(self._path(draft), final)
            sync_folder(os.path.dirname(final))

    def _drafts(self) -> list[str]:
        folder = self._path(FOLDER)
        with translated("target", folder):
            return [f"{FOLDER}/{name}" for name in os.listdir(folder) if name.endswith(".part")]

    def _remove(self, name: str) -> None:
        with translated("target", name), suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._storage.hidden, name)


def _copy(source: int, descriptor: int) -> None:
    """Append an open file's content to another, inside the kernel if possible."""
    while True:
        try:
            if not os.copy_file_range(source, descriptor, PIECE):
                return
        except (AttributeError, OSError):
            break
    while piece := os.read(source, PIECE):
        while piece:
            piece = piece[os.write(descriptor, piece) :]
