"""Runs of a series, which together commit each partition id once.

An attempt claims its partition at its beginning, after reading the partition's record. A claim
whose run has not committed can be taken over; that run's attempts are shut out first, so that none
commits later without a new claim.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from secrets import token_hex

from penstock.backends.api.execution.roll_forward import RecordDocuments
from penstock.backends.roll_forward.documents import decode, encode
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.states import Record
from penstock.backends.shared.attempts.refusals import loaded_already
from penstock.model.codec import JsonForm, to_json


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one run of a series to commit a partition."""

    json_form = JsonForm(exact=True)

    series: str
    run_id: str
    generation: int
    nonce: str = field(default_factory=lambda: token_hex(8))
    """New for each claim, so that a run about to take one over, after shutting out earlier
    attempts, notices a change.
    """


def _folder(series: str) -> str:
    """Return the folder of a series, whose name may be longer than a file's."""
    return f"series/{hashlib.sha256(series.encode()).hexdigest()[:32]}"


def claim_partition(documents: RecordDocuments, runs: Runs, mine: Claim, partition_id: str) -> None:
    """Claim a partition for a run.

    Args:
        documents: the documents of the target.
        runs: the documents of the runs.
        mine: the claim of this run.
        partition_id: the id of the partition.

    Raises:
        PermanentError: another run of the series has committed the partition.
    """
    name, content = f"{_folder(mine.series)}/{partition_id}.json", encode(to_json(mine))
    while True:
        document = documents.get(name)
        if document is None:
            if documents.create(name, content):
                return
            continue
        theirs = decode(Claim, document[0], name)
        if theirs.run_id != mine.run_id:
            record = runs.records(theirs.run_id).shut_out(theirs.generation, partition_id)
            if record is not None:
                raise loaded_already(mine.series, partition_id, theirs.run_id, record.committed_at)
        if documents.replace(name, content, document[1]):
            return


def committed_in_series(
    documents: RecordDocuments, runs: Runs, series: str
) -> dict[str, tuple[str, Record]]:
    """Return, by partition, the run that committed it and the record.

    Args:
        documents: the documents of the target.
        runs: the documents of the runs.
        series: the name of the series.
    """
    claims = {
        name.rpartition("/")[2].removesuffix(".json"): decode(Claim, content, name)
        for name, (content, _) in documents.read_all(_folder(series)).items()
    }
    owners = {(claim.run_id, claim.generation) for claim in claims.values()}
    records = {owner: runs.records(owner[0]).read_all(owner[1]) for owner in owners}
    commits = {}
    for partition_id, claim in claims.items():
        record = records[claim.run_id, claim.generation].get(partition_id)
        if record is not None and record[0].is_committed:
            commits[partition_id] = (claim.run_id, record[0])
    return commits
