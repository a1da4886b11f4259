"""Check the links of all Markdown pages as the repository shows them.

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
    """Return all Markdown pages of the repository, except those in hidden or built folders."""
    return sorted(
        path
        for path in ROOT.rglob("*.md")
        if not any(
            part.startswith(".") or part in ("build", "node_modules")
            for part in path.relative_to(ROOT).parts
        )
    )


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchor(title: str) -> str:
    """Return GitHub's anchor for a heading."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings; a repeated one gets the suffix ``-1``."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.+?)(?: #+)?$", prose(page), re.MULTILINE):
        name = anchor(title)
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def links(page: Path) -> Iterator[str]:
    """Return the targets of a page's links and pictures."""
    text = CODE.sub("", prose(page))
    yield from LINK.findall(text)
    yield from DEFINITION.findall(text)


def broken(page: Path) -> list[str]:
    """Return the links of a page whose file or heading does not exist."""
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
