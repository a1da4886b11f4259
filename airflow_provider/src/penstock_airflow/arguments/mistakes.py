"""The mistakes of a call, found together: unknown arguments, and values that cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from penstock import UsageError, as_arguments, value_mistakes
from penstock_airflow.arguments.endpoint import SOURCE_ARGUMENTS, TARGET_ARGUMENTS, Endpoint
from penstock_airflow.arguments.options import is_dynamic
from penstock_airflow.sdk import BaseOperator

# Airflow's own, which it passes to operators that it creates to check mapped arguments.
_INTERNAL = "_airflow"
_NAMED = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def parameters_of(*functions: Any) -> set[str]:
    """Return the names of the parameters of functions, and of the classes among them."""
    names = set()
    for function in functions:
        callables = (
            [vars(each)["__init__"] for each in function.__mro__ if "__init__" in vars(each)]
            if isinstance(function, type)
            else [function]
        )
        for each in callables:
            parameters = signature(each).parameters.values()
            names |= {each.name for each in parameters if each.kind in _NAMED}
    return names - {"self", "kwargs"}


def check_arguments(
    names: Iterable[str],
    *,
    known: Collection[str] | None = None,
    options: Mapping[str, Any] | None = None,
    endpoints: Mapping[str, Any] | None = None,
    others: Iterable[str] = (),
) -> None:
    """Check the arguments of a call, and report all mistakes at once.

    Values are not shown, except those of options, which Airflow shows anyway.

    Args:
        names: the names of the arguments that might be unknown.
        known: the names that there are; by default those of Airflow's operators.
        options: the options of the call by name; templates and outputs of tasks are left out.
        endpoints: the connections and URLs of the call by argument; None if they come later.
        others: further mistakes that the caller has found.

    Raises:
        UsageError: there are mistakes.
    """
    known = parameters_of(BaseOperator) if known is None else known
    unknown = [name for name in names if name not in known and not name.startswith(_INTERNAL)]
    static = {name: value for name, value in (options or {}).items() if not is_dynamic(value)}
    mistakes = [
        *(_unknown(name, known) for name in unknown),
        *others,
        *_endpoint_mistakes(endpoints or {}),
        *map(as_arguments, value_mistakes(static)),
    ]
    if len(mistakes) == 1:
        raise UsageError(mistakes[0])
    if mistakes:
        raise UsageError("\n    ".join([f"{len(mistakes)} mistakes:", *mistakes]))


def _endpoint_mistakes(endpoints: Mapping[str, Any]) -> Iterator[str]:
    for side, names in (("source", SOURCE_ARGUMENTS), ("target", TARGET_ARGUMENTS)):
        if names[0] not in endpoints:
            continue
        try:
            Endpoint(side, *(endpoints[name] for name in names)).check()
        except UsageError as error:
            yield error.message


def _unknown(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"unknown argument {name!r}" + "".join(f"; did you mean {each!r}?" for each in near)
