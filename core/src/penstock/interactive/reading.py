"""`read`: the rows of a source as Arrow."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.reading import plan_rows
from penstock.engine.value_display import isolate_display
from penstock.spec.read_spec import ReadSpec

if TYPE_CHECKING:
    import pyarrow as pa


@isolate_display
def read(spec: ReadSpec) -> pa.RecordBatchReader:
    """Return the rows of a source as Arrow, in one stream.

    The columns have the types that they would have in files, see the page about types. A few
    batches are in memory at a time. Rows are read as the reader is iterated over, in this process,
    in one session, which ends with the rows, with `close`, or with a ``with`` block.

    Args:
        spec: the rows.

    Raises:
        UsageError, PlanningError: the rows cannot be read.
        TransientError: the source cannot be reached.
        pyarrow.ArrowInvalid: from the reader: the source has failed, or a value has no place in its
            type; the message is Penstock's.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from penstock.backends.shared.values.arrow import (  # noqa: PLC0415
        Caster,
        schema_from_text,
    )

    # Planned like a copy into files, so that types are the same. Nothing is written.
    folder = Path(tempfile.gettempdir()) / f"penstock-read-{secrets.token_hex(8)}"
    rows = plan_rows(spec.as_copy(f"{folder.as_uri()}/"))
    schema = schema_from_text(rows.schema)
    caster = Caster(schema, "source")

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.blocks():
            yield caster.cast(batch)
            del batch

    # An imported stream ends its iterator when it is closed; a reader of an iterator does not.
    return pa.RecordBatchReader.from_stream(pa.RecordBatchReader.from_batches(schema, batches()))
