"""Requests beyond the capabilities of an end are rejected, in one wording."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from penstock import CopySpec, control_ddl
from penstock.backends.api.backend import Backend
from penstock.backends.api.capabilities import (
    SOURCE_OPTIONS,
    TARGET_OPTIONS,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.registry import find_backend
from penstock.errors import UsageError
from penstock.planning.support import check_supported
from penstock.spec.strategies import ALIASES, BLOCKS

SCHEMES = ("postgresql", "duckdb", "file", "s3")
OPTIONS = {item.name for item in fields(CopySpec)}


def backend(scheme: str) -> Backend:
    found, _ = find_backend(f"{scheme}://", "--source")
    return found


POSTGRES, DUCK = backend("postgresql"), backend("duckdb")
FILES = backend("file")


def refused(
    source: SourceCapabilities | None, target: TargetCapabilities | None, **options: Any
) -> str:
    spec = CopySpec(**{"source": "x://a", "target": "x://b", "table": "a.b", **options})
    with pytest.raises(UsageError) as caught:
        check_supported(spec, source, target)
    return caught.value.message


@pytest.mark.parametrize("scheme", SCHEMES)
def test_capabilities_name_existing_options(scheme: str) -> None:
    source, target = backend(scheme).source_capabilities, backend(scheme).target_capabilities
    assert OPTIONS.issuperset((*SOURCE_OPTIONS, *TARGET_OPTIONS))
    assert source.options <= set(SOURCE_OPTIONS)
    assert target.options.keys() <= set(TARGET_OPTIONS)
    assert target.cross_system_options <= target.options.keys()
    assert set(target.creating_modes).union(*target.options.values()) <= set(target.modes)
    assert source.block_strategy in (BLOCKS.name, *ALIASES)


def test_an_unsupported_mode_is_rejected() -> None:
    assert refused(None, FILES.target_capabilities, mode="upsert") == (
        "Parquet as a target does not support --mode upsert; it supports --mode append, truncate, "
        "replace, recreate or swap"
    )


def test_an_unsupported_strategy_is_named_as_the_user_wrote_it() -> None:
    assert refused(FILES.source_capabilities, None, strategy="ctid") == (
        "Parquet as a source does not support --strategy ctid; it supports --strategy auto, range, "
        "ntile, hash, values, time, files or whole"
    )


def test_unsupported_options_are_reported_together() -> None:
    found = refused(None, DUCK.target_capabilities, mode="swap", unlogged=True, file_size=1)
    assert found == (
        "DuckDB as a target does not support --unlogged and --file-size; it supports "
        "--conflict-columns, --types and --enums"
    )


def test_an_unsupported_option_of_a_source_is_rejected() -> None:
    found = refused(DUCK.source_capabilities, None, mode="recreate", partitioning=True)
    assert found == (
        "DuckDB as a source does not support --partitioning; it supports --set and --mask"
    )


def test_max_lag_is_rejected_for_files_but_not_for_postgresql() -> None:
    assert refused(FILES.source_capabilities, None, max_lag="30s") == (
        "Parquet as a source does not support --max-lag; it supports --set and --mask"
    )
    check_supported(
        CopySpec(source="x://a", target="x://b", table="a.b", max_lag=30.0),
        POSTGRES.source_capabilities,
        None,
    )


def test_an_option_of_other_modes_is_rejected() -> None:
    options = {"mode": "replace", "key": "k", "indexes": "defer"}
    assert refused(None, POSTGRES.target_capabilities, **options) == (
        "PostgreSQL as a target does not support --indexes defer with --mode replace; it supports "
        "--indexes defer with --mode append, truncate, recreate or swap"
    )


def test_an_option_of_other_systems_is_rejected() -> None:
    ends = POSTGRES.source_capabilities, POSTGRES.target_capabilities
    assert refused(*ends, mode="recreate", types=("a=int",)) == (
        "PostgreSQL as a target does not support --types from PostgreSQL; it supports --types from "
        "other systems"
    )


def test_an_unsupported_snapshot_is_rejected() -> None:
    capabilities = replace(DUCK.source_capabilities, shared_snapshots=False)
    assert refused(capabilities, None) == (
        "DuckDB as a source does not support --snapshot shared; it supports --snapshot none"
    )


def test_supported_and_unknown_requests_are_accepted() -> None:
    spec = CopySpec(source="x://a", target="x://b", table="a.b", mode="recreate", types=("a=b",))
    check_supported(spec, None, POSTGRES.target_capabilities)
    check_supported(spec, DUCK.source_capabilities, POSTGRES.target_capabilities)
    check_supported(replace(spec, partitioning=True), POSTGRES.source_capabilities, None)


def test_replace_needs_a_key_if_rows_are_deleted_by_condition() -> None:
    spec = CopySpec(source="x://a", target="x://b", table="a.b", mode="replace")
    check_supported(spec, None, FILES.target_capabilities)
    with pytest.raises(UsageError, match="expected --key"):
        check_supported(spec, None, DUCK.target_capabilities)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_control_ddl_is_rejected_without_control_tables(scheme: str) -> None:
    capabilities = backend(scheme).target_capabilities
    if capabilities.control_ddl:
        assert "CREATE" in control_ddl(f"{scheme}://")
    else:
        with pytest.raises(UsageError, match=f"{capabilities.system} as a target does not support"):
            control_ddl(f"{scheme}://")
