"""Definitions of assets: the valid ones, the rejected ones, and the effects of a translator."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from dagster_penstock import (
    CopiedTable,
    CopySpec,
    PenstockTranslator,
    penstock_assets,
    ranges,
    source_assets,
)
from dagster_penstock.partitions import bound_text
from penstock import place_of
from penstock.backends.api.registry import find_backend, load_backend

DAYS = dg.DailyPartitionsDefinition("2024-01-01")
EAGER = dg.AutomationCondition.eager()
SECRET = "hunter2"


def spec(**options: Any) -> CopySpec:
    defaults = {
        "source": dg.EnvVar("PG_SRC"),
        "target": dg.EnvVar("PG_DST"),
        "table": "public.orders",
        "target_table": "dw.orders",
        "mode": "replace",
        "key": "day",
    }
    return CopySpec(**{**defaults, **options})


def definitions_of(
    *specs: CopySpec, partitions_def: dg.PartitionsDefinition | None = DAYS, **options: Any
) -> dg.AssetsDefinition:
    @penstock_assets(specs=specs or [spec()], partitions_def=partitions_def, **options)
    def orders() -> Iterator[Any]:
        yield from ()

    return orders


@pytest.mark.parametrize(
    ("options", "partitions_def", "expected"),
    [
        ({"key": None, "mode": "append"}, DAYS, "key: expected the column"),
        ({"mode": "truncate"}, DAYS, "mode: expected append, replace, upsert"),
        ({"mode": "swap"}, ranges(4), "found swap"),
        ({"strategy": "hash"}, DAYS, "strategy: expected auto, time with"),
        ({"strategy": "values"}, ranges(4), "strategy: expected auto, range, ntile, hash with"),
        (
            {"strategy": "time"},
            dg.StaticPartitionsDefinition(["a"]),
            "strategy: expected auto, values with",
        ),
        ({"partitions": 8}, DAYS, "partitions: leave it out, since the asset"),
        (
            {"partitions": "8 rows"},
            ranges(4),
            "partitions: leave it out, since the asset",
        ),
        ({"interval": "1 day"}, DAYS, "interval: leave it out, since the asset"),
        (
            {"run_id": "mine"},
            None,
            "run_id: leave it out, since Penstock derives it from the Dagster run",
        ),
        (
            {"on_snapshot_lost": "restart"},
            DAYS,
            "on_snapshot_lost: expected fail or accept, found restart",
        ),
        ({"mode": "append"}, ranges(4, "2"), "ranges: version: mode append cannot remove"),
        (
            {},
            dg.MultiPartitionsDefinition({"a": DAYS, "b": DAYS}),
            "and one of static or dynamic partitions",
        ),
    ],
)
def test_invalid_definitions_are_rejected(
    options: dict[str, Any], partitions_def: dg.PartitionsDefinition | None, expected: str
) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError) as raised:
        definitions_of(spec(**options), partitions_def=partitions_def)
    assert "copy of public.orders to dw.orders: " in str(raised.value)
    assert expected in str(raised.value)


def test_no_tables_or_a_repeated_table_is_rejected() -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="expected specs, found none"):
        penstock_assets(specs=[])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"dw.*orders"):
        definitions_of(spec(), spec(where="id > 5"))


@pytest.mark.parametrize("count", [-1, 0, 1, 1001])
def test_the_number_of_ranges_is_limited(count: int) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="count from 2 to 1,000"):
        ranges(count)


def test_ranges_are_named_and_versioned() -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="expected a version"):
        ranges(4, " ")
    assert ranges(1000).get_partition_keys()[-1] == "999"
    assert ranges(3).get_partition_keys() == ["000", "001", "002"]


ATTRIBUTES: tuple[str, ...] = dg.AssetSpec._fields  # type: ignore[attr-defined]
# For each attribute of an asset, a value other than the default.
OTHERS: dict[str, Any] = {
    "key": dg.AssetKey(["a", "b"]),
    "deps": [dg.AssetDep("raw")],
    "description": "mine",
    "metadata": {"mine": 1},
    "group_name": "g",
    "skippable": True,
    "code_version": "7",
    "automation_condition": dg.AutomationCondition.eager(),
    "owners": ["team:data"],
    "tags": {"tier": "gold"},
    "kinds": {"postgresql"},
    "is_virtual": True,
    "freshness_policy": dg.FreshnessPolicy.time_window(fail_window=timedelta(days=1)),
}
# The decorator takes the partitions definition; the other attribute is deprecated.
NOT_ITS_OWN = {"partitions_def", "legacy_freshness_policy", "auto_observe_interval_minutes"}


def test_each_attribute_of_an_asset_is_covered() -> None:
    assert {*ATTRIBUTES} - NOT_ITS_OWN <= OTHERS.keys()


@pytest.mark.filterwarnings("ignore::dagster.PreviewWarning", "ignore::dagster.BetaWarning")
@pytest.mark.parametrize("name", sorted(OTHERS))
@pytest.mark.parametrize("partitioned", [True, False])
def test_a_translator_may_set_each_attribute(name: str, *, partitioned: bool) -> None:
    if name not in ATTRIBUTES and name != "kinds":
        pytest.skip(f"this Dagster has no {name}")

    class Mine(PenstockTranslator):
        def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
            if name == "is_virtual":
                return super().get_asset_spec(table)._replace(is_virtual=True)
            return super().get_asset_spec(table).replace_attributes(**{name: OTHERS[name]})

    partitions_def = DAYS if partitioned else None
    assets = definitions_of(translator=Mine(), partitions_def=partitions_def)
    (asset,) = assets.specs
    assert assets.partitions_def == asset.partitions_def == partitions_def
    found = getattr(asset, name)
    if name == "metadata":
        assert found["mine"] == 1
    elif name == "tags":
        assert found["tier"] == "gold"
    elif name == "automation_condition":
        # By default, no event reports the upstream asset, so no condition waits for it.
        upstream = dg.AssetSelection.assets(["pg_src", "public", "orders"])
        assert found == OTHERS[name].ignore(upstream)
    else:
        assert found == OTHERS[name]


def test_the_default_asset() -> None:
    (asset,) = definitions_of(group_name="warehouse").specs
    assert asset.key == dg.AssetKey(["dw", "orders"])
    assert asset.group_name == "warehouse"
    assert asset.description == "public.orders, copied to dw.orders in mode replace by day."
    assert asset.kinds == {"penstock"}
    assert asset.metadata["dagster/table_name"] == "dw.orders"
    assert definitions_of().backfill_policy == dg.BackfillPolicy.single_run()


KINDS: dict[str, set[str]] = {
    "postgresql://h/db": {"postgresql"},
    "postgres://h/db": {"postgresql"},
    "mysql://h/db": {"mysql"},
    "mariadb://h/db": {"mariadb"},
    "mssql://h/db": {"sqlserver"},
    "mssql+pyodbc://h/db": {"sqlserver"},
    "snowflake://me@account/db": {"snowflake"},
    "clickhouse://h/db": {"clickhouse"},
    "duckdb:////data/w.duckdb": {"duckdb"},
    "file:///lake/orders/": {"parquet"},
    "file:///lake/orders.csv": {"csv"},
    "file:///lake/orders.tsv": {"csv"},
    "file:///lake/orders.jsonl": {"json"},
    "file:///lake/orders.ndjson.gz": {"json"},
    "s3://lake/orders/": {"parquet", "s3"},
    "s3://lake/orders/?format=csv": {"csv", "s3"},
    "s3://lake/orders.tsv": {"csv", "s3"},
    "s3://lake/orders.jsonl": {"json", "s3"},
    "s3://lake/orders.ndjson": {"json", "s3"},
}


@pytest.mark.parametrize("url", KINDS)
def test_an_asset_has_the_kinds_of_its_system(url: str) -> None:
    table = None if place_of(url).located else "dw.orders"
    (asset,) = definitions_of(
        spec(target=url, target_table=table, mode="append"), partitions_def=None
    ).specs
    assert asset.kinds == {"penstock", *KINDS[url]}


@pytest.mark.parametrize("url", KINDS)
def test_kinds_of_a_url_in_a_variable_are_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_SRC", url)
    monkeypatch.setenv("PG_DST", url)
    definitions = definitions_of(spec(mode="append"))
    (asset,) = definitions.specs
    assert asset.kinds == {"penstock", *KINDS[url]}
    (upstream,) = source_assets(definitions)
    assert upstream.kinds == KINDS[url]


def test_the_table_of_kinds_has_every_backend() -> None:
    entries = importlib.metadata.distribution("penstock").entry_points
    found = {entry.value for entry in entries if entry.group == "penstock.backends"}
    # Rows of a process are a source only.
    backends = {name for name in found if load_backend(name).target_capabilities.modes}
    assert {find_backend(url, "--target")[1] for url in KINDS} == backends


def test_dagster_has_an_icon_for_every_kind() -> None:
    found = importlib.util.find_spec("dagster_webserver")
    assert found is not None
    assert found.origin is not None
    chunks = Path(found.origin).parent.glob("webapp/build/_next/static/chunks/*.js")
    scripts = [text for path in chunks if '"Microsoft SQL Server"' in (text := path.read_text())]
    icons = {kind for text in scripts for kind in re.findall(r"[{,](\w+):\{icon:", text)}
    assert len(icons) > 100
    assert set().union(*KINDS.values()) <= icons


def test_chosen_options_are_shown_in_metadata() -> None:
    (asset,) = definitions_of(spec(verify="counts", where="day > '2024-01-01'")).specs
    shown = asset.metadata["penstock/options"]
    assert isinstance(shown, dg.JsonMetadataValue)
    assert shown.value == {
        "source": "env:PG_SRC",
        "target": "env:PG_DST",
        "table": "public.orders",
        "target_table": "dw.orders",
        "mode": "replace",
        "key": "day",
        "where": "day > '2024-01-01'",
        "verify": "counts",
    }


def test_the_source_is_an_upstream_asset() -> None:
    assets = definitions_of()
    upstream = dg.AssetKey(["pg_src", "public", "orders"])
    (asset,) = assets.specs
    assert [dep.asset_key for dep in asset.deps] == [upstream]
    (described,) = source_assets(
        assets, definitions_of(spec(target_table="dw.other"), name="other")
    )
    assert described.key == upstream
    assert described.metadata["dagster/table_name"] == "public.orders"
    graph = dg.Definitions(assets=[assets, described]).resolve_asset_graph()
    assert graph.get(upstream).is_external
    assert graph.get(upstream).description == "public.orders, from which Penstock copies."


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"source": "postgresql://h/shop"}, ["shop", "public", "orders"]),
        ({"source": "s3://lake/tpch/orders/*.parquet", "table": None}, ["tpch", "orders"]),
        ({"table": None, "query": "SELECT 1"}, ["pg_src", "query_of", "dw", "orders"]),
        ({"table": 'public."Große Namen"'}, ["pg_src", "public", "Gro_e_Namen"]),
        # Dagster would reject "in" alone.
        ({"source": "s3://lake/in/", "table": None}, ["lake", "in"]),
        # The same table name on both sides does not make them one asset.
        ({"target_table": None}, ["pg_src", "public", "orders"]),
        ({"source": "s3://lake/orders", "table": None, "target_table": "orders"}, None),
    ],
)
def test_an_upstream_asset_is_named_by_its_place(
    options: dict[str, Any], key: list[str] | None
) -> None:
    (asset,) = definitions_of(spec(**options)).specs
    assert [dep.asset_key.path for dep in asset.deps] == ([] if key is None else [key])


def test_an_upstream_asset_may_be_replaced_or_omitted() -> None:
    class Ours(PenstockTranslator):
        def get_source_asset_spec(self, table: CopiedTable) -> dg.AssetSpec | None:
            return dg.AssetSpec("raw_orders") if table.spec.table == "public.orders" else None

        def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
            return super().get_asset_spec(table).replace_attributes(automation_condition=EAGER)

    assets = definitions_of(spec(), spec(table="public.o", target_table="dw.o"), translator=Ours())
    deps = [[dep.asset_key.to_user_string() for dep in asset.deps] for asset in assets.specs]
    assert deps == [["raw_orders"], []]
    assert [source.key.to_user_string() for source in source_assets(assets)] == ["raw_orders"]
    # Events may report that asset, so conditions wait for it.
    assert [asset.automation_condition for asset in assets.specs] == [EAGER, EAGER]


def test_only_copies_have_sources() -> None:
    @dg.asset
    def other() -> None: ...

    with pytest.raises(dg.DagsterInvariantViolationError, match="other: expected assets of"):
        source_assets(other)


def test_no_repr_shows_a_password() -> None:
    url = f"postgresql://me:{SECRET}@db.example/shop"
    assets = definitions_of(spec(source=url, target=url, verify="counts"))
    definitions = dg.Definitions(assets=[assets])
    shown = [
        repr(assets),
        repr(assets.specs),
        str([dict(asset.metadata) for asset in assets.specs]),
        repr(definitions),
        repr(list(assets.check_specs)),
    ]
    assert [text for text in shown if SECRET in text] == []


def test_a_window_is_written_as_the_source_reads_it() -> None:
    york = ZoneInfo("America/New_York")

    def at(month: int, day: int, hour: int, minute: int = 0, fold: int = 0) -> str:
        moment = datetime(2024, month, day, hour, minute, fold=fold, tzinfo=york)
        text = bound_text(moment)
        assert datetime.fromisoformat(text).astimezone(UTC) == moment.astimezone(UTC)
        return text

    assert at(1, 5, 0) == "2024-01-05T00:00:00-05:00"
    assert at(3, 10, 3) == "2024-03-10T03:00:00-04:00"
    assert at(11, 3, 0, 59) == "2024-11-03T00:59:00-04:00"
    assert at(11, 3, 1) == "2024-11-03T01:00:00-04:00"
    # The same moment, written as the start of its ambiguous hour.
    assert at(11, 3, 1, 30) == "2024-11-03T01:00:00-04:30"
    assert at(11, 3, 1, 30, fold=1) == "2024-11-03T01:30:00-05:00"
    assert at(11, 3, 2) == "2024-11-03T02:00:00-05:00"
    assert bound_text(datetime(2024, 1, 5, tzinfo=UTC)) == "2024-01-05T00:00:00+00:00"


def test_a_function_that_drops_the_copy_fails() -> None:
    @penstock_assets(specs=[spec()])
    def forgotten() -> None:
        """Call `penstock.copy(context)` without `yield from`."""

    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.materialize([forgotten], instance=instance, raise_on_error=False)
    (failure,) = [event for event in run.all_events if event.is_step_failure]
    error = failure.step_failure_data.error
    assert error is not None
    assert "forgotten: expected a function that yields the events of its copies" in str(error)
