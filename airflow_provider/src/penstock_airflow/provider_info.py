"""The provider's metadata, which Airflow and its registry read."""

from __future__ import annotations

from typing import Any

_NAME = "Penstock"
_PACKAGE = "penstock_airflow"
_OPERATORS = (
    "prepare",
    "plan",
    "copy_partition",
    "verify",
    "copy_table",
    "copy_all",
    "snapshot",
)


def get_provider_info() -> dict[str, Any]:
    """Return the metadata of the provider: the entry point ``apache_airflow_provider``.

    It imports nothing from Airflow, because every Airflow command calls it.
    """
    return {
        "package-name": "airflow-provider-penstock",
        "name": _NAME,
        "description": "Copies big tables: one mapped task per partition, each retried alone.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://github.com/penstock-dev/penstock",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": [f"{_PACKAGE}.operators.{module}" for module in _OPERATORS],
            }
        ],
        "triggers": [
            {"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.triggers.snapshot"]},
        ],
        "hooks": [
            {"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.hooks.penstock"]},
        ],
        "connection-types": [
            {
                "connection-type": "penstock",
                "hook-class-name": f"{_PACKAGE}.hooks.penstock.PenstockHook",
                "hook-name": _NAME,
                # Airflow 2.11 shows no such fields: there, `type` is written into the field Extra.
                "conn-fields": {
                    "type": {
                        "label": "Database type",
                        "description": "The connection type of the database's Airflow provider.",
                        "schema": {"type": "string"},
                    }
                },
            }
        ],
        "extra-links": [f"{_PACKAGE}.links.run.ReportLink", f"{_PACKAGE}.links.run.PartitionsLink"],
    }
