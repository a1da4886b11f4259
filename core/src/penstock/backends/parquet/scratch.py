"""A separate dataset next to a target's, for measurements: in a folder on the same disk."""

from __future__ import annotations

import os
import shutil
from urllib.parse import quote

from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.location import FILE, parse
from penstock.backends.parquet.storage.storage import open_storage
from penstock.backends.shared.scratch_folder import ScratchFolder
from penstock.backends.shared.scratch_schema import NEEDED_BY
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

_CONTROL = "penstock"


class ParquetScratch(ScratchFolder):
    """A scratch dataset.

    Args:
        like: as for `WithScratch.scratch`; here it only says that there is a table to imitate.
    """

    def __init__(self, url: str, like: TableRef | None) -> None:
        location = parse(url, "--target")
        if location.scheme != FILE:
            raise PlanningError(
                f"{NEEDED_BY}: expected a local folder, whose locks show when tune's files can be "
                f"removed; found {location}: tune with a folder on this machine, or compare "
                "degrees by copying a part (--where)"
            )
        super().__init__(os.path.abspath(location.path))
        if like is not None and manifest.read(open_storage(url, _CONTROL).documents).files:
            difference = "its columns are the source's, with --types, not the target's"
            self.remarks = (*self.remarks, difference)

    @property
    def _dataset(self) -> str:
        return f"{self.folder}/dataset"

    def _target(self) -> str:
        return f"file://{quote(self._dataset)}"

    def _create(self) -> None:
        """Do nothing: the copy creates everything."""

    def make_table(self) -> None:
        shutil.rmtree(self._dataset, ignore_errors=True)
