"""Run DAGs as `run_dag` does, each in a fork of one process that has Airflow 3 imported.

Importing Airflow takes two seconds of a processor, building the interface to which tasks talk takes
another five, a small run less than one, and only this depends on the run. (Of what is imported
here, a setting that a module reads as it is imported has its default: so far only the folder of
DAGs is one, see `become`.)

Usage: ``python -P run_forks.py``. Requests are lines of JSON: the arguments of ``run_dag.py``, the
whole environment, and the file that gets what is printed. The answer to each is two lines: the
process id of the fork, which leads a session of its own, and its exit code once it has ended.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import threading
from typing import Any

from penstock_testkit.airflow import run_dag

# What a run imports, whichever it is.
MODULES = (
    "airflow.dag_processing.bundles.manager",
    "airflow.dag_processing.dagbag",
    "airflow.sdk.definitions.dag",
    "airflow.sdk.execution_time.task_runner",
    "airflow.serialization.serialized_objects",
    "airflow.triggers.base",
)


def main() -> None:
    # Airflow is not to settle on a configuration: each fork has one of its own.
    os.environ["_AIRFLOW__AS_LIBRARY"] = "1"
    prepare()
    assert threading.active_count() == 1, "a fork would be without these threads"
    gc.freeze()
    if wanted():
        run_dag.main()


def prepare() -> None:
    """Import and build what every run needs; nothing of it opens a database or begins a thread."""
    for module in MODULES:
        importlib.import_module(module)
    from airflow.models import import_all_models  # noqa: PLC0415
    from sqlalchemy.orm import configure_mappers  # noqa: PLC0415

    import_all_models()  # type: ignore[no-untyped-call]
    configure_mappers()
    asyncio.run(ask_for_nothing())


async def ask_for_nothing() -> None:
    """The interface that tasks call builds its routes on the first request."""
    from airflow.sdk.execution_time.supervisor import in_process_api_server  # noqa: PLC0415
    from httpx import ASGITransport, AsyncClient  # noqa: PLC0415

    # It is kept for the next caller.
    transport = ASGITransport(in_process_api_server().app)
    async with AsyncClient(transport=transport, base_url="http://in-process") as client:
        await client.get("/nothing")


def wanted() -> bool:
    """Whether this process is a fork that must run the request; otherwise there are no more."""
    while line := sys.stdin.readline():
        if pid := os.fork():
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        become(**json.loads(line))
        return True
    return False


def become(arguments: list[str], env: dict[str, str], output: str) -> None:
    """Make this fork look like a process started by itself."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    print(os.getpid(), flush=True)
    for opened, descriptor in ((nothing, 0), (printed, 1), (printed, 2)):
        os.dup2(opened, descriptor)
    os.close(nothing)
    os.close(printed)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(env)

    from airflow import settings  # noqa: PLC0415

    settings.initialize()  # type: ignore[no-untyped-call]
    # The one that is read as a module is imported.
    serialized: Any = importlib.import_module("airflow.serialization.serialized_objects")
    serialized.DAGS_FOLDER = settings.DAGS_FOLDER


if __name__ == "__main__":
    main()
