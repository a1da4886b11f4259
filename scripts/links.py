"""Check the links of all Markdown pages, as they are read in the repository.

Usage: ``python scripts/links.py``. Links to other sites are not followed.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]^]+\]:\s+(\S+)", re.MULTILINE)
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:")


def pages() -> list[Path]:
    """All Markdown pages of the repository, without those in hidden or built folders."""
    return sorted(
        path
        for path in ROOT.rglob("*.md")
        if not any(
            part.startswith(".") or part in ("build", "node_modules")
            for part in path.relative_to(ROOT).parts
        )
    )


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchor(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, the second of a name with ``-1``."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.+?)(?: #+)?$", prose(page), re.MULTILINE):
        name = anchor(title)
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def links(page: Path) -> Iterator[str]:
    """The targets of a page's links and pictures."""
    text = CODE.sub("", prose(page))
    yield from LINK.findall(text)
    yield from DEFINITION.findall(text)


def broken(page: Path) -> list[str]:
    """The links of a page that lead to no file, or to no heading of one."""
    found = []
    for link in links(page):
        if OUTSIDE.match(link):
            continue
        path, _, name = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        known = target.exists() and target.is_relative_to(ROOT)
        if not known or (name and name not in (anchors(target) if target.suffix == ".md" else ())):
            found.append(link)
    return found


def main() -> int:
    status = 0
    for page in pages():
        for link in broken(page):
            print(f"{page.relative_to(ROOT)}: {link}: no such file or heading")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
