"""Metadata of the packages, and the workflows that publish them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from penstock.backends.shared.native import VERSION

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "core/native", "airflow_provider", "dagster_plugin")
REPOSITORY = "https://github.com/penstock-dev/penstock"
PINNED = re.compile(r"(?:[\w.-]+/)+[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/.*")
NEWEST = 14
REGISTRIES = {
    "uv.lock": {"https://pypi.org", "https://files.pythonhosted.org"},
    "core/native/Cargo.lock": {"https://github.com"},
}


def read(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture(params=PACKAGES)
def project(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = read(f"{request.param}/pyproject.toml")["project"]
    return found


def test_each_names_its_authors_and_its_licence(project: dict[str, Any]) -> None:
    assert project["authors"] == [{"name": "The Penstock contributors"}]
    assert project["license"] == "Apache-2.0"


def test_each_names_every_supported_python(project: dict[str, Any]) -> None:
    oldest = int(project["requires-python"].removeprefix(">=3."))
    named = [line for line in project["classifiers"] if " :: 3." in line]
    assert named == [
        f"Programming Language :: Python :: 3.{minor}" for minor in range(oldest, NEWEST + 1)
    ]


def test_each_names_the_repository(project: dict[str, Any]) -> None:
    urls = dict(project["urls"])
    assert urls.pop("Documentation").startswith(("https://github.com/", "https://pypi.org/"))
    assert urls == {
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
    }


def test_each_has_keywords_and_classifiers(project: dict[str, Any]) -> None:
    assert len(project["keywords"]) >= 3
    assert {"Topic :: Database", "Typing :: Typed"} < set(project["classifiers"])
    assert not any("Private" in line for line in project["classifiers"])


def test_the_testkit_cannot_be_uploaded() -> None:
    assert "Private :: Do Not Upload" in read("testkit/pyproject.toml")["project"]["classifiers"]


@pytest.mark.parametrize("package", PACKAGES)
def test_links_of_a_long_description_work_on_a_package_index(package: str) -> None:
    text = (ROOT / package / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    for page in re.findall(rf"{REPOSITORY}/(?:blob|tree)/main/([^#)]+)", text):
        assert (ROOT / page).exists(), page


def test_every_action_is_pinned_to_a_commit() -> None:
    used = [
        line.partition("uses: ")[2]
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses: " in line
    ]
    assert len(used) > 10
    assert [action for action in used if not PINNED.fullmatch(action)] == []


def test_penstock_and_its_native_part_have_the_same_version() -> None:
    """Penstock accepts no other: the interface between the two may change in any version."""
    core, native = read("core/pyproject.toml")["project"], read("core/native/pyproject.toml")
    (locked,) = [
        package["version"]
        for package in read("core/native/Cargo.lock")["package"]
        if package["name"] == "penstock-native"
    ]
    assert {
        "pyproject.toml": native["project"]["version"],
        "Cargo.toml": read("core/native/Cargo.toml")["package"]["version"],
        "Cargo.lock": locked,
        "penstock": core["version"],
    } == dict.fromkeys(("pyproject.toml", "Cargo.toml", "Cargo.lock", "penstock"), VERSION)
    assert core["optional-dependencies"]["native"] == [f"penstock-native=={VERSION}"]


@pytest.mark.parametrize("package", ["airflow_provider", "dagster_plugin"])
def test_packages_built_on_penstock_have_all_of_its_extras(package: str) -> None:
    """Otherwise an extra would be a warning of pip, and a failure when a task runs."""
    mine = read(f"{package}/pyproject.toml")["project"]["optional-dependencies"]
    for extra in read("core/pyproject.toml")["project"]["optional-dependencies"]:
        assert mine[extra] == [f"penstock[{extra}]=={VERSION}"]


@pytest.mark.parametrize("package", ["airflow_provider", "dagster_plugin"])
def test_provider_metadata_links_to_the_documentation(package: str) -> None:
    project = read(f"{package}/pyproject.toml")["project"]
    assert project["urls"]["Documentation"] == f"https://pypi.org/project/{project['name']}/"


@pytest.mark.parametrize("lock", REGISTRIES)
def test_locks_name_only_public_registries(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^/]+", text)) == REGISTRIES[lock]


def test_every_changelog_fragment_has_a_valid_category() -> None:
    known = "|".join(
        kind["directory"] for kind in read("pyproject.toml")["tool"]["towncrier"]["type"]
    )
    names = [path.name for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    fragment = re.compile(rf"(?:\d+|\+[\w-]+)\.(?:{known})\.md")
    assert [name for name in names if not fragment.fullmatch(name)] == []


def test_towncrier_finds_its_marker() -> None:
    begin = read("pyproject.toml")["tool"]["towncrier"]["start_string"]
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").count(begin) == 1
