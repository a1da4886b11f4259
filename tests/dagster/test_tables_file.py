"""Assets defined by a file of many tables, in Python and in a component."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
import pydantic
import pytest
import yaml  # type: ignore[import-untyped]
from dagster.components.testing import create_defs_folder_sandbox

from dagster_penstock import CopyFileComponent, specs_of_file
from dagster_penstock.components.scaffolder import CopyFileParams, CopyFileScaffolder
from penstock import batch_of_file

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection

# Dagster's own function that reads YAML.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated"),
    pytest.mark.filterwarnings("ignore:Class .(LocalFileCode|CodeReferences)"),
]
TEXT = """
    source = "env:PG_SRC"
    target = "env:PG_DST"

    [defaults]
    mode = "upsert"
    incremental = "xmin"
    deletes = "hard"

    [tables."public.t"]
    [tables."public.log_*"]
    mode = "truncate"
    verify = "counts"
    [tables."public.secret*"]
    skip = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.toml"
    path.write_text(textwrap.dedent(TEXT), encoding="utf-8")
    return path


def refused(file: Path, **arguments: Any) -> str:
    with pytest.raises(dg.DagsterInvalidDefinitionError) as error:
        specs_of_file(file, **arguments)
    return str(error.value)


def test_each_named_table_is_an_asset(file: Path) -> None:
    t, log = specs_of_file(file, tables=["public.log_a"])
    assert (t.table, t.mode, t.incremental, t.source) == (
        "public.t",
        "upsert",
        "xmin",
        "env:PG_SRC",
    )
    assert (log.table, log.mode, log.incremental, log.verify) == (
        "public.log_a",
        "truncate",
        None,
        "counts",
    )


def test_arguments_override_the_files_defaults(file: Path) -> None:
    elsewhere: dict[str, Any] = {
        "tables": ["public.log_a"],
        "target": dg.EnvVar("OTHER"),
        "mode": "swap",
    }
    t, log = specs_of_file(file, **elsewhere)
    assert (t.target, t.mode, log.mode) == ("env:OTHER", "swap", "truncate")


def test_an_invalid_file_is_rejected(file: Path) -> None:
    assert 'penstock.toml:11: [tables."public.log_*"]: an asset needs the name' in refused(file)
    file.write_text("[tables", encoding="utf-8")
    assert "penstock.toml: invalid TOML" in refused(file)
    assert "gone.toml: expected a TOML file" in refused(file.with_name("gone.toml"))


def test_a_definition_contains_no_secret(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "s3cret")
    url = "postgresql://loader:${PASSWORD}@dw/warehouse"
    file.write_text(textwrap.dedent(TEXT).replace("env:PG_DST", url), encoding="utf-8")
    message = refused(file, tables=["public.log_a"])
    assert "target: expected env:NAME" in message
    assert "s3cret" not in message


@contextmanager
def loaded(attributes: dict[str, Any]) -> Iterator[dg.Definitions]:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "copies"
        folder.mkdir()
        (folder / "penstock.toml").write_text(textwrap.dedent(TEXT), encoding="utf-8")
        kind = "dagster_penstock.CopyFileComponent"
        text = yaml.safe_dump({"type": kind, "attributes": attributes})
        (folder / "defs.yaml").write_text(text)
        with sandbox.load_component_and_build_defs(folder) as (component, defs):
            assert isinstance(component, CopyFileComponent)
            yield defs


def test_the_component_copies_all_tables_with_one_snapshot(
    source: Connection,
    target: Connection,
    source_url: str,
    target_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PG_SRC", source_url)
    monkeypatch.setenv("PG_DST", target_url)
    for name in ("t", "log_a", "secrets"):
        source.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)".encode())
        source.execute(f"INSERT INTO {name} SELECT generate_series(1, 100)".encode())
    target.execute("CREATE TABLE log_a (id int)")
    # Dagster refreshes the state while it loads definitions for development.
    monkeypatch.setenv("DAGSTER_IS_DEV_CLI", "1")
    attributes = {
        "translation": {"key": "shop/{{ target.name }}", "group_name": "shop"},
    }
    with loaded(attributes) as defs, dg.instance_for_test() as instance:
        job = defs.resolve_implicit_global_asset_job_def()
        ran = job.execute_in_process(instance=instance)
        assert ran.success
        found = {
            event.asset_key.to_user_string(): event.step_materialization_data.materialization
            for event in ran.get_asset_materialization_events()
            if event.asset_key is not None
        }
        assert set(found) == {"shop/t", "shop/log_a"}
        assert found["shop/t"].metadata["dagster/row_count"].value == 100
        assert [each.passed for each in ran.get_asset_check_evaluations()] == [True]
        source.execute("DELETE FROM t WHERE id <= 10")
        alone = job.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey(["shop", "t"])]
        )
        (event,) = alone.get_asset_materialization_events()
        deleted = event.step_materialization_data.materialization.metadata["penstock/rows_deleted"]
        assert deleted.value == 10
    assert target.execute("SELECT to_regclass('public.secrets')").fetchone() == (None,)


