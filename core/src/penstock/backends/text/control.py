"""The control store: the parts that only a dataset of text files has."""

from __future__ import annotations

from penstock.backends.api.execution.control import RunRow
from penstock.backends.parquet.control import ControlDocuments
from penstock.backends.text.load.steps import TextSteps
from penstock.backends.text.load.storage import TextStorage


class TextControl(ControlDocuments):
    """The control store of a dataset of text files."""

    _storage: TextStorage

    def steps(self, run: RunRow) -> TextSteps:
        return TextSteps(self._storage, self.runs, run)
