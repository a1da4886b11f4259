"""Data files that are written but not visible yet: what a commit record names can be published.

Local files are written beside the data and renamed into their place; on S3 they are multipart
uploads, whose completion makes them visible. Either is done by whoever comes first. To take a file
back, what would make it visible is ended first, then it is removed if it is visible already: so no
one who comes late makes it appear again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from penstock.backends.api.worker import Wait
from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.load.names import is_data, run_of
from penstock.backends.parquet.storage.documents import delete_keys, sync_folder
from penstock.backends.parquet.storage.transfer import Transfer
from penstock.errors import Diagnosis, TransientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# A part has at least 5 MiB, but for the last one, and there are 10,000 at most:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 << 20
MOST_PARTS = 10_000
# So many files keep what is less than a part in memory; the others keep it on disk.
MOST_IN_MEMORY = 4
LOCAL_BUFFER = 4 << 20
FOLDER_ATTEMPTS = 100

Upload = Mapping[str, Any]
"""What it takes to publish a file; JSON. Empty: it was published."""


class Sink(Protocol):
    """A file that is being written. `write` is for pyarrow, and only gathers."""

    size: int
    """Bytes that were written."""

    def write(self, data: Any) -> int: ...

    def drain(self, wait: Wait, *, crowded: bool) -> None:
        """Hand on what was gathered.

        Parameters:
            crowded: many files are open: keep nothing in memory.
        """
        ...

    def end(self, wait: Wait) -> None: ...

    def upload(self) -> Upload:
        """After the end, and once the transfer is done."""
        ...


class Uploads(Protocol):
    """Paths are relative to the dataset's folder."""

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        """
        Parameters:
            file_size: about how large the file may get.
        """
        ...

    def publish(self, path: str, upload: Upload) -> bool:
        """Make a file visible; False where it is neither visible nor can be."""
        ...

    def discard(self, files: Iterable[tuple[str, Upload]]) -> None:
        """Take files back, whether they were published or not."""
        ...

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files that are visible; one that is not there: nothing."""
        ...

    def put(self, path: str, content: bytes) -> None:
        """Write a small file that is visible at once; again with the same content: nothing."""
        ...

    def visible(self) -> Mapping[str, int]:
        """Sizes of the dataset's data files, by path."""
        ...

    def pending(self, run_id: str) -> Sequence[tuple[str, Upload]]:
        """What attempts of a run have begun, and nobody has published: by path, or file name."""
        ...

    def abandon(self, run_id: str, files: Iterable[tuple[str, Upload]]) -> None:
        """Let these of a run never be published."""
        ...


class _Gathering:
    """What pyarrow writes into: keeps it until it is drained."""

    closed = False

    def __init__(self) -> None:
        self.size = 0
        self._gathered: list[bytes] = []
        self._waiting = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._gathered.append(piece)
        self._waiting += len(piece)
        self.size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nothing is to be done before the file's end."""

    def _take(self) -> bytes:
        taken = b"".join(self._gathered)
        self._gathered, self._waiting = [], 0
        return taken


class LocalSink(_Gathering):
    """
    Parameters:
        path: of the file that is renamed later.
        name: the same, relative to the folder of the documents.
    """

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self._path = path
        self._name = name
        with translated("target", path):
            _in_folder(path, lambda: open(path, "xb").close())

    def drain(self, wait: Wait, *, crowded: bool) -> None:
        if self._waiting >= LOCAL_BUFFER or crowded:
            self._append(sync=False)

    def end(self, wait: Wait) -> None:
        self._append(sync=True)

    def _append(self, *, sync: bool) -> None:
        # Opened each time: there may be more files than a process may hold open.
        with translated("target", self._path):
            try:
                with open(self._path, "r+b") as file:
                    file.seek(0, os.SEEK_END)
                    file.write(self._take())
                    if sync:
                        file.flush()
                        os.fsync(file.fileno())
            except FileNotFoundError:
                raise TransientError(
                    f"target: {self._path} was removed while it was written: expected that this "
                    "attempt is alone, found that the partition was done by another one",
                    Diagnosis(side="target"),
                ) from None

    def upload(self) -> Upload:
        return {"file": self._name}


