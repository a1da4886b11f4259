"""The examples of the Python API pass `mypy --strict`, and mistakes in them would not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OURS = re.compile(r"^(from|import) penstock\b", re.MULTILINE)
NEEDED = {"docs/python.md", "docs/getting-started.md", "docs/report.md", "docs/strategies.md",
          "docs/tune.md", "core/README.md"}  # fmt: skip


def examples() -> dict[str, list[str]]:
    """Return the blocks of code that import Penstock, by page."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "core/README.md"]
    found = {}
    for page in sorted(pages):
        blocks = [body for body in BLOCK.findall(page.read_text("utf-8")) if OURS.search(body)]
        # Parts of a backend import modules of the checkout.
        blocks = [body for body in blocks if not re.search(r"^from penstock\.", body, re.MULTILINE)]
        if blocks:
            found[str(page.relative_to(ROOT))] = blocks
    return found


MISTAKES = {
    "mode.py": ('CopySpec(source="a", target="b", mode="upsrt")', "arg-type"),
    "strategy.py": ('CopySpec(source="a", target="b", strategy="days")', "arg-type"),
    "verify.py": ('CopySpec(source="a", target="b", verify="checksum")', "arg-type"),
    "by_name.py": (
        'for event in copy(spec):\n    if event.name == "planned":\n        event.partition_id',
        "attr-defined",
    ),
    "in_match.py": (
        'for event in copy(spec):\n    match event.name:\n        case "committed":\n'
        "            event.reasons",
        "attr-defined",
    ),
    "by_class.py": (
        "for event in copy(spec):\n    match event:\n        case Committed():\n"
        "            event.reasons",
        "attr-defined",
    ),
    "not_narrowed.py": ("for event in copy(spec):\n    event.partition_id", "union-attr"),
    "unknown_name.py": (
        'for event in copy(spec):\n    if event.name == "comitted":\n        pass',
        "comparison-overlap",
    ),
}
HEAD = """from penstock import Committed, CopySpec, copy

spec = CopySpec(source="a", target="b")
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the codes of mypy's errors by file: for each example, and for each mistake."""
    folder = tmp_path_factory.mktemp("examples")
    files = {name: f"{HEAD}{body}\n" for name, (body, _) in MISTAKES.items()}
    for page, blocks in examples().items():
        for number, body in enumerate(blocks):
            files[f"{re.sub(r'[^a-z]', '_', page)}_{number}.py"] = body
    for name, body in files.items():
        (folder / name).write_text(body, encoding="utf-8")
    options = ["--strict", "--config-file=", "--cache-dir=cache", "--follow-imports=silent"]
    # Dask's Client has no types: that is no mistake of an example's.
    options.append("--untyped-calls-exclude=distributed")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--ignore-missing-imports", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stderr == ""
    found: dict[str, list[str]] = {name: [] for name in files}
    for line in checked.stdout.splitlines():
        if ": error: " in line:
            found[line.partition(":")[0]].append(line)
    return found


def test_every_example_passes_mypy(errors: dict[str, list[str]]) -> None:
    assert examples().keys() >= NEEDED
    wrong = [line for name, lines in errors.items() if name not in MISTAKES for line in lines]
    assert wrong == []
    assert len(errors) > len(MISTAKES) + len(NEEDED)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str, errors: dict[str, list[str]]) -> None:
    code = MISTAKES[name][1]
    assert any(line.endswith(f"[{code}]") for line in errors[name]), errors[name]
