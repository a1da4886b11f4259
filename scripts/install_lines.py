"""Write the commands on all pages that install Penstock.

Usage: ``.venv/bin/python scripts/install_lines.py [--check]``

Until its first release Penstock is installed from a clone, afterwards from the package index:
`penstock.backends.api.installation.RELEASED` decides.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.backends.api.installation import RELEASED

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "penstock": "./core",
    "airflow-provider-penstock": "./airflow_provider",
    "dagster-penstock": "./dagster_plugin",
}
NATIVE = "./core/native"
WORD = r"(?:'[^'\n]+'|[\w./\[\],=-]*[\w\]])"
COMMAND = re.compile(rf"(pip install )({WORD}(?: {WORD})*)")
PROJECT = re.compile(r"'?(?P<name>[a-z./_-]+)(?:\[(?P<extras>[a-z,-]+)\])?'?")


def words(line: str, *, released: bool = RELEASED) -> list[str]:
    """Return what a command installs, from a clone or from the index.

    Args:
        line: the words after ``pip install``, in either form.
        released: whether the index has the packages.
    """
    found: dict[str, list[str]] = {}
    names = {folder: name for name, folder in FOLDERS.items()}
    for word in line.split():
        if word == NATIVE:
            found.setdefault("penstock", []).append("native")
            continue
        match = PROJECT.fullmatch(word)
        name = names.get(match["name"], match["name"]) if match else word
        extras = (match["extras"] or "").split(",") if match else []
        found.setdefault(name, []).extend(filter(None, extras))
    if not found.keys() & FOLDERS.keys():
        return line.split()
    depends = found.keys() & FOLDERS.keys() - {"penstock"}
    core = found.pop("penstock", [])
    if released:
        mine = {} if depends and not core else {"penstock": core}
        return [_word(name, extras) for name, extras in (mine | found).items()]
    clone = [_word(FOLDERS["penstock"], [each for each in core if each != "native"])]
    if "native" in core:
        clone.append(NATIVE)
    return clone + [_word(FOLDERS.get(name, name), extras) for name, extras in found.items()]


def _word(name: str, extras: list[str]) -> str:
    return f"'{name}[{','.join(extras)}]'" if extras else name


def written(text: str) -> str:
    """Return a page with its commands as they are to be."""

    def command(match: re.Match[str]) -> str:
        return match[1] + " ".join(words(match[2]))

    return COMMAND.sub(command, text)


def pages() -> Iterator[Path]:
    """Yield the pages and examples whose commands a user may run."""
    for pattern in ("*.md", "docs/**/*.md", "*/README.md", "core/native/README.md"):
        yield from ROOT.glob(pattern)
    yield from (ROOT / "dags_examples").rglob("*.py")
    yield from (ROOT / "dags_examples").rglob("*.md")


def commands() -> list[str]:
    """Return the different commands on all pages that install Penstock, sorted."""
    found = {match[2] for page in pages() for match in COMMAND.finditer(page.read_text())}
    return sorted(words_ for words_ in found if any(each in words_ for each in FOLDERS.values()))


def main() -> int:
    stale = [page for page in pages() if written(page.read_text()) != page.read_text()]
    if "--check" in sys.argv:
        for page in stale:
            print(f"{page.relative_to(ROOT)}: its commands that install Penstock are not current")
        return 1 if stale else 0
    for page in stale:
        page.write_text(written(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