class LocalUploads:
    """
    Parameters:
        root: the dataset's folder.
        hidden: the folder of its documents.
    """

    def __init__(self, root: str, hidden: str) -> None:
        self._root = root
        self._hidden = hidden

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        # No reader takes it for data, not even one that looks into hidden folders.
        name = f"uploads/{run_id}/{os.path.basename(path)}.part"
        return LocalSink(os.path.join(self._hidden, name), name)

    def publish(self, path: str, upload: Upload) -> bool:
        written = os.path.join(self._hidden, upload["file"])
        final = os.path.join(self._root, path)
        with translated("target", final):
            try:
                _in_folder(final, lambda: os.rename(written, final), written)
            except FileNotFoundError:
                return os.path.exists(final)
            with suppress(FileNotFoundError):  # who replaces it may have removed it by now
                sync_folder(os.path.dirname(final))
            return True

    def discard(self, files: Iterable[tuple[str, Upload]]) -> None:
        for path, upload in files:
            self._end(upload)
            self.remove([path])

    def _end(self, upload: Upload) -> None:
        if upload:
            written = os.path.join(self._hidden, upload["file"])
            with translated("target", written), suppress(FileNotFoundError):
                os.unlink(written)

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
                        break  # not empty, or removed by somebody else
                    folder = os.path.dirname(folder)

    def put(self, path: str, content: bytes) -> None:
        full = os.path.join(self._root, path)
        # Two that end a run at once write the same, each under a name of its own.
        draft = os.path.join(self._hidden, f"{os.path.basename(path)}.{token_hex(4)}.draft")
        with translated("target", full):
            with open(draft, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
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
            elif is_data(path):
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
        with suppress(OSError):  # an attempt's files, or other runs', are there
            os.rmdir(folder)
            os.rmdir(os.path.dirname(folder))


def _in_folder(path: str, call: Callable[[], object], needed: str = "") -> None:
    """Do what makes a file in a folder, which is made where it is missing.

    Parameters:
        needed: a file without which it cannot be done.

    Raises:
        FileNotFoundError: that one is gone.
    """
    for left in reversed(range(FOLDER_ATTEMPTS)):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            call()
            return
        except FileNotFoundError:
            # The folder, or one above it, was empty, and somebody has removed it.
            if not left or (needed and not os.path.exists(needed)):
                raise


class S3Sink(_Gathering):
    """Parts of one multipart upload, each as large as the others but for the last."""

    def __init__(
        self, client: S3Client, bucket: str, key: str, transfer: Transfer, part_bytes: int
    ) -> None:
        super().__init__()
        self._client = client
        self._bucket = bucket
        self._key = key
        self._transfer = transfer
        self._part_bytes = part_bytes
        self._etags: dict[int, str] = {}
        self._parts = 0
        self._spool: Any = None
        self._spooled = 0
        with translated("target", self._shown):
            started = client.create_multipart_upload(Bucket=bucket, Key=key)
            self._id = started["UploadId"]

    @property
    def _shown(self) -> str:
        return f"s3://{self._bucket}/{self._key}"

    def drain(self, wait: Wait, *, crowded: bool) -> None:
        self._send(wait, last=False)
        if crowded and self._waiting:
            self._spill()

    def end(self, wait: Wait) -> None:
        self._send(wait, last=True)
        if self._spool is not None:
            self._spool.close()

    def _send(self, wait: Wait, *, last: bool) -> None:
        if self._spooled + self._waiting < self._part_bytes and not last:
            return
        left = memoryview(self._unspill() + self._take())
        while len(left) >= self._part_bytes or (last and left):
            self._part(left[: self._part_bytes], wait)
            left = left[self._part_bytes :]
        if left:
            self._gathered, self._waiting = [bytes(left)], len(left)

    def _part(self, content: memoryview, wait: Wait) -> None:
        self._parts += 1
        number = self._parts

        def send() -> None:
            with translated("target", self._shown):
                sent = self._client.upload_part(
                    Bucket=self._bucket,
                    Key=self._key,
                    UploadId=self._id,
                    PartNumber=number,
                    Body=content.tobytes(),
                )
            self._etags[number] = sent["ETag"]

        self._transfer.submit(send, wait)

    def _spill(self) -> None:
        with translated("target", tempfile.gettempdir()):
            if self._spool is None:
                descriptor, path = tempfile.mkstemp(prefix="penstock-")
                os.unlink(path)
                self._spool = os.fdopen(descriptor, "w+b")
            self._spooled += self._waiting
            self._spool.write(self._take())
            self._spool.flush()

    def _unspill(self) -> bytes:
        if not self._spooled:
            return b""
        self._spool.seek(0)
        found: bytes = self._spool.read()
        self._spool.seek(0)
        self._spool.truncate()
        self._spooled = 0
        return found

    def upload(self) -> Upload:
        """Of a file that was not ended: enough to discard it."""
        return {"id": self._id, "parts": [self._etags[n] for n in sorted(self._etags)]}


class S3Uploads:
    """
    Parameters:
        prefix: of the dataset's keys; empty or with ``/`` at its end.
    """

    def __init__(self, client: S3Client, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        # The last row group may reach beyond the size.
        part_bytes = max(PART_BYTES, 2 * file_size // MOST_PARTS)
        return S3Sink(self._client, self._bucket, self._prefix + path, transfer, part_bytes)

    def publish(self, path: str, upload: Upload) -> bool:
        key = self._prefix + path
        parts = [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(upload["parts"], start=1)]
        with translated("target", f"s3://{self._bucket}/{key}"):
            try:
                self._client.complete_multipart_upload(
                    Bucket=self._bucket,
                    Key=key,
                    UploadId=upload["id"],
                    MultipartUpload={"Parts": parts},  # type: ignore[typeddict-item]
                )
            except ClientError as error:
                if error.response["Error"]["Code"] != "NoSuchUpload":
                    raise
            else:
                return True
            try:
                self._client.head_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                return False
        return True

    def discard(self, files: Iterable[tuple[str, Upload]]) -> None:
        files = list(files)
        for path, upload in files:
            if upload:
                self._abort(path, upload)
        self.remove([path for path, _ in files])

    def _abort(self, path: str, upload: Upload) -> None:
        key = self._prefix + path
        with translated("target", f"s3://{self._bucket}/{key}"):
            try:
                self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=key, UploadId=upload["id"]
                )
            except ClientError as error:
                if error.response["Error"]["Code"] != "NoSuchUpload":
                    raise

    def remove(self, paths: Iterable[str]) -> None:
        delete_keys(self._client, self._bucket, [self._prefix + path for path in paths])

    def put(self, path: str, content: bytes) -> None:
        key = self._prefix + path
        with translated("target", f"s3://{self._bucket}/{key}"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=content)

    def visible(self) -> Mapping[str, int]:
        found = {}
        with translated("target", f"s3://{self._bucket}/{self._prefix}"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    path = item["Key"].removeprefix(self._prefix)
                    if is_data(path):
                        found[path] = item["Size"]
        return found

    def pending(self, run_id: str) -> Sequence[tuple[str, Upload]]:
        found = []
        with translated("target", f"s3://{self._bucket}/{self._prefix}"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            )
            for page in pages:
                for item in page.get("Uploads", ()):
                    if run_of(item["Key"]) == run_id:
                        path = item["Key"].removeprefix(self._prefix)
                        found.append((path, {"id": item["UploadId"]}))
        return found

    def abandon(self, run_id: str, files: Iterable[tuple[str, Upload]]) -> None:
        for path, upload in files:
            self._abort(path, upload)
