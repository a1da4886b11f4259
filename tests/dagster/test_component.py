"""Tables in `defs.yaml`, read by Dagster's own loader, and copied."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml  # type: ignore[import-untyped]
from dagster.components.list.list import list_all_components_schema
from dagster.components.testing import create_defs_folder_sandbox
from dagster_shared.yaml_utils.sample_yaml import generate_sample_yaml
from jsonschema import Draft202012Validator
from psycopg import Connection

from dagster_penstock import (
    CopiedTable,
    CopySpec,
    CopyTablesComponent,
    PenstockTranslator,
    Ranges,
    ranges,
)
from dagster_penstock.asset_decorator import definitions_of

# Dagster's own function that reads YAML.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated"),
    pytest.mark.filterwarnings("ignore:Class .(LocalFileCode|CodeReferences)"),
]

ENDS = {"source": "{{ env.PG_SRC }}", "target": "{{ env.PG_DST }}"}
ORDERS = {"table": "public.orders", "target_table": "dw.orders", "key": "o_orderdate"}
DAYS = {"type": "daily", "start_date": "2024-01-01"}


def attributes(**changes: Any) -> dict[str, Any]:
    return {**ENDS, "options": {"mode": "replace"}, "tables": [ORDERS], **changes}


@contextmanager
def loaded(
    attributes: dict[str, Any], module: str = "", **changes: Any
) -> Iterator[tuple[CopyTablesComponent, dg.Definitions]]:
    """Yield the component of a `defs.yaml`, and its definitions.

    Args:
        module: a module with the user's own component, `Mine`.
    """
    kind = ".mine.Mine" if module else "dagster_penstock.CopyTablesComponent"
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "copies"
        folder.mkdir()
        (folder / "mine.py").write_text(textwrap.dedent(module))
        text = yaml.safe_dump({"type": kind, "attributes": attributes, **changes})
        (folder / "defs.yaml").write_text(text)
        with sandbox.load_component_and_build_defs(folder) as (component, defs):
            assert isinstance(component, CopyTablesComponent)
            yield component, defs


def the_asset(attributes: dict[str, Any]) -> dg.AssetSpec:
    with loaded(attributes) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        (asset,) = assets.specs
        return asset


def the_copies(attributes: dict[str, Any]) -> list[CopySpec]:
    with loaded(attributes) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        return [each.spec for each in definitions_of(assets).values()]


def refused(attributes: dict[str, Any]) -> str:
    """Return the error message for invalid attributes."""
    with pytest.raises(Exception) as caught, loaded(attributes):  # noqa: PT011 - several types
        pass
    error: BaseException | None = caught.value
    messages = []
    while error is not None:
        messages.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(messages)


# The copies


def test_several_workers_are_steps_of_their_own() -> None:
    with loaded(attributes(partitions=DAYS, workers=3)) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        assert isinstance(assets.node_def, dg.GraphDefinition)
        aliases = [f"worker_{number}" for number in (1, 2, 3)]
        assert set(assets.node_def.node_dict) == {"plan", *aliases, "end"}
        (asset,) = assets.specs
        assert asset.key == dg.AssetKey(["dw", "orders"])
        assert [dep.asset_key.path[-1] for dep in asset.deps] == ["orders"]
        assert "penstock" in asset.kinds
    two = [ORDERS, {"table": "public.lineitem"}]
    assert "workers: expected one copy, found 2" in refused(attributes(tables=two, workers=3))


def test_a_table_can_have_its_own_source_and_target() -> None:
    into, parallel, back = the_copies(
        attributes(
            target="s3://lake/orders/",
            tables=[
                {"table": "public.orders"},
                {"table": "public.lineitem", "target": "s3://lake/{{ 'lineitem' }}/"},
                {"source": "s3://lake/in/", "target": "{{ env.DW }}", "target_table": "dw.o"},
            ],
        )
    )
    assert (into.source, into.target) == ("env:PG_SRC", "s3://lake/orders/")
    assert (parallel.source, parallel.target) == ("env:PG_SRC", "s3://lake/lineitem/")
    assert (back.source, back.target) == ("s3://lake/in/", "env:DW")


def test_translation_treats_folders_as_tables() -> None:
    asset = the_asset(
        attributes(
            target="s3://lake/tpch/orders/",
            tables=[{"table": "public.orders"}],
            translation={"key": "lake/{{ target.name }}", "group_name": "{{ target.schema }}"},
        )
    )
    assert asset.key == dg.AssetKey(["lake", "orders"])
    assert asset.group_name == "tpch"


def test_table_options_override_common_options() -> None:
    lines = {"table": "public.lineitem", "key": "l_shipdate", "verify": "counts", "degree": None}
    orders, lineitem = the_copies(
        attributes(
            options={"mode": "replace", "degree": 4, "verify": "checksums", "stall_timeout": "90s"},
            tables=[ORDERS, lines],
        )
    )
    assert (orders.table, str(orders.target_ref), orders.key) == (
        "public.orders",
        "dw.orders",
        "o_orderdate",
    )
    assert (orders.mode, orders.degree, orders.verify) == ("replace", 4, "checksums")
    assert (lineitem.mode, lineitem.degree, lineitem.verify) == ("replace", "auto", "counts")
    assert str(lineitem.target_ref) == "public.lineitem"
    assert orders.stall_timeout == lineitem.stall_timeout == 90.0


def test_values_keep_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINCE", "1995-01-01")
    monkeypatch.setenv("STREAMS", "3")
    copies = the_copies(
        attributes(
            options={
                "degree": "{{ env.STREAMS | int }}",
                "partitions": "64MB",
                "max_rate": "50MB",
                "max_lag": "30s",
            },
            tables=[
                {
                    "query": "select 1 as one",
                    "target_table": "dw.ones",
                    "where": "one >= '{{ env.SINCE }}'",
                    "columns": ["one", "two"],
                    "strategy": "range",
                    # Dagster would turn it into a number, and a text would lose its quotes.
                    "key": "'x'",
                    "control_schema": "12",
                }
            ],
        )
    )
    (copy,) = copies
    assert copy.query == "select 1 as one"
    assert (copy.max_rate, copy.max_lag) == (50_000_000, 30.0)
    assert copy.where == "one >= '1995-01-01'"
    assert copy.columns == ("one", "two")
    assert (copy.key, copy.control_schema) == ("'x'", "12")
    assert (copy.degree, copy.partitions) == (3, "64MB")


@pytest.mark.parametrize("reference", ["{{ env.PG_SRC }}", "{{env.PG_SRC}}", "env:PG_SRC"])
def test_a_variable_is_read_only_when_a_copy_begins(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PG_SRC", raising=False)
    (copy,) = the_copies(attributes(source=reference))
    assert copy.source == "env:PG_SRC"


def test_a_connection_appears_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "hush")
    url = "postgresql://me:{{ env.WHERE }}@nowhere/db"
    with loaded(attributes(source=url)) as (component, defs):
        assert component.source == "postgresql://me:hush@nowhere/db"
        assert "hush" not in repr(component)
        assert "hush" not in repr(defs)
        assert "hush" not in repr(list(defs.resolve_all_asset_specs()))
    with pytest.raises(ValueError, match="tables") as caught:
        CopyTablesComponent(source="postgresql://me:hush@nowhere/db", target="env:B")  # type: ignore[call-arg]
    assert "hush" not in str(caught.value)


def test_a_component_can_be_created_in_python() -> None:
    component = CopyTablesComponent(
        source=dg.EnvVar("PG_SRC"), target="env:PG_DST", tables=[{"table": "public.nation"}]
    )
    assert component.source == "env:PG_SRC"
    defs = component.build_defs(dg.ComponentTree.for_test().load_context)
    (asset,) = [one for one in defs.resolve_all_asset_specs() if "penstock" in one.kinds]
    assert asset.key == dg.AssetKey(["public", "nation"])


# Partitions


@pytest.mark.parametrize(
    ("attributes_", "expected"),
    [
        (
            {"type": "hourly", "start_date": "2024-01-01-00:00", "timezone": "Europe/Berlin"},
            dg.HourlyPartitionsDefinition("2024-01-01-00:00", timezone="Europe/Berlin"),
        ),
        (
            {**DAYS, "end_date": "2024-02-01", "hour_offset": 6},
            dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01", hour_offset=6),
        ),
        (
            {"type": "weekly", "start_date": "2024-01-01", "day_offset": 1},
            dg.WeeklyPartitionsDefinition("2024-01-01", day_offset=1),
        ),
        (
            {"type": "monthly", "start_date": "2024-01-01", "timezone": "Europe/Berlin"},
            dg.MonthlyPartitionsDefinition("2024-01-01", timezone="Europe/Berlin"),
        ),
        (
            {
                "type": "time_window",
                "start_date": "1992",
                "fmt": "%Y",
                "cron_schedule": "0 0 1 1 *",
            },
            dg.TimeWindowPartitionsDefinition(start="1992", fmt="%Y", cron_schedule="0 0 1 1 *"),
        ),
        (
            {"type": "static", "partition_keys": ["F", "O", "P"]},
            dg.StaticPartitionsDefinition(["F", "O", "P"]),
        ),
        ({"type": "dynamic", "name": "regions"}, dg.DynamicPartitionsDefinition(name="regions")),
        ({"type": "ranges", "count": 8, "version": 2}, ranges(8, "2")),
        (
            {
                "type": "multi",
                "dimensions": {"date": DAYS, "region": {"type": "static", "partition_keys": ["a"]}},
            },
            dg.MultiPartitionsDefinition(
                {
                    "date": dg.DailyPartitionsDefinition("2024-01-01"),
                    "region": dg.StaticPartitionsDefinition(["a"]),
                }
            ),
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_partitions(attributes_: dict[str, Any], expected: dg.PartitionsDefinition) -> None:
    with loaded(attributes(partitions=attributes_)) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        found = assets.partitions_def
        assert found == expected
        assert type(found) is type(expected)
        if isinstance(expected, Ranges):
            assert isinstance(found, Ranges)
            assert found.version == expected.version
        assert assets.backfill_policy == dg.BackfillPolicy.single_run()
        assert all(spec.skippable for spec in assets.specs)


def test_partitions_can_contain_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINCE", "1995-01-01")
    asset = the_asset(attributes(partitions={**DAYS, "start_date": "{{ env.SINCE }}"}))
    assert asset.partitions_def == dg.DailyPartitionsDefinition("1995-01-01")


# The assets


def test_an_asset_is_named_by_its_target() -> None:
    asset = the_asset(attributes())
    assert asset.key == dg.AssetKey(["dw", "orders"])
    assert asset.kinds == {"penstock"}


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("key", "wh/{{ target.schema }}/{{ source.name }}", dg.AssetKey(["wh", "dw", "orders"])),
        ("key_prefix", "wh", dg.AssetKey(["wh", "dw", "orders"])),
        ("group_name", "{{ table.spec.mode }}s", "replaces"),
        ("owners", ["team:data", "me@example.com"], ["team:data", "me@example.com"]),
        ("kinds", ["postgresql"], {"postgresql"}),
        ("tags", {"tier": "gold"}, {"tier": "gold", "dagster/kind/penstock": ""}),
        ("description", "{{ spec.description }} Daily.", "dw.orders in mode replace by o_order"),
        ("metadata", {"wiki": "orders"}, "orders"),
        ("deps", ["shop/{{ source.name }}"], [dg.AssetDep(dg.AssetKey(["shop", "orders"]))]),
        ("code_version", "3", "3"),
        (
            "automation_condition",
            "{{ dg.AutomationCondition.eager() }}",
            dg.AutomationCondition.eager().ignore(
                dg.AssetSelection.assets(["pg_src", "public", "orders"])
            ),
        ),
        ("skippable", True, True),
    ],
)
def test_translation(text: str, value: Any, expected: Any) -> None:
    asset = the_asset(attributes(translation={text: value}))
    found = getattr(asset, text.removesuffix("_prefix"))
    match text:
        case "metadata":
            assert found["wiki"] == expected
            assert found["dagster/table_name"] == "dw.orders"
            assert found["penstock/options"].value["key"] == "o_orderdate"
        case "description":
            assert expected in found
            assert found.endswith(" Daily.")
        case _:
            assert found == expected


def test_post_processing_follows_translation() -> None:
    with loaded(
        attributes(translation={"group_name": "all"}),
        post_processing={"assets": [{"target": "*", "attributes": {"group_name": "others"}}]},
    ) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        (asset,) = assets.specs
        assert asset.group_name == "others"
        assert definitions_of(assets)[asset.key].spec.mode == "replace"


def test_an_upstream_asset_need_not_be_a_table() -> None:
    translation = {"deps": ["shop/orders"]}
    with loaded(attributes(translation=translation)) as (_, defs):
        graph = defs.resolve_asset_graph()
        assert graph.get(dg.AssetKey(["dw", "orders"])).parent_keys == {
            dg.AssetKey(["shop", "orders"])
        }


def test_options_of_the_step() -> None:
    op = {
        "name": "nightly",
        "pool": "warehouse",
        "tags": {"team": "data"},
        "description": "Orders.",
        "backfill_policy": {"type": "multi_run", "max_partitions_per_run": 7},
    }
    with loaded(attributes(partitions=DAYS, op=op)) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        step = assets.node_def
        assert isinstance(step, dg.OpDefinition)
        assert (step.name, step.pool, step.description) == ("nightly", "warehouse", "Orders.")
        assert step.tags["team"] == "data"
        assert assets.backfill_policy == dg.BackfillPolicy.multi_run(7)


def test_the_step_is_named_by_its_folder() -> None:
    with loaded(attributes()) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        assert assets.node_def.name == "copies"


def test_checks() -> None:
    nation = {"table": "public.nation", "verify": "none", "mode": "truncate"}
    with loaded(
        attributes(options={"mode": "replace", "verify": "checksums"}, tables=[ORDERS, nation])
        | {"blocking": True}
    ) as (_, defs):
        (assets,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        (check,) = assets.check_specs
        assert (check.asset_key, check.blocking) == (dg.AssetKey(["dw", "orders"]), True)


# Invalid attributes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"target": "postgresql://me@h/dw", "tables": [{**ORDERS, "key": None}]},
            'copies[0]: table public.orders: mode="replace": expected key, the column to delete by',
        ),
        (
            {
                "source": "postgresql://me@h/shop",
                "target": "postgresql://me@h/dw",
                "tables": [{"key": "a"}, {"query": "select 1", "key": "a"}],
            },
            "copies[0]: table number 1: table, query: found neither; pass either table or query\n"
            "copies[0]: table number 2: target_table: expected the table to write",
        ),
        ({"tables": []}, "copies[0]: tables: expected one or more, found none"),
        (
            {"options": {"mode": "replace", "partitions": "64 apples"}},
            "table public.orders: partitions: expected a number of partitions",
        ),
        (
            {"options": {"mode": "{{ 'replce' }}"}},
            "table public.orders: mode: expected one of append, truncate, replace",
        ),
        ({"blocking": True}, "copies[0]: blocking: expected a table with verify counts or"),
        (
            {"options": {"mode": "swap"}, "partitions": DAYS},
            "mode: expected append, replace, upsert",
        ),
        (
            {"options": {"mode": "replace", "partitions": 8}, "partitions": DAYS},
            "copy of public.orders to dw.orders: partitions: leave it out",
        ),
        ({"partitions": {"type": "ranges", "count": 1}}, "expected a count from 2 to 1,000"),
        (
            {"translation": {"partitions_def": DAYS}},
            "asset dw/orders: partitions_def: expected the same as penstock_assets has, or None",
        ),
        ({"translation": {"key": "{{ nothing.name }}"}}, "'nothing' is undefined"),
        (
            {"partitions": {"type": "multi", "dimensions": {"a": DAYS, "b": DAYS}}},
            "expected a dimension of time windows of the key, and one of static or dynamic",
        ),
    ],
)
def test_an_impossible_copy_is_rejected(changes: dict[str, Any], expected: str) -> None:
    assert expected in refused(attributes(**changes))


# Attributes that the schema rejects: in Dagster when it loads the file, and in `dg check yaml`.


@pytest.mark.parametrize(
    ("changes", "place", "by_dagster", "by_schema"),
    [
        (
            {"options": {"mode": "replce"}},
            ["options", "mode"],
            "Input should be 'append', 'truncate'",
            "'replce' is not one of ['append', 'truncate'",
        ),
        (
            {"options": {"degree": "many"}},
            ["options", "degree"],
            "Input should be 'auto'",
            "'many' is not valid under any of the given schemas",
        ),
        (
            {"tables": [ORDERS, {**ORDERS, "row_group_size": "many"}]},
            ["tables", 1, "row_group_size"],
            "Input should be a valid integer",
            "'many' is not of type 'integer'",
        ),
        (
            {"tables": [{**ORDERS, "wher": "x"}]},
            ["tables", 0],
            "Extra inputs are not permitted",
            "('wher' was unexpected)",
        ),
        (
            {"options": {"table": "public.orders"}},
            ["options"],
            "Extra inputs are not permitted",
            "('table' was unexpected)",
        ),
        (
            {"options": {"run_id": "mine"}},
            ["options"],
            "Extra inputs are not permitted",
            "('run_id' was unexpected)",
        ),
        (
            {"options": {"unlogged": 7}},
            ["options", "unlogged"],
            "Input should be a valid boolean",
            "7 is not of type 'boolean'",
        ),
        (
            {"partitions": {"type": "dayly"}},
            ["partitions", "type"],
            "does not match any of the expected tags: 'hourly', 'daily'",
            "'dayly' is not one of ['hourly', 'daily'",
        ),
        (
            {"partitions": {"type": "monthly", "start": "2024-01-01"}},
            ["partitions"],
            "Extra inputs are not permitted",
            "('start' was unexpected)",
        ),
    ],
)
def test_attributes_that_the_schema_rejects(
    changes: dict[str, Any], place: list[str | int], by_dagster: str, by_schema: str
) -> None:
    config = attributes(**changes)
    (error, *_) = Draft202012Validator(CopyTablesComponent.model().model_json_schema()).iter_errors(
        config
    )
    assert list(error.absolute_path) == place
    assert by_schema in error.message
    rejection = refused(config)
    assert by_dagster in rejection
    assert f"attributes.{place[0]}" in rejection
    assert "copies/defs.yaml:" in rejection


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"partitions": DAYS, "op": {"pool": "p"}, "translation": {"group_name": "g"}},
        {"partitions": None, "options": {}},
        {"partitions": "{{ days }}", "tables": "{{ tables }}", "options": "{{ options }}"},
        {"options": {"mode": "{{ env.MODE }}", "degree": "{{ n }}", "unlogged": "{{ yes }}"}},
        {"options": {"columns": "a,b", "stall_timeout": 90, "partitions": "1GB"}},
        {"options": {"where": None}},
    ],
)
def test_attributes_that_the_schema_accepts(changes: dict[str, Any]) -> None:
    model = CopyTablesComponent.model()
    config = attributes(**changes)
    assert list(Draft202012Validator(model.model_json_schema()).iter_errors(config)) == []
    model.model_validate(config)


def test_the_schema_has_every_option_with_its_help() -> None:
    schema = CopyTablesComponent.model().model_json_schema()
    assert all("description" in schema["properties"][name] for name in schema["properties"])
    options = schema["$defs"]["CopyOptions"]["properties"]
    of_table = schema["$defs"]["TableCopy"]["properties"]
    assert of_table.keys() == {item.name for item in fields(CopySpec)} - {"run_id"}
    of_one = {"source", "target", "table", "query", "target_table"}
    assert of_table.keys() - options.keys() == of_one
    assert (
        "the table to write (default: the name of table)" in of_table["target_table"]["description"]
    )
    assert options["degree"]["description"].endswith("(default: auto)")
    assert {"const": "auto", "type": "string"} in options["degree"]["else"]["anyOf"]
    assert options["mode"]["else"]["enum"] == [
        "append",
        "truncate",
        "replace",
        "upsert",
        "recreate",
        "swap",
        "attach",
    ]
    assert not [text for text in of_table.values() if "--" in text["description"]]


def test_the_sample_that_dagster_shows_is_valid() -> None:
    """The sample in its documentation of components, built from the schema's examples."""
    schema = CopyTablesComponent.model().model_json_schema()
    sample = yaml.safe_load(generate_sample_yaml("dagster_penstock.CopyTablesComponent", schema))
    assert list(Draft202012Validator(schema).iter_errors(sample["attributes"])) == []
    with loaded(sample["attributes"]) as (component, _):
        assert component.partitions is not None
        assert component.translation is not None


