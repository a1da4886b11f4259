"""Partitions in `defs.yaml`: Dagster's own, and monthly, dynamic and range partitions."""

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
    """Monthly partitions of a copy whose key is a date or a time."""

    type: Literal["monthly"]
    start_date: str
    end_date: str | None = None
    timezone: str | None = None
    minute_offset: int = 0
    hour_offset: int = 0
    day_offset: int = 1


class DynamicPartitions(dg.Model):
    """One partition for each value of the key that is registered under this name."""

    type: Literal["dynamic"]
    name: str


class RangePartitions(dg.Model):
    """Ranges of the key with about the same number of rows; see `dagster_penstock.ranges`."""

    type: Literal["ranges"]
    count: int
    version: str | int = "1"


class _ByType:
    """An annotation for a union by `type`, whose schema's errors concern only the chosen type."""

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        kinds = handler(schema)["discriminator"]["mapping"]
        return {
            "type": "object",
            "properties": {"type": {"enum": list(kinds)}},
            "required": ["type"],
            "allOf": [
                {
                    "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
                    "then": {"$ref": reference},
                }
                for kind, reference in kinds.items()
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
    """Windows of the key, crossed with values of the column that names the second dimension."""

    type: Literal["multi"]
    dimensions: dict[str, Annotated[_Dimension, pydantic.Discriminator("type"), _ByType()]]


Partitions = Annotated[
    _Dimension | RangePartitions | TwoDimensions, pydantic.Discriminator("type"), _ByType()
]


def resolve_partitions(
    context: dg.ResolutionContext, model: pydantic.BaseModel | None
) -> dg.PartitionsDefinition | None:
    """Return Dagster's definition of partitions.

    Raises:
        DagsterInvalidDefinitionError: the partitions are invalid.
    """
    if model is None:
        return None
    if isinstance(model, TwoDimensions):
        at = context.at_path("dimensions")
        found = {
            name: resolve_partitions(at.at_path(name), dimension)
            for name, dimension in model.dimensions.items()
        }
        return dg.MultiPartitionsDefinition(
            {name: dimension for name, dimension in found.items() if dimension is not None}
        )
    given: dict[str, Any] = {
        name: resolve(context.at_path(name), value) for name, value in model.model_dump().items()
    }
    if isinstance(model, RangePartitions):
        return ranges(given["count"], str(given["version"]))
    if isinstance(model, DynamicPartitions):
        return dg.DynamicPartitionsDefinition(name=given["name"])
    if isinstance(model, MonthlyPartitions):
        del given["type"]
        return dg.MonthlyPartitionsDefinition(**given)
    return resolve_partitions_def(context, model.model_copy(update=given))
