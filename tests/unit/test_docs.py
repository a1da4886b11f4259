"""The documentation of options, events, modes and exit codes matches the code."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import penstock
from penstock import errors, events
from penstock.backends.api.backend import Backend
from penstock.backends.api.execution.attempt import (
    AttemptLock,
    LoadStream,
    Stage,
    StagedHooks,
    StagedTransaction,
    TransactionalHooks,
)
from penstock.backends.api.execution.control import (
    Commits,
    ControlStore,
    Generations,
    Journals,
    LoadedTables,
    Nights,
    Presence,
    Recopies,
    Runs,
    Steps,
    Watermarks,
)
from penstock.backends.api.execution.roll_forward import (
    Pieces,
    PieceStream,
    RecordDocuments,
    RollForwardHooks,
)
from penstock.backends.api.optional.cursors import ReadsByColumn, ReadsByFile
from penstock.backends.api.optional.nights import FindsDeletedRows, GroupsKeys
from penstock.backends.api.source import HeldSnapshot, SourceCatalog, VersionedSource
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import Reader, Writer
from penstock.cli.main import make_parser
from penstock.model.tables import NotCopied
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.copy_spec import CopySpec
from penstock.spec.groups.execution import ON_ERROR
from penstock.spec.groups.snapshot import ON_SNAPSHOT_LOST, SNAPSHOTS
from penstock.spec.modes import MODES
from penstock.spec.strategies import ALIASES, STRATEGIES
from penstock.spec.toml_file import read_toml

from ..types import type_files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
)
# Pages for users; others may mention other programs' options.
MANUAL = [
    ROOT / "README.md",
    ROOT / "core" / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "tasks").glob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[str]:
    found = [body for language, body in FENCE.findall(text(page)) if language in languages]
    assert found, f"{page}: no block of {languages}"
    return found


def sections(page: str, level: int) -> dict[str, str]:
    """Return the text below each heading of a level, up to the next of that level or higher."""
    prose = FENCE.sub("", text(page))
    found = re.split(rf"^(#{{1,{level}}}) (.+)$", prose, flags=re.MULTILINE)
    return {
        title.strip("`"): body
        for marks, title, body in zip(found[1::3], found[2::3], found[3::3], strict=True)
        if len(marks) == level
    }


def table(body: str) -> list[list[str]]:
    """Return the rows of the first table, without its header."""
    rows = []
    for line in body.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
        elif rows:
            break
    assert len(rows) > 2, f"no table in {body[:100]!r}"
    return rows[2:]


def first_column(body: str) -> list[str]:
    return [row[0].strip("`") for row in table(body)]


# Links


def test_links_resolve() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "links.py"], check=True)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_have_no_merge_markers(page: Path) -> None:
    assert not re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", page.read_text(encoding="utf-8"), re.M)


def test_every_page_of_docs_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([\w./-]+)", text("README.md")))
    pages = {page.name for page in DOCS.iterdir() if page.is_file()}
    tasks = {f"tasks/{page.name}" for page in (DOCS / "tasks").glob("*.md")} - {"tasks/index.md"}
    assert pages | tasks == {
        page for page in linked if not page.startswith(("images", "decisions"))
    }


# Options and commands


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of all commands, by name."""
    (commands,) = [
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    found: Mapping[str, argparse.ArgumentParser] = commands.choices
    return found


def known_options() -> set[str]:
    return {
        flag
        for parser in (make_parser(), *parsers().values())
        for action in parser._actions
        for flag in action.option_strings
        if flag.startswith("--")
    }


# Options of `airflow backfill create`.
OF_AIRFLOW = {
    "--conn-uri",
    "--dag-id",
    "--from-date",
    "--max-active-runs",
    "--reprocess-behavior",
    "--to-date",
}
# Options of `dg launch`.
OF_DAGSTER = {"--assets", "--partition", "--partition-range"}
# Options of `docker` and `kubectl`.
OF_CONTAINERS = {
    *("--build", "--cap-drop", "--env", "--exit-code-from", "--file", "--read-only", "--rm"),
    *("--tag", "--tmpfs", "--filename", "--from-file"),
}
# Options of `pg_dump`, `chromium`, benchmarks/run.py, `pgcopydb` and `sling`.
OF_OTHERS = {
    *OF_CONTAINERS,
    *("--section", "--headless", "--hide-scrollbars", "--screenshot", "--window-size"),
    *("--only", "--repeat", "--scale"),
    *(
        "--filters",
        "--follow",
        "--index-jobs",
        "--resume",
        "--split-tables-larger-than",
        "--table-jobs",
    ),
    *("--primary-key", "--src-conn", "--src-stream", "--tgt-conn", "--tgt-object", "--update-key"),
}


def options_in(page: Path) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", MANUAL, ids=name)
def test_every_documented_option_exists(page: Path) -> None:
    assert options_in(page) - known_options() - OF_AIRFLOW - OF_DAGSTER - OF_OTHERS == set()


def test_every_option_is_in_the_reference() -> None:
    assert known_options() - options_in(DOCS / "cli.md") == set()


def test_every_command_is_in_the_reference() -> None:
    named = {row.split()[0] for row in first_column(text("docs/cli.md"))}
    assert named == set(parsers())


def test_defaults_in_the_reference_match() -> None:
    documented = {
        row[0].split()[0].strip("`,"): row[1].strip("`")
        for line in re.findall(r"^\| `--.+$", text("docs/cli.md"), re.MULTILINE)
        if len(row := [cell.strip() for cell in line.strip("|").split("|")]) == 3
    }
    for item in fields(CopySpec):
        shown = documented["--" + item.name.replace("_", "-")]
        if isinstance(item.default, float):
            assert shown == f"{item.default:g}s", item.name
        elif isinstance(item.default, bool):
            assert shown == "no", item.name
        elif isinstance(item.default, str | int):
            assert shown == str(item.default), item.name


def command_lines() -> Iterator[tuple[str, str]]:
    for page in MANUAL:
        prose = page.read_text(encoding="utf-8")
        for language, body in FENCE.findall(prose):
            if language not in ("sh", "console"):
                continue
            for line in body.replace("\\\n", " ").splitlines():
                command = line.removeprefix("$ ") if language == "console" else line
                shown = language == "sh" or line.startswith("$ ")
                if shown and command.startswith("penstock "):
                    yield name(page), command


@pytest.mark.parametrize(("page", "command"), list(command_lines()))
def test_every_command_line_parses(page: str, command: str) -> None:
    make_parser().parse_args(shlex.split(command, comments=True)[1:])


# TOML and Python


@pytest.mark.parametrize("page", ["docs/getting-started.md", "docs/cli.md", "docs/many-tables.md"])
def test_the_toml_example_is_a_valid_spec(page: str, tmp_path: Path) -> None:
    for number, body in enumerate(blocks(page, "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(body, encoding="utf-8")
        raw = read_toml(str(file), {"WAREHOUSE_PASSWORD": "s3cret"})
        assert len(raw) == len(tomllib.loads(body))
        if "tables" in raw:
            BatchSpec.from_mapping(raw, page)
        else:
            CopySpec.from_mapping(raw, page)


@pytest.mark.parametrize("page", ["docs/getting-started.md", "core/README.md"])
def test_the_python_example_uses_existing_names(page: str) -> None:
    for body in blocks(page, "python"):
        tree = ast.parse(body)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.module in ("penstock", "dagster_penstock")
                public = import_module(node.module).__all__
                assert {alias.name for alias in node.names} <= set(public)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                function = node.func.id
                if function in penstock.__all__:
                    keywords = [word.arg for word in node.keywords if word.arg]
                    assert set(keywords) <= set(
                        inspect.signature(getattr(penstock, function)).parameters
                    )


# Words of the spec


STRATEGY_NAMES = [name for name in STRATEGIES if name not in ALIASES]


def test_the_page_lists_every_strategy() -> None:
    assert list(sections("docs/strategies.md", 2)) == [
        "What each system supports",
        "How many",
        *STRATEGY_NAMES,
        "A query instead of a table",
        "Partitions of your own",
        "Limits to know",
        "DuckDB",
    ]
    overview = text("docs/strategies.md").partition("## How many")[0]
    assert [row.split("`")[1] for row in first_column(overview)] == STRATEGY_NAMES


def test_the_page_lists_every_mode() -> None:
    assert tuple(sections("docs/modes.md", 2)) == (
        "What each system supports",
        "A missing table",
        *MODES,
        "Sequences",
        "Inheritance",
        "A whole database",
        "--indexes defer",
        "--unlogged",
        "DuckDB",
    )
    assert [row.split("`")[1] for row in first_column(text("docs/modes.md"))] == list(MODES)


@pytest.mark.parametrize(
    "script",
    ["capability_tables.py", "clearing_table.py", "parts_tables.py", "type_tables.py"],
)
def test_generated_tables_are_current(script: str) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], check=True)


def test_the_page_lists_every_way_to_compare_values() -> None:
    body = sections("docs/types.md", 3)["How values are compared"]
    kinds = {kind for *_, kind, _ in type_files.lines("postgresql/from_arrow")} - {""}
    assert {row.split("`")[1] for row, _ in table(body)} == {
        "list:" if kind.startswith("list:") else kind for kind in kinds
    }


def test_the_page_lists_every_policy_for_a_lost_snapshot() -> None:
    body = sections("docs/resume-and-failure.md", 2)["When the snapshot is lost"]
    assert tuple(first_column(body)) == ON_SNAPSHOT_LOST


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--strategy", tuple(STRATEGIES)),
        ("--mode", tuple(MODES)),
        ("--snapshot", SNAPSHOTS),
        ("--on-snapshot-lost", ON_SNAPSHOT_LOST),
        ("--on-error", ON_ERROR),
    ],
)
def test_values_in_the_reference_match(option: str, values: tuple[str, ...]) -> None:
    (line,) = re.findall(rf"^\| `{option}` \|.*$", text("docs/cli.md"), re.MULTILINE)
    meaning = line.split("|")[3]
    assert set(values) <= set(re.findall(r"`(\w+)`", meaning))


