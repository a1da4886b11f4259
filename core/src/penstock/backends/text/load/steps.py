"""Steps around a load of text files: as for any dataset, plus the assembly of a single file."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.manifest import Manifest
from penstock.backends.parquet.load.steps import Steps
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.shared.values.arrow import schema_from_text
from penstock.backends.text.load.storage import TextStorage
from penstock.backends.text.load.text_format import TextFormat
from penstock.backends.text.load.whole_file import WholeFile
from penstock.model.plans import LoadPlan, Step

WHOLE = "file"


def with_whole_file(load: LoadPlan, storage: TextStorage) -> LoadPlan:
    """Return the plan of a load whose parts become one file."""
    put = f"assemble the parts into {storage.whole}"
    *loading, clean = load.steps
    return replace(
        load,
        steps=(
            *loading,
            Step(WHOLE, put, WHOLE, after=True, rank=1),
            replace(clean, name="remove the parts", rank=2),
        ),
    )


class TextSteps(Steps):
    """The steps of one run into text files."""

    _storage: TextStorage

    def __init__(self, storage: TextStorage, runs: Runs, run: RunRow) -> None:
        super().__init__(storage, runs, run)
        self._whole = WholeFile(storage, f"{run.run_id}-{run.generation}")

    def do(self, step: Step) -> None:
        if step.statement == WHOLE:
            self._put_together()
            return
        if step.statement == "clean" and self._storage.whole:
            self._let_go()
        super().do(step)

    def _put_together(self) -> None:
        run = self._runs.find(self._run_id)
        assert run is not None
        if WHOLE in run.steps or self._whole.publish_again():
            return  # by another process, maybe long ago
        records = self._committed()
        self._check_switched()
        parts = [
            piece.name
            for partition in self._run.plan.partitions
            for piece in records[partition.id].pieces
        ]
        format_ = self._storage.format
        assert isinstance(format_, TextFormat)
        header = format_.header(schema_from_text(self._schema))
        draft = self._whole.draft(format_.packed(header) if header or not parts else b"", parts)
        # The draft contains all parts only if they existed until the end.
        self._fence.check_owner(self._run_id, run)
        self._fence.check_there(self._run_id, self._fence.committed_files(self._run_id, run))
        self._whole.publish(draft)

    def _let_go(self) -> None:
        """Remove the parts from the dataset, because the single file has their rows."""

        def without(current: Manifest) -> Manifest:
            mine = [entry.path for entry in current.files if entry.run == self._run_id]
            remaining_files = tuple(entry for entry in current.files if entry.run != self._run_id)
            return replace(
                current, files=remaining_files, leaving=tuple(sorted({*current.leaving, *mine}))
            )

        manifest.change(self._storage.documents, without)
