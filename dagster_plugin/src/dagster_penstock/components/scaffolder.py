"""The files that `dg scaffold defs dagster_penstock.CopyTablesComponent` writes."""

from __future__ import annotations

import json
import re

import dagster as dg
import pydantic
from dagster.components.component_scaffolding import scaffold_component

_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")

_TEXT = """\
type: {type}

attributes:
  # Environment variables that hold URLs, read when a copy begins.
  source: {source}
  target: {target}

  # Options of a copy, for all tables. The schema lists them: dg utils inspect-component \
{type}
  options:
    # truncate, swap and recreate reload the whole table; replace deletes what a partition selects
    # and loads it, in one transaction (needs a key); upsert inserts and updates by primary key;
    # append adds rows, so each partition can be materialized only once.
    mode: {mode}
    # Compare source and target after the copy, as an asset check: counts, checksums or none.
    verify: counts

  # Each is an asset, named by its target's schema and table. Options here override those above.
  tables:
    - table: {table}
      target_table: {target_table}
{key}
  # Partitions of the assets; without them, a materialization copies whole tables. Also: hourly,
  # weekly, monthly, time_window, static, dynamic, and ranges {{count, version}}.
  # partitions:
  #   type: daily
  #   start_date: "2026-01-01"
  #   timezone: UTC

  # A failed check keeps downstream assets from running.
  # blocking: true

  # The step, which copies the tables side by side.
  # op:
  #   pool: warehouse
  #   backfill_policy: {{type: multi_run}}

  # Attributes of the assets; templates may use `source`, `target` and `table`.
  # translation:
  #   key: "warehouse/{{{{ target.name }}}}"
  #   group_name: warehouse
  #   owners: ["team:data"]
"""

_REQUIREMENTS = """
requirements:
  env:
{names}
"""


class CopyTablesParams(pydantic.BaseModel):
    source: str = pydantic.Field(
        default="env:PG_SRC", description="where rows come from: env:NAME, an environment variable"
    )
    target: str = pydantic.Field(
        default="env:PG_DST", description="where rows go: env:NAME, an environment variable"
    )
    table: str = pydantic.Field(default="public.orders", description="SCHEMA.NAME in the source")
    target_table: str | None = pydantic.Field(
        default=None, description="SCHEMA.NAME in the target; by default as in the source"
    )
    mode: str | None = pydantic.Field(
        default=None,
        description="how to load it; by default replace with a key, truncate without one",
    )
    key: str | None = pydantic.Field(default=None, description="the column to cut the table by")

    @pydantic.field_validator("source", "target")
    @classmethod
    def _is_variable(cls, value: str) -> str:
        # A URL may hold a password, and the file will be committed.
        found = _VARIABLE.fullmatch(value)
        if found is None:
            raise ValueError("expected env:NAME, an environment variable that holds a URL")
        return found[1]


class CopyTablesScaffolder(dg.Scaffolder[CopyTablesParams]):
    @classmethod
    def get_scaffold_params(cls) -> type[CopyTablesParams]:
        return CopyTablesParams

    def scaffold(self, request: dg.ScaffoldRequest[CopyTablesParams]) -> None:
        if request.scaffold_format == "python":
            scaffold_component(request)
        elif request.append:
            with request.target_path.open("a") as file:
                file.write("---\n" + _text(request.type_name, request.params))
        else:
            path = request.target_path / "defs.yaml"
            path.write_text(_text(request.type_name, request.params))


def _text(type_name: str, params: CopyTablesParams) -> str:
    text = _TEXT.format(
        type=type_name,
        source=json.dumps(f"{{{{ env.{params.source} }}}}"),
        target=json.dumps(f"{{{{ env.{params.target} }}}}"),
        table=json.dumps(params.table),
        target_table=json.dumps(params.target_table or params.table),
        mode=json.dumps(params.mode or ("replace" if params.key else "truncate")),
        key=f"      key: {json.dumps(params.key)}\n" if params.key else "",
    )
    names = [f"    - {name}" for name in sorted({params.source, params.target})]
    return text + _REQUIREMENTS.format(names="\n".join(names))