# Errors


def test_the_page_lists_every_exit_code() -> None:
    rows = table(sections("docs/resume-and-failure.md", 2)["Exit codes"])
    codes = {value for key, value in vars(errors).items() if key.startswith("EXIT_")}
    assert {int(row[0]) for row in rows} == codes
    documented = {
        exception: int(row[0]) for row in rows for exception in re.findall(r"`(\w+)`", row[3])
    }
    assert documented == {
        key: value.exit_code
        for key, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.PenstockError)
    }


# Events

PROTOCOL = "docs/event-protocol.md"
COMMON = ["version", "event", "run_id", "at"]


def test_the_page_lists_the_common_fields_of_events() -> None:
    assert first_column(sections(PROTOCOL, 2)["Every event"]) == COMMON


def test_the_page_lists_every_event_and_its_fields() -> None:
    described = {
        title: first_column(body)
        for title, body in sections(PROTOCOL, 3).items()
        if title in events.BY_NAME
    }
    assert described == {
        event: [item.name for item in fields(kind) if item.name not in COMMON]
        for event, kind in events.BY_NAME.items()
    }


def test_the_page_lists_the_fields_of_parts_of_events() -> None:
    parts = {
        title: first_column(body)
        for title, body in sections(PROTOCOL, 3).items()
        if title not in events.BY_NAME
    }
    assert parts == {
        "others": [item.name for item in fields(events.OtherProcess)],
        "differences": [item.name for item in fields(events.PartitionDifference)],
        "compared": [item.name for item in fields(events.PartitionComparison)],
        "failures": [item.name for item in fields(events.PartitionFailure)],
        "timings": [item.name for item in fields(events.PartitionTiming)],
        "tables": [item.name for item in fields(events.BatchTable)],
        "not copied": [item.name for item in fields(NotCopied)],
        "error": [
            "error",
            "message",
            "transient",
            *(item.name for item in fields(errors.Diagnosis)),
        ],
    }


