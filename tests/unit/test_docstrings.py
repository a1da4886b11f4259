"""Docstrings describe all parameters of public functions that have three or more, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from penstock import CopySpec

ROOT = Path(__file__).resolve().parents[2]
CORE = "core/src/penstock"
PACKAGES = ("airflow_provider/src/penstock_airflow", "dagster_plugin/src/dagster_penstock")
OPTIONS = {item.name for item in fields(CopySpec)}
# One or more names, then a colon: "source, target: URLs with their secrets."
ENTRY = re.compile(r"^\*{0,2}(\w+(?:, \w+)*(?: \.\.\.)?):", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(body: list[ast.stmt], name: str) -> Iterator[tuple[str, Function, str]]:
    """Return public functions and constructors, with their name and docstring."""
    for node in body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            yield from public_functions(node.body, f"{name}.{node.name}")
            for method in node.body:
                if isinstance(method, Function) and method.name == "__init__":
                    yield f"{name}.{node.name}", method, ast.get_docstring(node) or ""
        else:
            yield f"{name}.{node.name}", node, ast.get_docstring(node) or ""


def documented(docstring: str) -> set[str]:
    """Return the names in the section "Args:"; an entry "..." stands for a copy's options."""
    _, _, rest = docstring.partition("Args:\n")
    section = re.split(r"^\w", rest, maxsplit=1, flags=re.MULTILINE)[0]
    found: set[str] = set()
    for entry in ENTRY.findall(re.sub(r"^ {4}(?! )", "", section, flags=re.MULTILINE)):
        found |= set(re.findall(r"\w+", entry)) | (OPTIONS if "..." in entry else set())
    return found


def arguments(function: Function) -> set[str]:
    listed = function.args
    names = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg]
    return {each.arg for each in names if each is not None} - {"self", "cls"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_parameter_of_a_public_function_is_documented(package: str) -> None:
    missing = {}
    seen = 0
    for path in sorted((ROOT / package).rglob("*.py")):
        if path.name.startswith("_"):
            continue
        module = ast.parse(path.read_text(encoding="utf-8"))
        for name, function, docstring in public_functions(module.body, path.stem):
            names = arguments(function)
            if len(names) < 3:
                continue
            seen += 1
            if undocumented := names - documented(docstring):
                missing[name] = sorted(undocumented)
    assert seen > 10
    assert missing == {}


@pytest.mark.parametrize("package", [CORE, *PACKAGES])
def test_every_documented_parameter_exists(package: str) -> None:
    """A parameter that was renamed in the signature is renamed in the docstring."""
    unknown = {}
    seen = 0
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for name, function, docstring in public_functions(module.body, path.stem):
            names = documented(docstring)
            seen += bool(names)
            if others := names - arguments(function) - OPTIONS:
                unknown[name] = sorted(others)
    assert seen > 10
    assert unknown == {}


def test_the_check_finds_what_is_missing() -> None:
    text = "Return x.\n\nArgs:\n    a, b: y\n        z: y.\n    c: y.\n\nRaises:\n    E: y."
    assert documented(text) == {"a", "b", "c"}
    assert documented("Return x.") == set()
