"""One attempt in its own process, which kills itself before or after a certain call."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

from parquet_datasets import numbered, waiter  # type: ignore[import-not-found]

from penstock.backends.parquet.writer import parquet_writer
from penstock.model.extents import Whole
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


def main() -> None:
    at, partition_id, first, count = sys.argv[1:]
    place, after = at.rstrip("!"), at.endswith("!")
    module, _, name = place.partition(":")
    owner, _, method = name.partition(".")
    kind = getattr(importlib.import_module(module), owner)
    real = getattr(kind, method)

    def killing(*args: Any, **kwargs: Any) -> None:
        if after:
            real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, method, killing)
    spec = WorkerSpec.from_line(sys.stdin.readline())
    writer = parquet_writer(spec)
    wait = waiter()
    assert writer.begin(Partition(partition_id, Whole()), 1, wait)
    writer.write(numbered(int(first), int(count)), wait)
    loaded = writer.end(wait)
    writer.commit(loaded, 1000, wait)


if __name__ == "__main__":
    main()