def test_the_schema_for_editors_includes_the_component() -> None:
    """The schema of all components in the environment, which editors read."""
    whole = Draft202012Validator(list_all_components_schema(entry_points=True, extra_modules=()))
    config = {"type": "dagster_penstock.CopyTablesComponent"}
    right, wrong = attributes(partitions=DAYS), attributes(partitions={"type": "dayly"})
    assert whole.is_valid({**config, "attributes": right})
    assert not whole.is_valid({**config, "attributes": wrong})


# The user's own components

OWN = """
    import dagster as dg
    from dagster_penstock import CopyTablesComponent


    class Mine(CopyTablesComponent):
        prefix: str

        def get_asset_spec(self, table):
            asset = super().get_asset_spec(table)
            return asset.replace_attributes(key=asset.key.with_prefix(self.prefix))

        def execute(self, context, penstock):
            context.log.info(f"{type(penstock).__name__} of {self.prefix}")
            yield dg.MaterializeResult(metadata={"mine": True})
"""


def test_a_user_defined_component() -> None:
    config = attributes(prefix="wh", translation={"group_name": "{{ spec.key.path[0] }}"})
    with loaded(config, OWN) as (component, defs), dg.instance_for_test() as instance:
        assert type(component).__name__ == "Mine"
        (asset,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        (spec,) = asset.specs
        assert spec.key == dg.AssetKey(["wh", "dw", "orders"])
        assert spec.group_name == "wh"
        done = dg.materialize([asset], instance=instance)
        (materialization,) = done.asset_materializations_for_node("copies")
        assert materialization.metadata["mine"] == dg.MetadataValue.bool(True)
        messages = [entry.user_message for entry in instance.all_logs(done.run_id)]
        assert "PenstockResource of wh" in messages


def test_a_translator_defines_the_asset_of_a_table() -> None:
    component = CopyTablesComponent(source="env:A", target="env:B", tables=[ORDERS])
    table = CopiedTable(CopySpec(source="env:A", target="env:B", table="a.b"))
    assert component.get_asset_spec(table) == PenstockTranslator().get_asset_spec(table)


# A copy


def test_a_copy(
    source: Connection[Any],
    target: Connection[Any],
    source_url: str,
    target_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, url in (("PG_SRC", source_url), ("PG_DST", target_url)):
        monkeypatch.setenv(name, url)
    source.execute("CREATE TABLE orders (id int PRIMARY KEY, o_orderdate date NOT NULL)")
    source.execute(
        "INSERT INTO orders SELECT i, date '2024-01-01' + i % 4 FROM generate_series(1, 1000) i"
    )
    target.execute("CREATE SCHEMA dw")
    target.execute("CREATE TABLE dw.orders (id int PRIMARY KEY, o_orderdate date NOT NULL)")
    config = attributes(
        options={"mode": "replace", "verify": "checksums", "degree": 2},
        partitions=DAYS,
        blocking=True,
        translation={"key": "warehouse/{{ target.name }}"},
    )
    with loaded(config) as (_, defs), dg.instance_for_test() as instance:
        (asset,) = [one for one in defs.resolve_asset_graph().assets_defs if one.is_executable]
        done = dg.materialize(
            [asset],
            instance=instance,
            tags={
                "dagster/asset_partition_range_start": "2024-01-02",
                "dagster/asset_partition_range_end": "2024-01-03",
            },
        )
        assert done.success
        key = dg.AssetKey(["warehouse", "orders"])
        assert instance.get_materialized_partitions(key) == {"2024-01-02", "2024-01-03"}
        evaluations = done.get_asset_check_evaluations()
        assert evaluations
        assert all(evaluation.passed and evaluation.blocking for evaluation in evaluations)
    copied = target.execute("SELECT * FROM dw.orders ORDER BY id").fetchall()
    expected = source.execute(
        "SELECT * FROM orders WHERE o_orderdate IN ('2024-01-02', '2024-01-03') ORDER BY id"
    ).fetchall()
    assert copied == expected
    assert len(copied) == 500


# Scaffolding


@pytest.fixture
def scaffold(tmp_path: Path) -> Callable[..., str]:
    """Return the scaffolded files, which Dagster must be able to load."""

    def scaffolded(**params: str) -> str:
        with create_defs_folder_sandbox() as sandbox:
            path = sandbox.scaffold_component(CopyTablesComponent, "copies", params)
            text = (path / "defs.yaml").read_text()
            with sandbox.load_component_and_build_defs(path) as (component, defs):
                assert isinstance(component, CopyTablesComponent)
                assert defs.resolve_all_asset_specs()
        return text

    return scaffolded


def test_scaffolding(scaffold: Callable[..., str]) -> None:
    config = yaml.safe_load(
        scaffold(
            source="env:SHOP",
            target="WAREHOUSE",
            table="sales.orders",
            target_table="dw.orders",
            key="o_orderdate",
        )
    )
    assert config["requirements"] == {"env": ["SHOP", "WAREHOUSE"]}
    assert config["attributes"] == {
        "source": "{{ env.SHOP }}",
        "target": "{{ env.WAREHOUSE }}",
        "options": {"mode": "replace", "verify": "counts"},
        "tables": [{"table": "sales.orders", "target_table": "dw.orders", "key": "o_orderdate"}],
    }


def test_scaffolding_without_parameters(scaffold: Callable[..., str]) -> None:
    config = yaml.safe_load(scaffold())
    assert config["attributes"]["options"]["mode"] == "truncate"


def test_scaffolded_comments_are_valid_yaml(scaffold: Callable[..., str]) -> None:
    text = scaffold(key="o_orderdate")
    examples = {"partitions", "blocking", "op", "translation"}
    lines, shown = [], False
    for line in text.splitlines():
        if line.startswith("  # "):
            shown = shown or line[4:].partition(":")[0] in examples
        else:
            shown = False
        lines.append(line.replace("# ", "", 1) if shown else line)
    config = yaml.safe_load("\n".join(lines))
    assert examples <= config["attributes"].keys()
    with loaded(config["attributes"]) as (_, defs):
        (asset,) = [one for one in defs.resolve_all_asset_specs() if "penstock" in one.kinds]
        assert asset.key == dg.AssetKey(["warehouse", "orders"])
        assert asset.partitions_def is not None


@pytest.mark.parametrize("url", ["postgresql://me:secret@h/db", "env:", "a b"])
def test_scaffolding_rejects_a_url(url: str, scaffold: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="expected env:NAME"):
        scaffold(source=url)


def test_scaffolding_in_python() -> None:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(CopyTablesComponent, "copies", scaffold_format="python")
        text = (path / "component.py").read_text()
    assert "def load(context: dg.ComponentLoadContext) -> CopyTablesComponent" in text
