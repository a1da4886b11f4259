"""Airflow's names, from the module that each version has them in: Airflow 2.11 and 3.

A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

if TYPE_CHECKING:
    from airflow.sdk import (
        Asset,
        AssetAlias,
        BaseHook,
        BaseOperator,
        BaseOperatorLink,
        Connection,
        TaskGroup,
        XComArg,
        get_current_context,
    )
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
    )
    from airflow.triggers.base import BaseEventTrigger

__all__ = [
    "AIRFLOW_3",
    "AIRFLOW_VERSION",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "Asset",
    "AssetAlias",
    "BaseEventTrigger",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "Connection",
    "TaskGroup",
    "XComArg",
    "conf",
    "get_async_connection",
    "get_current_context",
    "import_optional",
]

AIRFLOW_VERSION = tuple(int(part) for part in version("apache-airflow").split(".")[:2])
AIRFLOW_3 = AIRFLOW_VERSION >= (3, 0)

# The modules that may have a name, the latest first; with a colon, by another name.
_SDK = "airflow.sdk"
_ERRORS = ("airflow.sdk.exceptions", "airflow.exceptions")
_HOMES = {
    "AirflowException": _ERRORS,
    "AirflowFailException": _ERRORS,
    "AirflowNotFoundException": _ERRORS,
    "AirflowSkipException": _ERRORS,
    "Asset": (_SDK, "airflow.datasets:Dataset"),
    "AssetAlias": (_SDK, "airflow.datasets:DatasetAlias"),
    # No asset is watched there, and the class may be defined.
    "BaseEventTrigger": ("airflow.triggers.base", "airflow.triggers.base:BaseTrigger"),
    "BaseHook": (_SDK, "airflow.hooks.base"),
    "BaseOperator": (_SDK, "airflow.models.baseoperator"),
    "BaseOperatorLink": (_SDK, "airflow.models.baseoperatorlink"),
    "Connection": (_SDK, "airflow.models.connection"),
    "TaskGroup": (_SDK, "airflow.utils.task_group"),
    "XComArg": (_SDK, "airflow.models.xcom_arg"),
    "conf": ("airflow.sdk.configuration", "airflow.configuration"),
    "get_current_context": (_SDK, "airflow.operators.python"),
}


def __getattr__(name: str) -> Any:
    for home in _HOMES.get(name, ()):
        module, _, other = home.partition(":")
        try:
            found = getattr(import_module(module), other or name)
        except (ImportError, AttributeError):
            continue
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def import_optional(module: str) -> Any:
    """Return a module that only later versions of Airflow have; None without it."""
    try:
        return import_module(module)
    except ImportError:
        return None


async def get_async_connection(conn_id: str) -> Connection:
    """Return an Airflow connection, in a triggerer.

    Args:
        conn_id: the id of the connection.
    """
    hook = import_module(__name__).BaseHook
    # Airflow 3 answers only from threads of the latter kind.
    ask = getattr(hook, "aget_connection", None) or sync_to_async(hook.get_connection)
    connection: Connection = await ask(conn_id)
    return connection
