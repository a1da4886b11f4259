"""Change the product at random places, one at a time, and see whether tests notice.

Usage: ``.venv/bin/python scripts/mutate.py [--count 50] [--seed N] [--log FILE] COMMAND...``

COMMAND runs in a copy of the repository, which has an environment of its own, once for each place.
A change that it lets pass has survived. The same seed finds the same places as long as the sources
stay as they are, so two commands can be compared: ``make test``, and ``make test-all``.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core/src/penstock"
FOLDERS = ("engine", "workers", "planning", "backends/postgresql", "backends/sql")
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A change of a source file."""

    path: str
    """Relative to the repository."""
    line: int
    column: int
    """Both of the first character to replace; the column counts bytes."""
    end: tuple[int, int]
    new: str

    def applied(self, text: str) -> str:
        """Return the file's text with this change."""
        lines = text.encode().splitlines(keepends=True)
        end_line, end_column = self.end
        before = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        after = lines[end_line - 1][end_column:] + b"".join(lines[end_line:])
        return (before + self.new.encode() + after).decode()


def places(path: Path) -> Iterator[Place]:
    """Yield the changes of a source file."""
    text = path.read_text()

    def place(node: ast.expr | ast.stmt, new: str) -> Place:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        end = (node.end_lineno, node.end_col_offset)
        name = path.relative_to(ROOT).as_posix()
        return Place(name, node.lineno, node.col_offset, end, new)

    def source(node: ast.AST) -> str:
        return ast.get_source_segment(text, node) or ""

    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield place(node, f"{source(left)} {COMPARISONS[type(op)]} {source(right)}")
            case ast.BoolOp(op=op, values=[first, second]):
                word = "or" if isinstance(op, ast.And) else "and"
                yield place(node, f"({source(first)}) {word} ({source(second)})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield place(node, f"({source(operand)})")
            case ast.Constant(value=bool() as value):
                yield place(node, str(not value))
            case ast.Constant(value=int() as value):
                yield place(node, str(value + 1))
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield place(node, "return None")
            case ast.Expr(value=ast.Call()):
                yield place(node, "pass")
            case ast.If(test=test) if not isinstance(test, (ast.Compare, ast.BoolOp)):
                yield place(test, f"(not ({source(test)}))")
            case _:
                pass


def chosen(count: int, seed: int) -> list[Place]:
    """Return places at random, at most one on each line.

    Args:
        count: the number of places.
        seed: of the random numbers.
    """
    paths = sorted(each for folder in FOLDERS for each in (CORE / folder).rglob("*.py"))
    found = {(each.path, each.line): each for path in paths for each in places(path)}
    return random.Random(seed).sample([found[key] for key in sorted(found)], count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=50, help="places (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument("--copy", type=Path, default=ROOT / "build/mutated", help="the copy")
    parser.add_argument(
        "--limit",
        type=float,
        default=5400,
        help="seconds after which a command counts as failed: a change may make the product wait "
        "for ever (default: %(default)s)",
    )
    parser.add_argument("--log", type=Path, help="a file that receives a line of JSON per place")
    parser.add_argument("command", nargs="+", help="what to run in the copy")
    options = parser.parse_args()
    _make(options.copy)
    survivors = 0
    for number, place in enumerate(chosen(options.count, options.seed), 1):
        file = options.copy / place.path
        before = file.read_text()
        file.write_text(place.applied(before))
        started = time.monotonic()
        try:
            done = subprocess.run(
                options.command,
                cwd=options.copy,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=options.limit,
                check=False,
            )
            noticed, by = done.returncode != 0, _first_failure(done.stdout)
        except subprocess.TimeoutExpired:
            noticed, by = True, "the limit of time"
        finally:
            file.write_text(before)
        survivors += not noticed
        what = f"noticed by {by}" if noticed else "SURVIVED"
        took = time.monotonic() - started
        print(f"{number}: {place.path}:{place.line}: {place.new}: {what}, {took:.0f} s", flush=True)
        if options.log is not None:
            line = {
                "path": place.path,
                "line": place.line,
                "new": place.new,
                "by": by if noticed else "",
            }
            with options.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
    print(f"{options.count - survivors} of {options.count} noticed")
    return 0


def _first_failure(output: str) -> str:
    """Return the first test that pytest names as failed, or the end of other output."""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return failed[1] if failed else output[-200:].strip()


def _make(copy: Path) -> None:
    """Make the copy, with what git knows of, and its environment."""
    if not copy.exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    subprocess.run(["make", "venv"], cwd=copy, check=True)


if __name__ == "__main__":
    sys.exit(main())
