"""Commit records: one document for each partition of a generation of a run.

An attempt commits by writing the record, which names its pieces, if the record is unchanged since
the attempt began. The pieces are then published by the attempt, or by the next process that finds
the record, and the record says when that is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.backends.api.execution.roll_forward import Pieces, RecordDocuments
from penstock.backends.roll_forward.documents import decode, encode
from penstock.backends.roll_forward.states import (
    VOID,
    Record,
    State,
    closed,
    discarded,
    published,
    shut_out,
    withdrawn,
)
from penstock.errors import Diagnosis, PermanentError
from penstock.model.codec import to_json

ABSENT = ""
"""The version of a record that does not exist."""
# Documents read, or pieces published, in parallel.
THREADS = 16


class Records:
    """The commit records of one run."""

    def __init__(self, documents: RecordDocuments, pieces: Pieces, run_id: str) -> None:
        self._documents = documents
        self._pieces = pieces
        self._run_id = run_id

    def _folder(self, generation: int) -> str:
        return f"runs/{self._run_id}/{generation}"

    def _name(self, generation: int, partition_id: str) -> str:
        return f"{self._folder(generation)}/{partition_id}.json"

    def read(self, generation: int, partition_id: str) -> tuple[Record, str]:
        """Return the record and its version."""
        name = self._name(generation, partition_id)
        document = self._documents.get(name)
        return (
            (VOID, ABSENT) if document is None else (decode(Record, document[0], name), document[1])
        )

    def read_all(self, generation: int) -> dict[str, tuple[Record, str]]:
        """Return records and versions, by partition."""
        documents = self._documents.read_all(self._folder(generation))
        return {
            name.rpartition("/")[2].removesuffix(".json"): (decode(Record, content, name), version)
            for name, (content, version) in documents.items()
        }

    def write(self, generation: int, partition_id: str, record: Record, version: str) -> bool:
        """Write a record; return False, with nothing changed, if its version differs.

        Args:
            generation: the generation of the run.
            partition_id: the id of the partition.
            record: the record.
            version: the version that the document is expected to have.
        """
        name, content = self._name(generation, partition_id), encode(to_json(record))
        if version == ABSENT:
            return self._documents.create(name, content)
        return self._documents.replace(name, content, version)

    def publish(self, generation: int, partition_id: str, record: Record, version: str) -> Record:
        """Make a committed record's pieces visible, and remove those that they replace.

        Args:
            generation: the generation of the run.
            partition_id: the id of the partition.
            record: the record.
            version: the version that the document has.

        Returns:
            the record afterwards.

        Raises:
            PermanentError: a piece no longer exists.
        """
        while record.state is State.COMMITTED:
            lost_pieces = [piece.name for piece in record.pieces if not self._pieces.publish(piece)]
            if not lost_pieces:
                self._pieces.discard(record.remove)
                done = published(record)
                if self.write(generation, partition_id, done, version):
                    return done
            current, version = self.read(generation, partition_id)
            if version == ABSENT or (lost_pieces and current == record):
                raise PermanentError(
                    f"target: partition {partition_id} of run {self._run_id} is committed, but "
                    f"some of what it loaded is missing: expected {', '.join(lost_pieces)}; found "
                    "none (was something removed by hand?)",
                    Diagnosis(side="target"),
                )
            record = current
        return record

    def publish_all(self, generation: int) -> dict[str, Record]:
        """Publish all commits; return the committed records, by partition."""
        stored = self.read_all(generation)

        def publish(partition_id: str) -> Record:
            return self.publish(generation, partition_id, *stored[partition_id])

        committed = [name for name in sorted(stored) if stored[name][0].is_committed]
        if all(stored[name][0].is_published for name in committed):
            return {name: stored[name][0] for name in committed}
        with ThreadPoolExecutor(THREADS) as pool:
            records = dict(zip(committed, pool.map(publish, committed), strict=True))
        return {name: record for name, record in records.items() if record.is_committed}

    def shut_out(self, generation: int, partition_id: str) -> Record | None:
        """Prevent attempts that have begun from committing, unless one has committed.

        Returns:
            the record, if one has.
        """
        while True:
            current, version = self.read(generation, partition_id)
            if current.is_committed:
                return current
            if current.state is State.CLOSED or self.write(
                generation, partition_id, shut_out(current), version
            ):
                return None

    def take_back(self, generation: int, partition_id: str, request: str) -> bool:
        """Void a record, so that the partition is copied again.

        The rows stay until the next attempt commits, which removes them.

        Args:
            generation: the generation of the run.
            partition_id: the id of the partition.
            request: the request's name; a repeated request has no effect.

        Returns:
            whether something was committed.
        """
        while True:
            current, version = self.read(generation, partition_id)
            if request in current.requests or current.state is State.CLOSED:
                return False
            if current.state is State.COMMITTED:
                self.publish(generation, partition_id, current, version)
                continue
            if self.write(generation, partition_id, withdrawn(current, request), version):
                return current.is_committed

    def take_back_all(self, generation: int, requests: Mapping[str, Sequence[str]]) -> None:
        """Void the requested records that have not been voided yet.

        Args:
            generation: the generation of the run.
            requests: partition ids, by request.
        """
        records = self.read_all(generation)
        for request, partition_ids in requests.items():
            for partition_id in partition_ids:
                if partition_id not in records or request not in records[partition_id][0].requests:
                    self.take_back(generation, partition_id, request)

    def close(self, generation: int, partition_ids: Sequence[str]) -> None:
        """End a generation: take back its commits, and allow no more."""

        def close(partition_id: str) -> None:
            while True:
                current, version = self.read(generation, partition_id)
                if current.state is not State.CLOSED:
                    self.write(generation, partition_id, closed(current), version)
                elif current.remove:
                    self._pieces.discard(current.remove)
                    self.write(generation, partition_id, discarded(current), version)
                else:
                    return

        records = self.read_all(generation)
        open_ids = [
            name for name in partition_ids if name not in records or not records[name][0].is_over
        ]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(close, open_ids))
