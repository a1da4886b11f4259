"""Runs of a series: a partition of one id is committed once by all of them.

An attempt claims its partition when it begins, after it has seen the partition's record. A claim
whose run has not committed may be taken over; that run's attempts are shut out first, so that none
commits later without claiming again.
"""

from __future__ import annotations

import hashlib
import json
from secrets import token_hex

from penstock.backends.parquet.records.records import records_of
from penstock.backends.parquet.storage.documents import Cached
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.documents import encode
from penstock.backends.roll_forward.states import Record
from penstock.backends.shared.refusals import loaded_already


def _folder(series: str) -> str:
    """A series may have a longer name than a file."""
    return f"series/{hashlib.sha256(series.encode()).hexdigest()[:32]}"


def claim(storage: Storage, series: str, run_id: str, generation: int, partition_id: str) -> None:
    """
    Raises:
        PermanentError: another run of the series has committed the partition.
    """
    name = f"{_folder(series)}/{partition_id}.json"
    # Written anew each time: who is about to take it over, and has shut out what began before,
    # finds that it has changed.
    mine = {
        "series": series,
        "run_id": run_id,
        "generation": generation,
        "nonce": token_hex(8),
    }
    documents = storage.documents
    while True:
        found = documents.get(name)
        if found is None:
            if documents.create(name, encode(mine)):
                return
            continue
        theirs = json.loads(found[0])
        if theirs["run_id"] != run_id:
            record = records_of(storage, theirs["run_id"]).shut_out(
                theirs["generation"], partition_id
            )
            if record is not None:
                raise loaded_already(series, partition_id, theirs["run_id"], record.committed_at)
        if documents.replace(name, encode(mine), found[1]):
            return


def committed(storage: Storage, series: str) -> dict[str, tuple[str, Record]]:
    """By partition, the run that has committed it and the record."""
    claims = {
        name.rpartition("/")[2].removesuffix(".json"): json.loads(content)
        for name, (content, _) in Cached(storage.documents).read_all(_folder(series)).items()
    }
    owners = {(raw["run_id"], raw["generation"]) for raw in claims.values()}
    records = {owner: records_of(storage, owner[0]).read_all(owner[1]) for owner in owners}
    found = {}
    for partition_id, raw in claims.items():
        record = records[raw["run_id"], raw["generation"]].get(partition_id)
        if record is not None and record[0].is_committed:
            found[partition_id] = (raw["run_id"], record[0])
    return found