def test_patterns_wait_for_a_refresh_and_names_do_not(caplog: pytest.LogCaptureFixture) -> None:
    with loaded({}) as defs:
        assert [key.to_user_string() for key in assets_of(defs)] == ["public/t"]
    (record,) = [each for each in caplog.records if "dg utils refresh-defs-state" in each.message]
    assert "penstock.toml: the tables that its patterns match are not known yet" in record.message
    with loaded({"tables": ["sales.*"]}) as defs:
        assert not assets_of(defs)


def assets_of(defs: dg.Definitions) -> list[dg.AssetKey]:
    return sorted(defs.resolve_asset_graph().materializable_asset_keys)


def test_the_component_reports_a_missing_file() -> None:
    with pytest.raises(Exception) as error, loaded({"file": "gone.toml"}):  # noqa: PT011 - Dagster's
        pass
    assert "gone.toml: expected a TOML file" in str(error.value.__cause__)


def test_a_component_in_python_needs_an_absolute_path() -> None:
    component = CopyFileComponent(file="penstock.toml")
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="expected an absolute path"):
        _ = component.file_path


def test_a_password_in_the_components_file_is_refused() -> None:
    attributes = {"source": "postgresql://me:pa55word@h/shop"}
    with pytest.raises(Exception) as error, loaded(attributes):  # noqa: PT011 - Dagster's own
        pass
    message = str(error.value.__cause__)
    assert "source: expected a URL without a password" in message
    assert "pa55word" not in message


def test_scaffolded_files_are_valid() -> None:
    params = {"source": "env:SHOP", "target": "DW", "tables": "sales.*", "mode": "swap"}
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(CopyFileComponent, "shop", params)
        text = (path / "defs.yaml").read_text()
        batch = batch_of_file(str(path / "penstock.toml"))
        assert (batch.source, batch.target) == ("env:SHOP", "env:DW")
        assert [section.pattern for section in batch.sections] == ["sales.*"]
        assert batch.defaults == {"mode": "swap"}
        with sandbox.load_component_and_build_defs(path) as (component, defs):
            assert isinstance(component, CopyFileComponent)
            assert not assets_of(defs)
        # What is commented out is valid, too.
        head, _, rest = text.partition("# defs_state")
        lines = [line.replace("# ", "", 1) for line in f"  # defs_state{rest}".splitlines()]
        shown = [line for line in lines if not line.strip()[:1].isupper() and "further" not in line]
        (path / "defs.yaml").write_text(head.rstrip(" ") + "\n".join(shown))
        text = (path / "defs.yaml").read_text()
        assert {"defs_state", "tables", "exclude", "partitions", "translation"} < set(
            yaml.safe_load(text)["attributes"]
        )


def test_scaffolding_a_document_more_keeps_the_file_of_tables(tmp_path: Path) -> None:
    scaffolder = CopyFileScaffolder()
    request = dg.ScaffoldRequest(
        type_name="dagster_penstock.CopyFileComponent",
        target_path=tmp_path,
        scaffold_format="yaml",
        project_root=None,
        params=CopyFileParams(),
    )
    scaffolder.scaffold(request)
    (tmp_path / "penstock.toml").write_text("mine")
    target = tmp_path / "defs.yaml"
    scaffolder.scaffold(dataclasses.replace(request, target_path=target, append=True))
    assert len([*yaml.safe_load_all(target.read_text())]) == 2
    assert (tmp_path / "penstock.toml").read_text() == "mine"


def test_scaffolding_refuses_a_url() -> None:
    with pytest.raises(pydantic.ValidationError, match="expected env:NAME"):
        CopyFileParams(source="postgresql://me:pa55word@h/shop")
