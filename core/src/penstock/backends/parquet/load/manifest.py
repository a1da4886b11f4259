"""The list of a dataset's current files, with the run and selection that each belongs to.

It is replaced only if it is unchanged, and otherwise changed again. So if runs of different
selections end at the same time, the list has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.backends.api.execution.roll_forward import RecordDocuments
from penstock.backends.roll_forward.documents import decode, encode
from penstock.model.codec import JsonForm, to_json
from penstock.model.plans import PartitionPlan

NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the dataset."""

    json_form = JsonForm(exact=True)

    path: str
    rows: int
    bytes: int
    run: str
    partition: str
    """The partition; empty if the file has no rows, and only records the columns."""
    selection: Mapping[str, Any] = field(hash=False)
    """What was selected from the source: the condition, and the extent of a given partition."""


EVERYTHING: Mapping[str, Any] = {"where": None, "extent": None}
"""The selection of a run without a condition whose partitions cover the source."""


def selections(spec: Mapping[str, Any], plan: PartitionPlan) -> dict[str, Mapping[str, Any]]:
    """Return what each partition of a run selects."""
    return {
        partition.id: {
            "where": spec["where"],
            "extent": to_json(partition.extent) if plan.has_given_partitions else None,
        }
        for partition in plan.partitions
    }


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a dataset."""

    files: tuple[Entry, ...] = ()
    schema: str = ""
    """As in `LoadPlan.schema`, including the columns that name folders."""
    partition_by: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    """Files being removed. Their run may be unfinished; it must not list them again."""

    serial: int = 0
    """Counts the changes, so that no version ever recurs after files were removed in between."""
    owner: str = ""
    """The run that last emptied the dataset, or replaced files in it."""


def read(documents: RecordDocuments) -> Manifest:
    """Return the manifest; an empty one if it does not exist."""
    return _read(documents)[0]


def change(documents: RecordDocuments, changed: Callable[[Manifest], Manifest]) -> None:
    """Change the manifest.

    Args:
        documents: the documents of the dataset.
        changed: returns the new manifest for the old one; called again if another process was
            faster.
    """
    while True:
        before, version = _read(documents)
        # Written even if nothing changes: other facts that were checked are valid only if it is
        # still the same.
        after = replace(changed(before), serial=before.serial + 1)
        content = encode(to_json(after))
        if version:
            is_written = documents.replace(NAME, content, version)
        else:
            is_written = documents.create(NAME, content)
        if is_written:
            return


def _read(documents: RecordDocuments) -> tuple[Manifest, str]:
    document = documents.get(NAME)
    if document is None:
        return Manifest(), ""
    return decode(Manifest, document[0], NAME), document[1]


def removed(documents: RecordDocuments, paths: Collection[str]) -> None:
    """Forget files that were leaving and are now removed."""

    def forgotten(current: Manifest) -> Manifest:
        return replace(current, leaving=tuple(p for p in current.leaving if p not in paths))

    if paths:
        change(documents, forgotten)
