"""Build the site from the repository's own pages, and check all its links.

Usage: ``.venv-docs/bin/python scripts/site.py`` (``make docs``). Pages are copied to build/pages
with links between them adjusted, together with a reference from docstrings; Zensical builds
build/site, with llms.txt beside it. Links to other sites are not followed.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import links

ROOT = links.ROOT
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
# Pages outside docs/, by their path in the site.
OTHERS = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "core/native/README.md": "native.md",
}
CORE = ROOT / "core" / "src" / "penstock" / "__init__.py"
# Sections of the reference, by the part of the core that defines the names.
SECTIONS = {
    "Functions": ("engine", "interactive"),
    "What to copy": ("spec",),
    "Plans and records": ("model", "verification", "figures", "tuning", "workers"),
    "Events": ("events",),
    "Errors": ("errors",),
    "Reports and texts": ("show", "watching"),
    "Connections": ("backends",),
}


# A short name stays in one piece: browsers would break an option at its hyphens.
NAME = re.compile(r"<code>([^<>\s]{1,32}|--[^<>]{1,30})</code>")


# So does an option in a block of code, whose words browsers would also break at its hyphens.
OPTION = re.compile(r"(?<![\w\"'=-])--[a-z][a-z-]*")
BLOCK = re.compile(r"(<pre>.*?</pre>)", re.DOTALL)


# What the README says of the site, and the site of itself.
ELSEWHERE = "the Python API is documented on the site that `make docs` builds"
HERE = "[Python](reference/python.md)"


class Problem(Exception):
    """The site cannot be built, or has a broken link."""


def homes() -> dict[Path, str]:
    """Return the path in the site of each source page."""
    found = {ROOT / source: place for source, place in OTHERS.items()}
    docs = ROOT / "docs"
    for path in sorted(docs.rglob("*")):
        if path.is_file():
            place = path.relative_to(docs).as_posix()
            found[path] = re.sub(r"/README\.md$", ".md", place)
    return found


def repository() -> str:
    """Return the address of the repository's files, if pyproject.toml has one."""
    core = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))
    urls: dict[str, str] = core["project"].get("urls", {})
    address = next((urls[name] for name in ("Source", "Repository") if name in urls), "")
    return f"{address.rstrip('/')}/blob/main/" if address else ""


def with_site_links(text: str, page: Path, places: dict[Path, str], files: str) -> str:
    """Return the text of a page with its links adjusted to the site.

    A link to a file outside the site leads to the repository; without the repository's address,
    only the words remain.

    Args:
        text: the text of the page.
        page: the path of the page in the repository.
        places: the paths of pages on the site, by their path in the repository.
        files: the address of the repository's files; empty without one.
    """
    folder = Path(places[page]).parent

    def replaced(match: re.Match[str]) -> str:
        words, link = match.group(1), match.group(2)
        path, sharp, name = link.partition("#")
        if links.OUTSIDE.match(link) or not path:
            return match.group(0)
        target = (page.parent / path).resolve()
        if target in places:
            place = Path(os.path.relpath(places[target], folder)).as_posix()
            return f"[{words}]({place}{sharp}{name})"
        if not files:
            return words
        return f"[{words}]({files}{target.relative_to(ROOT).as_posix()})"

    # Blocks of code stay unchanged.
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    link = re.compile(r"(?<!\\)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\)|\[[^\]]*\])*)\]\(([^)\s]+)\)")
    parts[::2] = [link.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)