def test_the_page_has_the_version_of_the_protocol() -> None:
    assert f"The version is {events.VERSION}." in text(PROTOCOL)


def test_examples_of_events_are_valid() -> None:
    schema: dict[str, Any] = json.loads(text("docs/event-protocol.schema.json"))
    validator = Draft202012Validator(schema)
    lines = [line for body in blocks(PROTOCOL, "json") for line in body.splitlines()]
    seen = set()
    for line in lines:
        event = events.from_line(line)
        assert event.to_line() == line
        validator.validate(json.loads(line))
        seen.add(event.name)
    assert seen == set(events.BY_NAME)


# Modules and protocols


def test_the_page_has_the_enforced_layers() -> None:
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layer_lists = [
        contract["layers"]
        for contract in contracts
        if contract["type"] == "layers" and "." not in contract["containers"][0]
    ]
    assert len(layer_lists) == 3  # the core and its two integrations
    for layers in layer_lists:
        page = "architecture" if layers[0].startswith("cli") else "module-tree"
        assert "\n".join(layers) + "\n" in blocks(f"docs/{page}.md", "")


def test_every_module_of_the_dagster_integration_is_listed() -> None:
    folder = ROOT / "dagster_plugin" / "src" / "dagster_penstock"
    modules = [path.relative_to(folder) for path in folder.rglob("*.py")]
    section = text("docs/module-tree.md").partition("## Dagster")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([\w/]+\.py)`", section))
    assert {str(path) for path in modules if path.name != "__init__.py"} == named


def test_the_module_tree_is_current() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "module_tree.py", "--check"], check=True)


@pytest.mark.parametrize(
    "protocol",
    [
        Backend,
        SourceCatalog,
        TargetCatalog,
        ControlStore,
        Commits,
        Generations,
        Journals,
        LoadedTables,
        Nights,
        Presence,
        Recopies,
        Runs,
        Steps,
        Watermarks,
        HeldSnapshot,
        Reader,
        Writer,
        LoadStream,
        AttemptLock,
        TransactionalHooks,
        Stage,
        StagedTransaction,
        StagedHooks,
        RecordDocuments,
        Pieces,
        PieceStream,
        RollForwardHooks,
        VersionedSource,
        ReadsByColumn,
        ReadsByFile,
        GroupsKeys,
        FindsDeletedRows,
    ],
)
def test_every_method_of_a_backend_is_explained(protocol: type) -> None:
    page = text("docs/adding-a-database.md")
    members = {
        member
        for member in (*vars(protocol), *protocol.__annotations__)
        if not member.startswith("_")
    }
    assert {m for m in members if not re.search(rf"`{m}[`(]", page)} == set()


def test_examples_match_their_files() -> None:
    page = "docs/getting-started.md"
    example = text("dags_examples/airflow/nightly_replace_by_date.py")
    assert example[example.index("with DAG(") :] in blocks(page, "python")
    example = text("dags_examples/dagster/daily_replace.py")
    assert example[example.index("import dagster") :] in blocks(page, "python")


# Words that have a synonym in the glossary

FORBIDDEN = re.compile(r"\b(chunk|job|slice|shard)(s|ed|ing)?\b", re.IGNORECASE)


# These pages contain words of other programs.
APART = ("comparison.md", "from-another-tool.md", "glossary.md", "operate.md")


@pytest.mark.parametrize("page", [page for page in MANUAL if page.name not in APART], ids=name)
def test_no_synonym_of_a_glossary_word_is_used(page: Path) -> None:
    assert FORBIDDEN.findall(page.read_text(encoding="utf-8")) == []
