"""`default_args` for functions that make tasks, applied as Airflow applies them to operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_0_PLUS

from penstock_airflow.ends import ARGUMENTS
from penstock_airflow.options import OPTIONS

P = ParamSpec("P")
R = TypeVar("R")
# What only a call can say.
_NEVER = ("group_id", "tables", "file")


def takes_default_args(function: Callable[P, R]) -> Callable[P, R]:
    """Fill named parameters that a call leaves out from the `default_args` of the call, the task
    group and the DAG, in this order.

    Airflow does that for operators alone. A function that decides by its arguments has to know
    them before it makes an operator.
    """
    names = [
        name
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY and name not in _NEVER
    ]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        own: Any = kwargs.get("default_args")
        defaults = {**_current(), **(own or {})}
        for name in names:
            if name not in kwargs and name in defaults:
                kwargs[name] = defaults[name]
        return function(*args, **kwargs)

    return call


def with_own_defaults(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `partial`, with those that its own `default_args` have.

    Airflow keeps only those that every operator has, and forgets the others.
    """
    own = arguments.get("default_args") or {}
    mine = (*OPTIONS, *ARGUMENTS)
    return {**{name: own[name] for name in mine if name in own}, **arguments}


def _current() -> dict[str, Any]:
    """The `default_args` of the DAG and the task group around a call.

    Neither version of Airflow has a public name for what knows them.
    """
    if AIRFLOW_V_3_0_PLUS:
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
