"""Modes and strategies are objects: no other code compares their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import Field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from penstock import CopySpec
from penstock.spec.modes import (
    APPEND,
    MODES,
    STAGED,
    SWAP,
    Emptying,
    Ending,
    Entry,
    Mode,
    ModeName,
    Table,
    mode_of,
)
from penstock.spec.strategies import ALIASES, STRATEGIES, StrategyName

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("core/src", "airflow_provider/src", "dagster_plugin/src")
QUESTIONS: tuple[type[Enum], ...] = (Table, Emptying, Entry, Ending)
NAMES = {*MODES, *STRATEGIES}
# The stored kinds of extents: a strategy may create several of them.
ALLOWED = {
    # Generated from the options of a copy.
    "airflow_provider/src/penstock_airflow/arguments/option_types.py",
    "core/src/penstock/model/extents.py",
}
# Also the names of types of values in a database.
TYPES = {"time"}


def text_of(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def names_in(node: ast.AST) -> set[str]:
    """Return the names of modes and strategies that a value is, or that a literal contains."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return set().union(*map(names_in, node.elts)) if node.elts else set()
    if isinstance(node, ast.Dict):
        return set().union(*(names_in(key) for key in node.keys if key is not None), set())
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("set", "frozenset", "tuple"):
        return set().union(*map(names_in, node.args), set())
    text = text_of(node)
    return {text} & NAMES if text is not None else set()


def is_literal(node: ast.AST) -> bool:
    """Whether a node is the type `Literal[...]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Literal"
    )


def comparisons(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Return the lines that compare a value with such names, or contain a collection of them.

    The types of public arguments list them; they are compared with the real ones elsewhere.
    """
    typed = {id(node.slice) for node in ast.walk(tree) if is_literal(node)}  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        found: set[str] = set()
        if isinstance(node, ast.Compare):
            found = set().union(*map(names_in, (node.left, *node.comparators)))
        elif isinstance(node, ast.MatchValue):
            found = names_in(node.value)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            several = names_in(node)
            if len(several) > 1 and (several <= set(MODES) or several <= set(STRATEGIES)):
                found = several
        if found:
            yield node.lineno if hasattr(node, "lineno") else 0, found


@pytest.mark.parametrize(
    "line",
    [
        'x = spec.mode == "append"',
        'x = "append" != spec.mode',
        'x = spec.mode in ("truncate", "swap")',
        'x = spec.mode not in {"truncate"}',
        'x = strategy in frozenset(["ctid", "hash"])',
        'FRESH = ("truncate", "recreate")',
        'CUTS = {"range": 1, "hash": 2}',
        'match mode:\n    case "swap" | "append":\n        pass',
    ],
)
def test_the_check_finds_comparisons(line: str) -> None:
    assert list(comparisons(ast.parse(line)))


def test_no_code_compares_the_names() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(sorted(names))}"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in ALLOWED
        for line, names in comparisons(ast.parse(path.read_text(encoding="utf-8")))
        if not ("backends" in path.parts and names <= TYPES)
    ]
    assert found == []


def test_no_two_modes_are_equivalent() -> None:
    modes = (*MODES.values(), *STAGED)
    assert len({mode.answers for mode in modes}) == len(modes)
    assert [mode for mode in modes if mode.only_adds] == [APPEND]


def test_a_mode_with_an_option_is_found_by_each_of_its_options() -> None:
    for mode in STAGED:
        for option in mode.options:
            assert mode_of({"mode": mode.name, option: "x"}) is mode
        assert mode_of({"mode": mode.name}) is MODES[mode.name]
        assert mode.of_partitions is SWAP


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_found_by_each_of_its_names(name: str) -> None:
    found = STRATEGIES[name]
    assert found.name == name or ALIASES[name] is found


@pytest.mark.parametrize("stored", ["blocks", *ALIASES])
@pytest.mark.parametrize("requested", ["blocks", *ALIASES])
def test_a_run_may_be_continued_with_either_name(
    stored: StrategyName, requested: StrategyName
) -> None:
    def spec(strategy: StrategyName) -> CopySpec:
        return CopySpec(source="env:A", target="env:B", table="a.b", strategy=strategy)

    assert spec(requested).differences(spec(stored).stored()) == []
    (difference,) = spec("whole").differences(spec(stored).stored())
    assert difference.startswith("--strategy: the run has ")


def test_the_page_has_every_answer_with_its_modes() -> None:
    page = (ROOT / "docs" / "adding-a-mode.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines()]
    modes_of = {row[2].strip("`"): row[3] for row in rows if len(row) == 6 and row[2].isupper()}
    answers = [answer for question in QUESTIONS for answer in question]
    assert len(answers) == 12
    (nothing,) = {modes_of[each.name] for each in answers if each.name == "NOTHING"}
    assert nothing == "all others"
    for answer in answers:
        if answer.name != "NOTHING" and answer is not Ending.MERGE:
            named = {name for name in MODES if f"`{name}`" in modes_of[answer.name]}
            assert named == {name for name, mode in MODES.items() if answer in mode.answers}


def test_the_page_has_every_derived_question() -> None:
    page = (ROOT / "docs" / "adding-a-mode.md").read_text(encoding="utf-8")
    properties = {name for name, each in vars(Mode).items() if isinstance(each, property)}
    properties -= {"answers", "of_partitions"}
    assert set(re.findall(r"^\| `([a-z]+_[a-z_]+)` \|", page, re.M)) == properties


def test_the_names_for_type_checkers_are_those_of_the_objects() -> None:
    assert get_args(ModeName) == tuple(MODES)
    assert get_args(StrategyName) == tuple(STRATEGIES)


@pytest.mark.parametrize(
    "item",
    [item for item in fields(CopySpec) if item.metadata["choices"]],
    ids=lambda item: item.name,
)
def test_each_choice_is_a_literal_of_the_constructor(item: Field[Any]) -> None:
    hint = get_type_hints(CopySpec)[item.name]
    kinds = [kind for kind in (get_args(hint) or ()) if get_origin(kind) is Literal] or [hint]
    assert [get_args(kind) for kind in kinds] == [item.metadata["choices"]]
