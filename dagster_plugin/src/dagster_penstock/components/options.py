"""Options of a copy in `defs.yaml`: their schema, from the fields of CopySpec, and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, Literal

import dagster as dg
import pydantic
from pydantic_core import core_schema

from dagster_penstock.connections import (
    REFUSED,
    check_ends,
    check_not_refused,
    has_password,
    reference,
)
from penstock import CopySpec, PlanningError, UsageError, as_arguments

# The connections have fields of their own, and Penstock derives the run id.
_EXCLUDED = ("source", "target", "run_id")
_TABLE_OPTIONS = ("table", "query", "target_table")
_ENDS = ("source", "target")
_VARIABLE = re.compile(r"\s*\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}\s*")
_UNITS = ("SIZE", "DURATION")


class OrTemplate:
    """An annotation that allows a template in place of a value.

    The errors of a union with `str` would only say that a value has neither type.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            _validated_or_template,
            handler(source),
            serialization=core_schema.wrap_serializer_function_ser_schema(_validated_or_template),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # The pattern restricts strings only, so null passes.
        return {
            "if": {"type": ["string", "null"], "pattern": r"\{[{%]"},
            "else": handler(schema),
        }


def _validated_or_template(value: Any, handler: Callable[[Any], Any]) -> Any:
    return value if value is None or is_template(value) else handler(value)


def is_template(value: Any) -> bool:
    """Whether a value is a string with a template."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def _type_of(option: Field[Any]) -> Any:
    """Return the type of an option's values in `defs.yaml`."""
    type_name = str(option.type)
    if option.metadata["choices"]:
        return Literal[option.metadata["choices"]]
    if type_name.startswith("tuple"):
        return list[str] | str  # or a text with commas, as on the command line
    if option.metadata["metavar"] in _UNITS:
        return float | str
    if type_name == "bool":
        return bool
    if type_name == "int | str":
        return int | Literal[option.default]  # auto
    if type_name == "int | str | None":
        return int | str
    return int if type_name.startswith("int") else str


def _description(option: Field[Any]) -> str:
    text = as_arguments(option.metadata["help"])
    if option.default in (None, MISSING):
        return text
    return f"{text} (default: {option.default})"


def _model(name: str, docstring: str, options: Iterator[Field[Any]]) -> type[pydantic.BaseModel]:
    schema: dict[str, Any] = {
        option.name: (
            Annotated[_type_of(option), OrTemplate()],
            pydantic.Field(default=None, description=_description(option)),
        )
        for option in options
    }
    return pydantic.create_model(name, __base__=dg.Model, __doc__=docstring, **schema)


_OPTIONS = [option for option in fields(CopySpec) if option.name not in _EXCLUDED]
CopyOptions = _model(
    "CopyOptions",
    "Options for all tables.",
    (option for option in _OPTIONS if option.name not in _TABLE_OPTIONS),
)
TableCopy = _model(
    "TableCopy",
    "A table and its options.",
    (option for option in fields(CopySpec) if option.name in _ENDS or option in _OPTIONS),
)


def resolve_options(context: dg.ResolutionContext, model: pydantic.BaseModel) -> dict[str, Any]:
    """Return the specified options, with their templates resolved."""
    return {
        name: (resolve_connection if name in _ENDS else resolve)(context.at_path(name), value)
        for name, value in model.model_dump(exclude_unset=True).items()
    }


def resolve_tables(
    context: dg.ResolutionContext, models: Sequence[pydantic.BaseModel]
) -> list[dict[str, Any]]:
    """Return the specified options of each table, with their templates resolved."""
    return [resolve_options(context.at_path(number), model) for number, model in enumerate(models)]


def resolve_connection(context: dg.ResolutionContext, value: str | None) -> str | None:
    """Return a connection; an environment variable stays a reference, and is read by the step.

    A password in the file is dropped here, and refused with the copies: Dagster's error for a
    mistake in a line would show the line.
    """
    if value is None:
        return None
    if variable := _VARIABLE.fullmatch(value):
        return f"env:{variable[1]}"
    if not is_template(value) and has_password(value):
        return REFUSED
    return reference(context.resolve_value(value, as_type=str))


def resolve(context: dg.ResolutionContext, value: Any) -> Any:
    """Return a value with its templates resolved.

    A string without templates is returned unchanged, because Dagster would turn '1' into a number.
    """
    if isinstance(value, list):
        return [resolve(context.at_path(number), item) for number, item in enumerate(value)]
    return context.resolve_value(value) if is_template(value) else value


def copy_specs(
    source: str,
    target: str,
    options: Mapping[str, Any],
    tables: Sequence[Mapping[str, Any]],
    place: str,
) -> list[CopySpec]:
    """Return the copies of tables.

    Args:
        source: the source of tables without one of their own.
        target: the target of tables without one of their own.
        options: the options for all tables.
        tables: the options of each table, which override the others.
        place: the file with the options, for errors.

    Raises:
        DagsterInvalidDefinitionError: there are no tables, or the options of some are wrong; the
            message has an error for each.
    """
    specs, errors = [], [] if tables else ["tables: expected one or more, found none"]
    for number, table in enumerate(tables, 1):
        name = table.get("table") or table.get("target_table") or f"number {number}"
        ends = {
            "source": reference(table.get("source") or source),
            "target": reference(table.get("target") or target),
        }
        merged = {**options, **table, **ends}
        specified = {option: value for option, value in merged.items() if value is not None}
        try:
            for side, connection in ends.items():
                check_not_refused(side, connection)
            spec = CopySpec.from_mapping(specified, "options")
            check_ends(spec)
            specs.append(spec)
        except (PlanningError, UsageError) as error:
            errors.append(f"table {name}: {as_arguments(error.message).removeprefix('options: ')}")
    if errors:
        raise dg.DagsterInvalidDefinitionError("\n".join(f"{place}: {error}" for error in errors))
    return specs
