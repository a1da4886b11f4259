"""Commit records as documents beside the data; what they name are files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from penstock.backends.api.roll_forward import Piece
from penstock.backends.parquet.storage.documents import Cached
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.parquet.storage.uploads import Uploads
from penstock.backends.roll_forward.records import Records
from penstock.backends.roll_forward.states import Record
from penstock.model.records import CommitRecord


class CachedDocuments:
    """See `RecordDocuments`."""

    def __init__(self, storage: Storage) -> None:
        self.create = storage.documents.create
        self.replace = storage.documents.replace
        self.get = storage.documents.get
        self.read_all = Cached(storage.documents).read_all


class Files:
    """See `Pieces`."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    def publish(self, piece: Piece) -> bool:
        return self._uploads.publish(piece.name, piece.pending)

    def discard(self, pieces: Iterable[Piece]) -> None:
        self._uploads.discard((piece.name, piece.pending) for piece in pieces)


def records_of(storage: Storage, run_id: str) -> Records:
    return Records(CachedDocuments(storage), Files(storage.uploads), run_id)


def commit_record(record: Record, run_id: str, partition_id: str) -> CommitRecord:
    return CommitRecord(
        partition_id,
        record.attempt,
        record.rows,
        record.bytes,
        record.started_at,
        record.committed_at,
        transaction=run_id,
        files=tuple(piece.name for piece in record.pieces),
        read_at=record.read_at,
    )


def now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="microseconds")
