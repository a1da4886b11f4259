"""Files of a local dataset: written next to the data, and renamed into place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex

from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.api.worker import Wait
from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.load.names import SUFFIXES, is_data
from penstock.backends.parquet.storage.documents import sync_folder, write_synced
from penstock.backends.parquet.storage.uploads import Gathering, Sink, Upload
from penstock.backends.shared.attempts.transfer import Transfer
from penstock.backends.shared.private_files import OUTPUT, make_own_folder
from penstock.errors import Diagnosis, TransientError

LOCAL_BUFFER = 4 << 20
FOLDER_ATTEMPTS = 100


class LocalSink(Gathering):
    """A local file being written.

    Args:
        path: the file to be renamed later.
        name: its name, relative to the folder of the documents.
    """

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self._path = path
        self._name = name
        self._is_begun = False

    def drain(self, wait: Wait, *, crowded: bool) -> None:
        if self._waiting >= LOCAL_BUFFER or crowded:
            self._append(sync=False)

    def end(self, wait: Wait) -> None:
        self._append(sync=True)

    def _append(self, *, sync: bool) -> None:
        # Opened each time: there may be more files than a process may hold open.
        with translated("target", self._path):
            self._begin()
            try:
                with open(self._path, "r+b") as file:
                    file.seek(0, os.SEEK_END)
                    for piece in self._pieces():
                        file.write(piece)
                    if sync:
                        file.flush()
                        os.fsync(file.fileno())
            except FileNotFoundError:
                raise TransientError(
                    f"target: {self._path} was removed while it was written: another attempt has "
                    "committed the partition",
                    Diagnosis(side="target"),
                ) from None

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            documents = self._path.removesuffix(self._name)
            _in_folder(self._path, lambda: open(self._path, "xb").close(), within=documents)

    def upload(self) -> Upload:
        return {"file": self._name}


class LocalUploads:
    """The data files of a local dataset.

    Args:
        root: the dataset's folder.
        hidden: the folder of its documents.
        suffixes: as in `FileFormat`.
    """

    def __init__(self, root: str, hidden: str, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        self._root = root
        self._hidden = hidden
        self._suffixes = suffixes

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        # No reader treats it as data, not even one that reads hidden folders.
        name = f"uploads/{run_id}/{os.path.basename(path)}.part"
        return LocalSink(os.path.join(self._hidden, name), name)

    def publish(self, piece: Piece) -> bool:
        upload = os.path.join(self._hidden, piece.pending["file"])
        final = os.path.join(self._root, piece.name)
        with translated("target", final):
            try:
                _in_folder(final, lambda: os.rename(upload, final), upload)
            except FileNotFoundError:
                return os.path.exists(final)
            # the process that replaces it may have removed it by now
            with suppress(FileNotFoundError):
                sync_folder(os.path.dirname(final))
            return True

    def discard(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.pending:
                self._end(piece.pending)
            self.remove([piece.name])

    def _end(self, upload: Upload) -> None:
        path = os.path.join(self._hidden, upload["file"])
        with translated("target", path), suppress(FileNotFoundError):
            os.unlink(path)

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            full = os.path.join(self._root, path)
            with translated("target", full):
                with suppress(FileNotFoundError):
                    os.unlink(full)
                folder = os.path.dirname(path)
                while folder:
                    try:
                        os.rmdir(os.path.join(self._root, folder))
                    except OSError:
                        break  # not empty, or removed by another process
                    folder = os.path.dirname(folder)

    def put(self, path: str, content: bytes) -> None:
        full = os.path.join(self._root, path)
        # Two processes that end a run at once write the same content, each under its own name.
        draft = os.path.join(self._hidden, f"{os.path.basename(path)}.{token_hex(4)}.draft")
        with translated("target", full):
            write_synced(draft, content, OUTPUT)
            _in_folder(full, lambda: os.rename(draft, full))

    def visible(self) -> Mapping[str, int]:
        with translated("target", self._root):
            return dict(self._walk(""))

    def _walk(self, folder: str) -> Iterator[tuple[str, int]]:
        try:
            entries = list(os.scandir(os.path.join(self._root, folder)))
        except FileNotFoundError:
            return
        for entry in entries:
            path = f"{folder}{entry.name}"
            if entry.is_dir():
                if not entry.name.startswith(("_", ".")):
                    yield from self._walk(path + "/")
            elif is_data(path, self._suffixes):
                with suppress(FileNotFoundError):
                    yield path, os.stat(entry.path).st_size

    def _folder(self, run_id: str) -> str:
        return os.path.join(self._hidden, "uploads", run_id)

    def pending(self, run_id: str) -> Sequence[tuple[str, Upload]]:
        folder = self._folder(run_id)
        with translated("target", folder):
            try:
                names = os.listdir(folder)
            except FileNotFoundError:
                return []
        return [(name, {"file": f"uploads/{run_id}/{name}"}) for name in names]

    def abandon(self, run_id: str, files: Iterable[tuple[str, Upload]]) -> None:
        for _, upload in files:
            self._end(upload)
        folder = self._folder(run_id)
        with suppress(OSError):  # files of attempts or other runs are there
            os.rmdir(folder)
            os.rmdir(os.path.dirname(folder))


def _in_folder(path: str, call: Callable[[], object], needed: str = "", within: str = "") -> None:
    """Create a file in a folder, which is created if it is missing.

    Args:
        path: the file to create.
        call: creates the file.
        needed: a file without which it cannot be created.
        within: the folder of the documents, if it is created there.

    Raises:
        FileNotFoundError: the needed file does not exist.
    """
    for retries in reversed(range(FOLDER_ATTEMPTS)):
        try:
            if within:
                make_own_folder(os.path.dirname(path), within)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            call()
            return
        except FileNotFoundError:
            # The folder, or one above it, was empty, and was removed by another process.
            if not retries or (needed and not os.path.exists(needed)):
                raise
