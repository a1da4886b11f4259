"""Files of a dataset on S3: multipart uploads, which become visible on completion."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.api.worker import Wait
from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.load.names import SUFFIXES, is_data, run_of
from penstock.backends.parquet.storage.documents import delete_keys, list_objects
from penstock.backends.parquet.storage.uploads import Gathering, Sink, Upload
from penstock.backends.shared.attempts.transfer import Transfer

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# All parts except the last have at least 5 MiB, and there are at most 10,000:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 << 20
MOST_PARTS = 10_000


class S3Sink(Gathering):
    """The parts of one multipart upload, all of the same size except the last."""

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
        self._id: str | None = None

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
        content = memoryview(self._unspill() + self._take())
        while len(content) >= self._part_bytes or (last and content):
            self._part(content[: self._part_bytes], wait)
            content = content[self._part_bytes :]
        if content:
            self._gathered, self._waiting = [bytes(content)], len(content)

    def _begin(self) -> str:
        if self._id is None:
            with translated("target", self._shown):
                started = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key)
            self._id = started["UploadId"]
        return self._id

    def _part(self, content: memoryview, wait: Wait) -> None:
        upload_id = self._begin()
        self._parts += 1
        number = self._parts

        def send() -> None:
            with translated("target", self._shown):
                uploaded = self._client.upload_part(
                    Bucket=self._bucket,
                    Key=self._key,
                    UploadId=upload_id,
                    PartNumber=number,
                    Body=content.tobytes(),
                )
            self._etags[number] = uploaded["ETag"]

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
        content: bytes = self._spool.read()
        self._spool.seek(0)
        self._spool.truncate()
        self._spooled = 0
        return content

    def upload(self) -> Upload:
        """Return the upload; for an unfinished file, enough to discard it.

        Its id is unknown if an interruption came before the answer to its creation.
        """
        return {"id": self._id, "parts": [self._etags[n] for n in sorted(self._etags)]}


class S3Uploads:
    """The data files of a dataset on S3.

    Args:
        prefix: the prefix of the dataset's keys; empty or with a trailing ``/``.
        suffixes: as in `FileFormat`.
    """

    def __init__(
        self, client: S3Client, bucket: str, prefix: str, suffixes: tuple[str, ...] = SUFFIXES
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._suffixes = suffixes

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        # The last row group may exceed the size.
        part_bytes = max(PART_BYTES, 2 * file_size // MOST_PARTS)
        return S3Sink(self._client, self._bucket, self._prefix + path, transfer, part_bytes)

    def publish(self, piece: Piece) -> bool:
        key, upload = self._prefix + piece.name, piece.pending
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

    def discard(self, pieces: Iterable[Piece]) -> None:
        pieces = list(pieces)
        for piece in pieces:
            if piece.pending:
                unknown = piece.pending["id"] is None
                found = self._uploads(piece.name) if unknown else [(piece.name, piece.pending)]
                for upload in [upload for name, upload in found if name == piece.name]:
                    self._abort(piece.name, upload)
        self.remove([piece.name for piece in pieces])

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
        with translated("target", f"s3://{self._bucket}/{self._prefix}"):
            listed = list_objects(self._client, self._bucket, self._prefix)
            sizes = {item["Key"].removeprefix(self._prefix): item["Size"] for item in listed}
        return {path: size for path, size in sizes.items() if is_data(path, self._suffixes)}

    def pending(self, run_id: str) -> Sequence[tuple[str, Upload]]:
        return [upload for upload in self._uploads("") if run_of(upload[0]) == run_id]

    def _uploads(self, prefix: str) -> Iterator[tuple[str, Upload]]:
        prefix = self._prefix + prefix
        with translated("target", f"s3://{self._bucket}/{prefix}"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=prefix
            )
            for page in pages:
                for item in page.get("Uploads", ()):
                    yield item["Key"].removeprefix(self._prefix), {"id": item["UploadId"]}

    def abandon(self, run_id: str, files: Iterable[tuple[str, Upload]]) -> None:
        for path, upload in files:
            self._abort(path, upload)
