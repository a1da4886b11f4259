"""Partitions in `defs.yaml`: those that Dagster's components have, and four others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import dagster as dg
import pydantic
from dagster.components.resolved.core_models import (
    DailyPartitionsDefinitionModel,
    HourlyPartitionsDefinitionModel,
    StaticPartitionsDefinitionModel,
    TimeWindowPartitionsDefinitionModel,
    WeeklyPartitionsDefinitionModel,
    resolve_partitions_def,
)
from pydantic_core import core_schema

from dagster_penstock.components.options import resolve
from dagster_penstock.partitions import ranges


class MonthlyPartitions(dg.Model):
    """Monthly windows of a key that is a date or a time."""

    type: Literal["monthly"]
    start_date: str
    end_date: str | None = None
    timezone: str | None = None
    minute_offset: int = 0
    hour_offset: int = 0
    day_offset: int = 1


class DynamicPartitions(dg.Model):
    """Values of the key that are registered in Dagster under a name."""

    type: Literal["dynamic"]
    name: str


class RangePartitions(dg.Model):
    """Ranges of the key with about the same number of rows; see `dagster_penstock.ranges`."""

    type: Literal["ranges"]
    count: int
    version: str | int = "1"


class _ByType:
    """An annotation of a union by `type`; a schema error then concerns only the chosen type."""

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        references = handler(schema)["discriminator"]["mapping"]
        return {
            "type": "object",
            "properties": {"type": {"enum": list(references)}},
            "required": ["type"],
            "allOf": [
                {
                    "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                    "then": {"$ref": reference},
                }
                for name, reference in references.items()
            ],
        }


_Dimension = (
    HourlyPartitionsDefinitionModel
    | DailyPartitionsDefinitionModel
    | WeeklyPartitionsDefinitionModel
    | MonthlyPartitions
    | TimeWindowPartitionsDefinitionModel
    | StaticPartitionsDefinitionModel
    | DynamicPartitions
)


class TwoDimensions(dg.Model):
    """Windows of the key, crossed with values of the column that the other dimension names."""

    type: Literal["multi"]
    dimensions: dict[str, Annotated[_Dimension, pydantic.Discriminator("type"), _ByType()]]


Partitions = Annotated[
    _Dimension | RangePartitions | TwoDimensions, pydantic.Discriminator("type"), _ByType()
]


def resolve_partitions(
    context: dg.ResolutionContext, model: pydantic.BaseModel | None
) -> dg.PartitionsDefinition | None:
    """Return the definition of partitions.

    Raises:
        DagsterInvalidDefinitionError: the count or the version of ranges is invalid.
    """
    if model is None:
        return None
    if isinstance(model, TwoDimensions):
        at = context.at_path("dimensions")
        dimensions = {
            name: resolve_partitions(at.at_path(name), dimension)
            for name, dimension in model.dimensions.items()
        }
        return dg.MultiPartitionsDefinition(
            {name: dimension for name, dimension in dimensions.items() if dimension is not None}
        )
    fields: dict[str, Any] = {
        name: resolve(context.at_path(name), value) for name, value in model.model_dump().items()
    }
    if isinstance(model, RangePartitions):
        return ranges(fields["count"], str(fields["version"]))
    if isinstance(model, DynamicPartitions):
        return dg.DynamicPartitionsDefinition(name=fields["name"])
    if isinstance(model, MonthlyPartitions):
        del fields["type"]
        return dg.MonthlyPartitionsDefinition(**fields)
    return resolve_partitions_def(context, model.model_copy(update=fields))