def public_names(module: Path) -> list[str]:
    """Return the names in a module's ``__all__``."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise Problem(f"{module}: expected __all__, found none")


def sections() -> Iterator[tuple[str, list[str]]]:
    """Return the core's public names by section, each section in the order of the modules."""
    origin = {
        alias.name: str(node.module).split(".")[1]
        for node in ast.walk(ast.parse(CORE.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock.")
        for alias in node.names
    }
    names = public_names(CORE)
    known = {part for parts in SECTIONS.values() for part in parts}
    if unknown_names := [name for name in names if origin.get(name) not in known]:
        raise Problem(f"scripts/site.py: SECTIONS has no place for {', '.join(unknown_names)}")
    for title, parts in SECTIONS.items():
        own_names = [name for name in names if origin[name] in parts]
        # Functions, then classes and constants.
        yield title, sorted(own_names, key=lambda name: (name[0].isupper(), names.index(name)))


def reference() -> dict[str, str]:
    """Return pages of the reference, which mkdocstrings fills from docstrings."""
    python = [
        "# Python",
        "The public names of `penstock`, by kind. Import them from `penstock`: modules move.",
    ]
    pages = {}
    for title, names in sections():
        page = title.lower().replace(" ", "-")
        blocks = [f"::: penstock.{name}\n    options:\n      heading_level: 2" for name in names]
        pages[f"reference/python/{page}.md"] = "\n\n".join([f"# {title}", *blocks])
        listed = ", ".join(f"[`{name}`](python/{page}.md#penstock.{name})" for name in names)
        python.append(f"**[{title}](python/{page}.md):** {listed}")
    pages["reference/python.md"] = "\n\n".join(python)
    for page, title, package, more in (
        ("airflow", "Airflow operators", "penstock_airflow", "airflow_provider"),
        ("dagster", "Dagster names", "dagster_penstock", "dagster_plugin"),
    ):
        names = public_names(ROOT / more / "src" / package / "__init__.py")
        text = [f"# {title}", f"The public names of `{package}`; [how to use them](../{page}.md)."]
        if "CopySpec" in names:
            names.remove("CopySpec")
            text.append("`CopySpec` is [the core's](python/what-to-copy.md).")
        text += [f"::: {package}.{name}\n    options:\n      heading_level: 2" for name in names]
        pages[f"reference/{page}.md"] = "\n\n".join(text)
    return pages


def lay() -> None:
    """Write the pages of the site into build/pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    places, files = homes(), repository()
    for source, place in places.items():
        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = with_site_links(source.read_text(encoding="utf-8"), source, places, files)
            if place == "index.md" and ELSEWHERE not in text:
                raise Problem(f"README.md: expected {ELSEWHERE!r}, or another text in site.py")
            text = text.replace(ELSEWHERE, HERE)
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    shutil.copyfile(ROOT / "scripts" / "site.css", PAGES / "site.css")
    for place, text in reference().items():
        (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / place).write_text(text + "\n", encoding="utf-8")


def nav() -> list[tuple[str, list[str]]]:
    """Return the sections of the navigation with their pages."""
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]

    def pages(item: Any) -> Iterator[str]:
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            for each in item:
                yield from pages(each)
        else:
            for each in item.values():
                yield from pages(each)

    found = [
        (title, list(pages(content))) for item in config["nav"] for title, content in item.items()
    ]
    listed = {page for _, names in found for page in names}
    all_pages = {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")}
    # Decisions have a list of their own.
    separate_pages = {page for page in all_pages if re.match(r"decisions/\d", page)}
    if wrong := (listed - all_pages) | (all_pages - listed - separate_pages):
        raise Problem(f"zensical.toml: the navigation and the pages differ: {sorted(wrong)}")
    return found


def build() -> None:
    """Build the site with Zensical.

    Raises:
        Problem: the build failed, or printed a warning.
    """
    shutil.rmtree(SITE, ignore_errors=True)
    program = Path(sys.executable).parent / "zensical"
    done = subprocess.run(
        [program, "build", "--clean", "--strict"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode or re.search("warning|error", done.stdout, re.IGNORECASE):
        raise Problem(f"zensical build ended with {done.returncode}:\n{done.stdout}")


def in_one_piece(text: str) -> str:
    """Mark short names and options in a page's code, which site.css keeps on one line."""
    parts = BLOCK.split(NAME.sub(r'<code class="name">\1</code>', text))
    parts[1::2] = [OPTION.sub(r'<span class="name">\g<0></span>', part) for part in parts[1::2]]
    return "".join(parts)


def finish_pages() -> None:
    """Finish the pages: mark what stays on one line, and name the start."""
    for path in SITE.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        text = text.replace("<title>Penstock - Penstock</title>", "<title>Penstock</title>")
        path.write_text(in_one_piece(text), encoding="utf-8")


def summary(text: str) -> str:
    """Return the first sentence of a page, on one line."""
    body = links.FENCE.sub("", text).partition("\n")[2]
    for part in body.split("\n\n"):
        line = " ".join(part.split())
        if line and line[0] not in "#|!<:-*":
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
            return re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")
    return ""


def write_llms(parts: list[tuple[str, list[str]]]) -> None:
    """Write llms.txt, llms-full.txt, and each page as Markdown beside its HTML."""
    index, full = ["# Penstock", "", f"> {summary((PAGES / 'index.md').read_text())}"], []
    for section, names in parts:
        index += ["", f"## {section}", ""]
        for name in names:
            text = (PAGES / name).read_text(encoding="utf-8")
            title = text.splitlines()[0].removeprefix("# ")
            if name.startswith("reference/"):
                index.append(f"- [{title}]({name.removesuffix('.md')}/index.html)")
                continue
            about = summary(text)
            index.append(f"- [{title}]({name})" + (f": {about}" if about else ""))
            full.append(text.rstrip())
    (SITE / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")
    (SITE / "llms-full.txt").write_text("\n\n".join(full) + "\n", encoding="utf-8")
    for path in PAGES.rglob("*.md"):
        if not path.relative_to(PAGES).as_posix().startswith("reference/"):
            shutil.copyfile(path, SITE / path.relative_to(PAGES))


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif value and (name == "src" or (name == "href" and tag in ("a", "link"))):
                self.links.append(value)


def check_site() -> int:
    """Check that every link of the site leads to an existing file and anchor.

    Returns:
        The number of links.

    Raises:
        Problem: a link is broken.
    """
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in SITE.rglob("*.html")
        if path.name != "404.html"
    }
    wrong, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            name = unquote(parts.fragment)
            known = pages[target].anchors if target in pages else set()
            if not target.exists() or (name and name not in known and name != "__skip"):
                wrong.append(f"{path.relative_to(SITE)}: {link}")
    if wrong:
        raise Problem("links that lead nowhere:\n" + "\n".join(sorted(set(wrong))))
    return count


def main() -> int:
    if links.main():
        return 1
    try:
        lay()
        parts = nav()
        build()
        finish_pages()
        write_llms(parts)
        count = check_site()
    except Problem as problem:
        print(f"docs: {problem}")
        return 1
    pages = sum(1 for _ in SITE.rglob("index.html"))
    print(f"build/site: {pages} pages, {count:,} links that all lead somewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())
