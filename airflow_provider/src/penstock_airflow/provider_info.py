"""What Airflow is told about this provider."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The entry point of the group ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-provider-penstock",
        "name": "Penstock",
        "description": "Copies big tables: one mapped task per partition, each retried alone.",
    }
