"""The same record batches in memory, written to ClickHouse by Penstock's stage and insert_arrow.

Each function returns the CPU seconds of this process alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from typing import Any

import pyarrow as pa

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.clickhouse.connection import connect
from penstock.backends.clickhouse.load.stages import Stages
from penstock.backends.clickhouse.writer import INSERT_BYTES, LEAST, MOST, StageStream
from penstock.backends.shared.values.arrow import schema_to_text
from penstock.model.extents import Whole
from penstock.model.plans import Partition
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter
from penstock_testkit import connect_clickhouse

Writer = Callable[[str, TableRef, Sequence[pa.RecordBatch]], float]
# The range of Date32 in days, which a copy would ask the server for.
ENDS = {LEAST: b"-719162", MOST: b"2932896"}
WAIT_SECONDS = 300.0


def penstock(url: str, table: TableRef, batches: Sequence[pa.RecordBatch]) -> float:
    """Write as Penstock does, with casts and checks: into a stage, then from there to the table.

    Args:
        url: the URL of ClickHouse.
        table: the table to load.
        batches: the rows.
    """
    columns = [
        pa.field(each.name, each.type, False, ENDS if pa.types.is_date(each.type) else None)
        for each in batches[0].schema
    ]
    spec: dict[str, Any] = dict.fromkeys(each.name for each in fields(WorkerSpec))
    spec |= {"run_id": "bench", "target_table": table, "schema": schema_to_text(pa.schema(columns))}
    attempt = Attempt(WorkerSpec(**spec), Partition("p0001", Whole()), 1)
    wait = Waiter(Meter(), WAIT_SECONDS)
    with closing(connect(url, "target")) as connection, _cpu() as took:
        stages = Stages(connection, table.schema)
        stream = StageStream(connection, stages, attempt)
        for batch in batches:
            stream.write(batch, wait)
        stream.end(wait)
        for piece in stream.pieces():
            stages.publish(piece)
        stream.remove()
    return took[0]


def insert_arrow(url: str, table: TableRef, batches: Sequence[pa.RecordBatch]) -> float:
    """Insert as many rows at a time as Penstock does.

    Args:
        url: the URL of ClickHouse.
        table: the table to load.
        batches: the rows.
    """
    with closing(connect_clickhouse(url)) as client, _cpu() as took:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(each.nbytes for each in waiting) >= INSERT_BYTES:
                client.insert_arrow(f"{table}", pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            client.insert_arrow(f"{table}", pa.Table.from_batches(waiting))
    return took[0]


@contextmanager
def _cpu() -> Iterator[list[float]]:
    took: list[float] = []
    begun = time.process_time()
    yield took
    took.append(time.process_time() - begun)


WRITERS: Mapping[str, Writer] = {"penstock": penstock, "insert_arrow": insert_arrow}
