"""The provider's metadata, which Airflow and its registry read."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

_NAME = "Penstock"
_PACKAGE = "penstock_airflow"
_OPERATORS = (
    "prepare",
    "plan",
    "copy_partition",
    "copy_worker",
    "verify",
    "copy_table",
    "copy_all",
    "snapshot",
)


_TRIGGERS = ("snapshot", "source_changed")
_TRANSFERS = ("copy_table", "copy_all", "copy_partition", "copy_worker")
_GUIDE = "/docs/airflow.md"
FIELD_BEHAVIOUR: dict[str, Any] = {
    # Every database has a use for each field: Extra has the parameters of its driver.
    "hidden-fields": [],
    "relabeling": {"schema": "Database", "login": "User"},
    "placeholders": {
        "host": "db.example.com",
        "port": "5432",
        "login": "loader",
        "schema": "sales",
        "extra": '{"sslmode": "require"}',
    },
}


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
                "external-doc-url": f"https://github.com/penstock-dev/penstock/blob/main{_GUIDE}",
                "how-to-guide": [_GUIDE],
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": [f"{_PACKAGE}.operators.{module}" for module in _OPERATORS],
            }
        ],
        "transfers": [
            {
                "source-integration-name": _NAME,
                "target-integration-name": _NAME,
                "python-module": f"{_PACKAGE}.operators.{module}",
                "how-to-guide": _GUIDE,
            }
            for module in _TRANSFERS
        ],
        # Their own providers normalize them, so no handler is named here.
        "asset-uris": [{"schemes": _schemes()}],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": [f"{_PACKAGE}.triggers.{module}" for module in _TRIGGERS],
            },
        ],
        "hooks": [
            {"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.hooks.penstock"]},
        ],
        "connection-types": [
            {
                "connection-type": "penstock",
                "hook-class-name": f"{_PACKAGE}.hooks.penstock.PenstockHook",
                "hook-name": _NAME,
                # Airflow 2.11 shows no such fields: there, they are written into the field Extra.
                "conn-fields": {
                    "type": {
                        "label": "Database type",
                        "description": "The connection type of the database's Airflow provider.",
                        # Nullable, or the empty form is in error.
                        "schema": {"type": ["string", "null"], "enum": [*_database_types(), None]},
                    },
                    "as_target": {
                        "label": "Test as a target",
                        "description": "What the button Test tries: to read Penstock's tables, as "
                        "in a target; otherwise to connect, as to a source.",
                        "schema": {"type": ["boolean", "null"], "default": False},
                    },
                },
                "ui-field-behaviour": FIELD_BEHAVIOUR,
            }
        ],
        "extra-links": [f"{_PACKAGE}.links.run.ReportLink", f"{_PACKAGE}.links.run.PartitionsLink"],
    }


def _database_types() -> list[str]:
    """Return the types of connections that installed backends support."""
    return sorted({entry.name for entry in entry_points(group="penstock.connections")})


def _schemes() -> list[str]:
    """Return the schemes of the URLs that installed backends support."""
    names = {entry.name.partition(".")[0] for entry in entry_points(group="penstock.backends")}
    return sorted(name for name in names if name.isalnum())
