"""The frame of a self-contained HTML page, around its charts and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

from penstock.show.charts import text
from penstock.show.text import PACED

CLASSES = {
    "waiting for source": "source",
    "waiting for target": "target",
    "moving": "moving",
    PACED: "paced",
    "failed attempts": "lost",
}
"""The class that colours each use of time."""
_WORD = re.compile(r"[a-z0-9]+")
_OPTION = re.compile(r"--[a-z][a-z-]*( \d+| defer| ntile)?")


def page(title: str, status: str, state: str, advice: str, sections: Iterable[str]) -> str:
    """Return a page without scripts or external references, as well-formed XML.

    Args:
        title: the heading, and part of the title in the browser.
        status: the status next to the heading.
        state: the class that colours the status.
        advice: one line below the heading; empty for none.
        sections: markup; empty sections are left out.
    """
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    shown = f'<p class="advice">{prose(advice)}</p>' if advice else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{text(title)}: report</title>\n<style>\n{style}</style></head>\n"
        f'<body><main><header><h1>{text(title)} <span class="status {state}'
        f'">{text(status)}</span></h1>{shown}</header>\n'
        + "\n".join(filter(None, sections))
        + "\n</main></body></html>\n"
    )


def prose(value: str) -> str:
    """Return text as markup in which an option does not break at its hyphens."""
    return _OPTION.sub(r"<code>\g<0></code>", text(value))


def section(title: str, *parts: str) -> str:
    """Return a section whose anchor is its title, such as ``#over-time``."""
    name = "-".join(_WORD.findall(title.lower()))
    return f'<section id="{name}"><h2>{text(title)}</h2>{"".join(parts)}</section>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a table.

    Args:
        head: the titles of the columns.
        rows: the texts of the cells, with as many in each row as there are columns.
        words: the number of text columns, from the left; the others hold numbers.
    """

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = ["" if place < words else ' class="number"' for place in range(len(row))]
        marked = zip(row, kinds, strict=True)
        return "".join(f"<{tag}{kind}>{text(cell)}</{tag}>" for cell, kind in marked)

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{cells(head, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def fact_list(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a section without a heading."""
    items = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts
    )
    return f"<section><dl>{items}</dl></section>"


def legend(*names: str) -> str:
    """Return the legend for uses of time."""
    return keys((CLASSES[name], name) for name in names)


def keys(entries: Iterable[tuple[str, str]]) -> str:
    """Return the legend of a chart.

    Args:
        entries: classes and their labels.
    """
    items = "".join(
        f'<span class="key"><span class="swatch {kind}"></span>{text(name)}</span>'
        for kind, name in entries
    )
    return f'<p class="legend">{items}</p>'
