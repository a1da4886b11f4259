"""The environment of Airflow's processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Variables that the test run, or its caller, may have set for itself.
FOREIGN = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW", "PG", "PYTHONWARNINGS", "PYTEST_", "COVERAGE")


def environment(
    home: Path, dags: Path, settings: Mapping[str, object], connections: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of an Airflow process, isolated from the machine's own Airflow.

    Args:
        home: AIRFLOW_HOME, created if missing.
        dags: the folder of DAG files.
        settings: settings by ``section.name``, which override those that every test needs.
        connections: URLs by connection id.
    """
    home.mkdir(parents=True, exist_ok=True)
    # If the file is missing, every process that starts writes it with defaults, all at once.
    (home / "airflow.cfg").touch()
    common: dict[str, object] = {
        "core.dags_folder": dags,
        "core.load_examples": False,
        "core.dagbag_import_timeout": 300,
        "core.fernet_key": "",
        "logging.base_log_folder": home / "logs",
        "scheduler.usage_data_collection_enabled": False,
        "usage_data_collection.enabled": False,
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    env |= {"AIRFLOW_HOME": str(home), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    for name, value in {**common, **settings}.items():
        section, option = name.split(".")
        env[f"AIRFLOW__{section}__{option}".upper()] = str(value)
    for conn_id, url in connections.items():
        env[f"AIRFLOW_CONN_{conn_id}".upper()] = url
    return env
