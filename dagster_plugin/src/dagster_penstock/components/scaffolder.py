"""The files that `dg scaffold defs` writes for components."""

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
  # Environment variables that hold URLs. They are read when a copy begins.
  source: {source}
  target: {target}

  # Options for all tables. List them with: dg utils inspect-component \
{type}
  options:
    # truncate, swap and recreate reload the whole table; replace deletes and loads the rows of a
    # partition, in one transaction (needs a key); upsert inserts and updates by primary key;
    # append adds rows, so each partition can be materialized only once.
    mode: {mode}
    # An asset check that compares source and target after the copy: counts, checksums or none.
    verify: counts

  # Each is an asset, named after its target's schema and table. Options here override those above.
  tables:
    - table: {table}
      target_table: {target_table}
{key}
  # Partitions of the assets; without them, a materialization copies whole tables. Other types:
  # hourly, weekly, monthly, time_window, static, dynamic, ranges (count, version), multi.
  # partitions:
  #   type: daily
  #   start_date: "2026-01-01"
  #   timezone: UTC

  # A failed check keeps downstream assets from running.
  # blocking: true

  # The step, which copies the tables in parallel.
  # op:
  #   pool: warehouse
  #   backfill_policy: {{type: multi_run}}

  # Attributes of the assets. Templates can use `source`, `target`, `table` and `spec`.
  # translation:
  #   key: "warehouse/{{{{ target.name }}}}"
  #   group_name: warehouse
  #   owners: ["team:data"]
"""

_FILE_TEXT = """\
type: {type}

attributes:
  # The tables and their options.
  file: penstock.toml

  # The tables that patterns match are read from the source by: dg utils refresh-defs-state
  # By default they are kept in this project; a deployment can keep them elsewhere.
  # defs_state:
  #   management_type: VERSIONED_STATE_STORAGE

  # Some of the file's tables; a further document of this file can have others.
  # tables: ["sales.*"]
  # exclude: ["sales.tmp_*"]

  # Partitions of the assets; without them, a materialization copies whole tables.
  # partitions:
  #   type: daily
  #   start_date: "2026-01-01"

  # Attributes of the assets. Templates can use `source`, `target`, `table` and `spec`.
  # translation:
  #   group_name: warehouse
"""

_TABLES_FILE = """\
# Environment variables that hold URLs.
source = {source}
target = {target}

# Options of all tables. All options: penstock copy --help
[defaults]
mode = {mode}

# Tables by name or pattern, each with its own options.
[tables.{tables}]
"""

_REQUIREMENTS = """
requirements:
  env:
{names}
"""


class _Ends(pydantic.BaseModel):
    source: str = pydantic.Field(
        default="env:PG_SRC",
        description="the source: env:NAME, a variable that holds a URL",
    )
    target: str = pydantic.Field(
        default="env:PG_DST",
        description="the target: env:NAME, a variable that holds a URL",
    )

    @pydantic.field_validator("source", "target")
    @classmethod
    def _is_variable(cls, value: str) -> str:
        # A URL may hold a password, and the file will be committed.
        variable = _VARIABLE.fullmatch(value)
        if variable is None:
            raise ValueError("expected env:NAME, an environment variable that holds a URL")
        return variable[1]


class CopyFileParams(_Ends):
    """The options of `dg scaffold defs dagster_penstock.CopyFileComponent`."""

    tables: str = pydantic.Field(
        default="public.*", description="a table or a pattern: SCHEMA.NAME"
    )
    mode: str = pydantic.Field(default="truncate", description="the mode")


class CopyTablesParams(_Ends):
    """The options of `dg scaffold defs dagster_penstock.CopyTablesComponent`."""

    table: str = pydantic.Field(
        default="public.orders", description="the source table: SCHEMA.NAME"
    )
    target_table: str | None = pydantic.Field(
        default=None, description="the target table: SCHEMA.NAME; by default that of the source"
    )
    mode: str | None = pydantic.Field(
        default=None,
        description="the mode; by default replace with a key, truncate without one",
    )
    key: str | None = pydantic.Field(default=None, description="the column to partition by")


class CopyTablesScaffolder(dg.Scaffolder[CopyTablesParams]):
    """The scaffolder of `CopyTablesComponent`."""

    @classmethod
    def get_scaffold_params(cls) -> type[CopyTablesParams]:
        """Return the model of the options."""
        return CopyTablesParams

    def scaffold(self, request: dg.ScaffoldRequest[CopyTablesParams]) -> None:
        """Write `defs.yaml`, or append to it; in Python, write what Dagster's default does."""
        if request.scaffold_format == "python":
            scaffold_component(request)
        elif request.append:
            with request.target_path.open("a") as file:
                file.write("---\n" + _text(request.type_name, request.params))
        else:
            path = request.target_path / "defs.yaml"
            path.write_text(_text(request.type_name, request.params))


class CopyFileScaffolder(dg.Scaffolder[CopyFileParams]):
    """The scaffolder of `CopyFileComponent`."""

    @classmethod
    def get_scaffold_params(cls) -> type[CopyFileParams]:
        """Return the model of the options."""
        return CopyFileParams

    def scaffold(self, request: dg.ScaffoldRequest[CopyFileParams]) -> None:
        """Write `defs.yaml`, or append to it, and `penstock.toml` unless it is there."""
        if request.scaffold_format == "python":
            scaffold_component(request)
            return
        text = _FILE_TEXT.format(type=request.type_name)
        if request.append:
            path, text = request.target_path, f"---\n{text}"
        else:
            path = request.target_path / "defs.yaml"
        with path.open("a") as file:
            file.write(text)
        tables_file = path.with_name("penstock.toml")
        if not tables_file.exists():
            options = request.params.model_dump()
            ends = {end: f"env:{options[end]}" for end in ("source", "target")}
            texts = {name: json.dumps(value) for name, value in {**options, **ends}.items()}
            tables_file.write_text(_TABLES_FILE.format(**texts))


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
