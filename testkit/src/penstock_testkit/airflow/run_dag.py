"""Run one DAG with `dag.test()`; a program for any Python that has Airflow.

Usage: ``python -P run_dag.py REQUEST ANSWER``. REQUEST is JSON: the DAG's file, its id, conf and
logical date (ISO 8601, or null for now). The program writes JSON to the file ANSWER: the run's id
and its state.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any


def main() -> None:
    request, answer = json.loads(sys.argv[1]), Path(sys.argv[2])
    file = Path(request["file"])
    # Imported by name, so that Airflow can find a trigger of the file by its class path.
    sys.path.insert(0, str(file.parent))
    dags = dags_of(file.stem)
    if request["dag_id"] not in dags:
        raise SystemExit(f"{file}: found no DAG {request['dag_id']!r}, found {sorted(dags)}")
    dag = dags[request["dag_id"]]
    options: dict[str, Any] = {"run_conf": request["conf"]}
    airflow_2 = "execution_date" in inspect.signature(dag.test).parameters
    if airflow_2:
        # Airflow 3 does so itself; events of an asset that is not in the database are lost.
        dag.sync_to_db()
    if request["logical_date"] is not None:
        name = "execution_date" if airflow_2 else "logical_date"
        options[name] = datetime.fromisoformat(request["logical_date"])
    run = dag.test(**options)
    answer.write_text(json.dumps({"run_id": run.run_id, "state": str(run.state)}))


def dags_of(module: str) -> dict[str, Any]:
    """Return the DAGs of a module, including those that no variable holds."""
    try:
        from airflow.sdk.definitions._internal.contextmanager import (  # noqa: PLC0415
            DagContext,
        )
    except ImportError:
        from airflow.models.dag import DagContext  # type: ignore[no-redef]  # noqa: PLC0415
    DagContext.current_autoregister_module_name = module
    values = vars(importlib.import_module(module)).values()
    dags = [item for item in values if type(item).__name__ == "DAG"]
    dags += [dag for dag, _ in DagContext.autoregistered_dags]
    return {dag.dag_id: dag for dag in dags}


if __name__ == "__main__":
    main()
