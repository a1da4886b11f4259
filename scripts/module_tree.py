"""Write the trees of modules into docs/module-tree.md, from the first lines of their docstrings.

Usage: ``.venv/bin/python scripts/module_tree.py [--check]``
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "core" / "src" / "penstock"
PAGE = ROOT / "docs" / "module-tree.md"
# The Dagster integration has a table by hand.
PACKAGES = (PACKAGE, ROOT / "airflow_provider" / "src" / "penstock_airflow")
BEGIN = "<!-- modules of {}: scripts/module_tree.py -->\n```\n"
END = "```\n<!-- end of modules -->\n"
# What fits on the site without being wrapped again.
WIDTH = 110
# List the modules of a database by folder, because every database has modules of those names.
SHARED = ("api", "shared", "sql", "roll_forward")


def summary(path: Path) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{path}: expected a docstring"
    return text.splitlines()[0].rstrip(".")


def entry(name: str, path: Path) -> list[str]:
    """Return a module's name and summary; a long summary continues below its beginning."""
    return wrap(summary(path), WIDTH, initial_indent=f"{name:<25} ", subsequent_indent=" " * 26)


def lines(folder: Path, indent: str = "") -> Iterator[str]:
    """Return a line for each module and each package below a folder."""
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if (path / "__init__.py").exists():
            yield from entry(f"{indent}{path.name}/", path / "__init__.py")
            yield from lines(path, indent + "  ")
        elif path.suffix == ".py" and path.name != "__init__.py" and not of_a_database(folder):
            yield from entry(f"{indent}{path.name}", path)


def of_a_database(folder: Path) -> bool:
    """Whether a folder is a database's, or is inside one."""
    if not folder.is_relative_to(PACKAGE):
        return False
    parts = folder.relative_to(PACKAGE).parts
    return len(parts) > 1 and parts[0] == "backends" and parts[1] not in SHARED


def tree(package: Path) -> str:
    """Return a package's tree as the page shows it."""
    return "\n".join((f"{package.name}/", *lines(package, "  "))) + "\n"


def main() -> int:
    page = new = PAGE.read_text(encoding="utf-8")
    for package in PACKAGES:
        begin = BEGIN.format(package.name)
        before, rest = new.split(begin, 1)
        _, after = rest.split(END, 1)
        new = before + begin + tree(package) + END + after
    if new == page:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PAGE.name}: the tree of modules is not that of the docstrings; run {__file__}")
        return 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
