"""Airflow within the test process, without a server; the first test that needs it imports it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Set up an Airflow with default settings, and import its modules with warnings ignored.

    Test modules must not import it themselves, because every process of the test run collects all
    modules.
    """
    assert "airflow" not in sys.modules, "a test module imports Airflow when it is collected"
    home: Path = tmp_path_factory.mktemp("airflow")
    (home / "airflow.cfg").touch()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AIRFLOW", "_AIRFLOW"))]:
            patch.delenv(name)
        patch.setenv("AIRFLOW_HOME", str(home))
        patch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module("penstock_airflow.task_groups")
            import_module("penstock_airflow.operators.copy_table")
            import_module("airflow.providers.openlineage.extractors")
            import_module("airflow.providers.common.compat.openlineage.facet")
        yield home
