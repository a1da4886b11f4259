"""Run DAGs as `run_dag` does, each in a fork of one process that has imported Airflow 3.

Importing Airflow takes two seconds of CPU, and building the interface that tasks call takes another
five. A small run takes less than one, and is the only part that differs. (Modules imported here see
the default of a setting that they read on import; so far this concerns only the folder of DAGs, see
`become`.)

Usage: ``python -P run_forks.py``. Requests are lines of JSON: the arguments of ``run_dag.py``, the
whole environment, and the file for the output. The answer to each is two lines: the process id of
the fork, which leads its own session, and its exit code once it has ended.
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

# Modules that every run imports.
MODULES = (
    "airflow.dag_processing.bundles.manager",
    "airflow.dag_processing.dagbag",
    "airflow.sdk.definitions.dag",
    "airflow.sdk.execution_time.task_runner",
    "airflow.serialization.serialized_objects",
    "airflow.triggers.base",
)


def main() -> None:
    # Airflow must not choose a configuration yet, because each fork has its own.
    os.environ["_AIRFLOW__AS_LIBRARY"] = "1"
    prepare()
    assert threading.active_count() == 1, "a fork would be without these threads"
    gc.freeze()
    if is_fork_for_request():
        run_dag.main()


def prepare() -> None:
    """Import and build what every run needs, without opening a database or starting a thread."""
    for module in MODULES:
        importlib.import_module(module)
    from airflow.models import import_all_models  # noqa: PLC0415
    from sqlalchemy.orm import configure_mappers  # noqa: PLC0415

    import_all_models()  # type: ignore[no-untyped-call]
    configure_mappers()
    asyncio.run(ask_for_nothing())


async def ask_for_nothing() -> None:
    """Send a first request, on which the interface for tasks builds its routes."""
    from airflow.sdk.execution_time.supervisor import in_process_api_server  # noqa: PLC0415
    from httpx import ASGITransport, AsyncClient  # noqa: PLC0415

    # The client is cached for the next caller.
    transport = ASGITransport(in_process_api_server().app)
    async with AsyncClient(transport=transport, base_url="http://in-process") as client:
        await client.get("/nothing")


def is_fork_for_request() -> bool:
    """Whether this process is a fork that must run a request; False when there are no more."""
    while line := sys.stdin.readline():
        if pid := os.fork():
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        become(**json.loads(line))
        return True
    return False


def become(arguments: list[str], env: dict[str, str], output: str) -> None:
    """Make this fork look like a process of its own.

    Args:
        arguments: the command line, without the program.
        env: all environment variables.
        output: the path of the file for stdout and stderr.
    """
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
    # A setting that the module read when it was imported.
    serialized: Any = importlib.import_module("airflow.serialization.serialized_objects")
    serialized.DAGS_FOLDER = settings.DAGS_FOLDER


if __name__ == "__main__":
    main()
