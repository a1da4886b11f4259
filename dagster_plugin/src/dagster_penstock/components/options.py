"""Options of a copy in `defs.yaml`: their schema from the fields of CopySpec, and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, Literal

import dagster as dg
import pydantic
from pydantic_core import core_schema

from dagster_penstock.connections import check_ends, reference
from penstock import CopySpec, PlanningError, UsageError, as_arguments

# The component sets the connections and the run id.
_OURS = ("source", "target", "run_id")
_OF_ONE_TABLE = ("table", "query", "target_table")
_ENDS = ("source", "target")
_VARIABLE = re.compile(r"\s*\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}\s*")
_WITH_UNITS = ("SIZE", "DURATION")


class OrTemplate:
    """An annotation that allows a template in place of a value.

    A union with `str` would allow it too, but its errors only say that a value is neither type;
    these say what is wrong and where.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            _template_or,
            handler(source),
            serialization=core_schema.wrap_serializer_function_ser_schema(_template_or),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # A pattern does not restrict null.
        return {
            "if": {"type": ["string", "null"], "pattern": r"\{[{%]"},
            "else": handler(schema),
        }


def _template_or(value: Any, handler: Callable[[Any], Any]) -> Any:
    return value if value is None or is_template(value) else handler(value)


def is_template(value: Any) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def _type_of(option: Field[Any]) -> Any:
    """Return the type of an option's values in `defs.yaml`."""
    kind = str(option.type)
    if option.metadata["choices"]:
        return Literal[option.metadata["choices"]]
    if kind.startswith("tuple"):
        return list[str] | str  # separated by commas, as everywhere
    if option.metadata["metavar"] in _WITH_UNITS:
        return float | str
    if kind == "bool":
        return bool
    if kind == "int | str":
        return int | Literal[option.default]  # auto
    return int if kind.startswith("int") else str


def _description(option: Field[Any]) -> str:
    text = as_arguments(option.metadata["help"])
    if option.default in (None, MISSING):
        return text
    return f"{text} (default: {option.default})"


def _model(name: str, text: str, options: Iterator[Field[Any]]) -> type[pydantic.BaseModel]:
    known: dict[str, Any] = {
        option.name: (
            Annotated[_type_of(option), OrTemplate()],
            pydantic.Field(default=None, description=_description(option)),
        )
        for option in options
    }
    return pydantic.create_model(name, __base__=dg.Model, __doc__=text, **known)


_OPTIONS = [option for option in fields(CopySpec) if option.name not in _OURS]
CopyOptions = _model(
    "CopyOptions",
    "How every table is copied.",
    (option for option in _OPTIONS if option.name not in _OF_ONE_TABLE),
)
TableCopy = _model(
    "TableCopy",
    "A table, and its own options.",
    (option for option in fields(CopySpec) if option.name in _ENDS or option in _OPTIONS),
)


def resolve_options(context: dg.ResolutionContext, model: pydantic.BaseModel) -> dict[str, Any]:
    """Return the options that are set, with their templates resolved."""
    return {
        name: (resolve_connection if name in _ENDS else resolve)(context.at_path(name), value)
        for name, value in model.model_dump(exclude_unset=True).items()
    }


def resolve_tables(
    context: dg.ResolutionContext, models: Sequence[pydantic.BaseModel]
) -> list[dict[str, Any]]:
    return [resolve_options(context.at_path(number), model) for number, model in enumerate(models)]


def resolve_connection(context: dg.ResolutionContext, written: str | None) -> str | None:
    """Return a connection; environment variables are resolved when a copy begins."""
    if written is None:
        return None
    if found := _VARIABLE.fullmatch(written):
        return f"env:{found[1]}"
    return reference(context.resolve_value(written, as_type=str))


def resolve(context: dg.ResolutionContext, value: Any) -> Any:
    """Return a value with its templates resolved.

    A string without templates stays unchanged, because Dagster would read '1', for instance, as a
    number.
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
    """Return a copy of each table, from the common options and its own.

    Parameters:
        place: the file with the options, for errors.

    Raises:
        DagsterInvalidDefinitionError: there are no tables, or some cannot be copied with these
            options; the message says what is wrong with each.
    """
    specs, troubles = [], [] if tables else ["tables: expected one or more, found none"]
    for number, table in enumerate(tables, 1):
        named = table.get("table") or table.get("target_table") or f"number {number}"
        ends = {
            "source": reference(table.get("source") or source),
            "target": reference(table.get("target") or target),
        }
        written = {**options, **table, **ends}
        given = {name: value for name, value in written.items() if value is not None}
        try:
            # The message already names the table.
            spec = CopySpec.from_mapping(given, "options")
            check_ends(spec)
            specs.append(spec)
        except (PlanningError, UsageError) as error:
            troubles.append(
                f"table {named}: {as_arguments(error.message).removeprefix('options: ')}"
            )
    if troubles:
        raise dg.DagsterInvalidDefinitionError("\n".join(f"{place}: {one}" for one in troubles))
    return specs
