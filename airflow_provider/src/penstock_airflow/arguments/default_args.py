"""`default_args` for functions that create tasks, applied as Airflow applies them to operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from penstock_airflow.arguments.endpoint import ARGUMENTS
from penstock_airflow.arguments.options import OPTIONS
from penstock_airflow.sdk import AIRFLOW_3

P = ParamSpec("P")
R = TypeVar("R")
# Arguments that only a call can set.
_CALL_ONLY = ("group_id", "tables", "file")


def apply_default_args(function: Callable[P, R]) -> Callable[P, R]:
    """Fill missing named parameters from the `default_args` of the call, task group and DAG.

    The call's take precedence over the task group's, and those over the DAG's. Airflow fills in
    parameters of operators only, but a function that decides by its arguments needs them before it
    creates an operator.
    """
    names = [
        name
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY and name not in _CALL_ONLY
    ]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        explicit: Any = kwargs.get("default_args")
        defaults = {**_current_default_args(), **(explicit or {})}
        for name in names:
            if name not in kwargs and name in defaults:
                kwargs[name] = defaults[name]
        return function(*args, **kwargs)

    return call


def with_partial_defaults(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `partial` with those in its own `default_args`.

    Airflow keeps only the arguments that every operator has.
    """
    defaults = arguments.get("default_args") or {}
    names = (*OPTIONS, *ARGUMENTS)
    return {**{name: defaults[name] for name in names if name in defaults}, **arguments}


def _current_default_args() -> dict[str, Any]:
    """Return the `default_args` of the DAG and the task group around a call.

    Neither version of Airflow has a public name for the objects that hold them.
    """
    if AIRFLOW_3:
        home = import_module("airflow.sdk.definitions._internal.contextmanager")
        dag, group_of = home.DagContext.get_current(), home.TaskGroupContext.get_current
    else:
        groups = import_module("airflow.utils.task_group").TaskGroupContext
        dag = import_module("airflow.models.dag").DagContext.get_current_dag()
        group_of = groups.get_current_task_group
    group = group_of(dag) if dag is not None else None
    return {
        **(getattr(dag, "default_args", None) or {}),
        **(getattr(group, "default_args", None) or {}),
    }
