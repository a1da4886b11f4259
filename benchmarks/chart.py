"""A chart of a run's figures, for README.md: seconds of wall time and of the mover's CPU.

Usage: chart.py FIGURES.json CHART.svg [DEGREE]   (figures of `run.py --only speed files --json`)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

# As wide as a phone shows without shrinking the text.
WIDTH, LEFT, RIGHT = 380, 124, 40
BAR, GAP, HEAD = 13, 7, 34
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1c2333; }
.head { font-weight: 600; } .note { fill: #5a6478; } .name, .value { dominant-baseline: central; }
.name { text-anchor: end; } .wall { fill: #9bb8e8; } .cpu { fill: #2563c9; }
.other .wall { fill: #d5d9e0; } .other .cpu { fill: #98a1b0; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ef; } .note { fill: #a3adbd; }
  .wall { fill: #3b5f9e; } .cpu { fill: #6ea8ff; }
  .other .wall { fill: #3c4350; } .other .cpu { fill: #7a8494; }
}
"""
ROUTES = (
    ("speed", "costs", "PostgreSQL to PostgreSQL"),
    ("files", "in", "Parquet to PostgreSQL"),
    ("files", "out", "PostgreSQL to Parquet"),
)

Figures = list[tuple[str, float, float]]
"""For each mover, the best wall and CPU seconds."""


def routes(result: Mapping[str, Any], degree: int) -> Iterator[tuple[str, Figures]]:
    """Return each route that was measured."""
    for part, key, title in ROUTES:
        if part not in result:
            continue
        found = [
            (
                cost["mover"],
                min(turn["wall"] for turn in cost["turns"]),
                min(turn["mover"] for turn in cost["turns"]),
            )
            for cost in result[part][key]
            if cost["degree"] == degree
        ]
        yield title, sorted(found, key=lambda each: each[0] != "penstock")


def drawn(ways: Sequence[tuple[str, Figures]], note: Sequence[str]) -> str:
    most = max(max(wall, cpu) for _, figures in ways for _, wall, cpu in figures)
    room = WIDTH - LEFT - RIGHT
    body, y = [], 4
    for title, figures in ways:
        body.append(f'<text class="head" x="0" y="{y + 18}">{escape(title)}</text>')
        y += HEAD
        for mover, wall, cpu in figures:
            other = "" if mover == "penstock" else ' class="other"'
            body.append(
                f'<g{other}><text class="name" x="{LEFT - 10}" y="{y + BAR}">{mover}</text>'
            )
            for kind, seconds, what in (("wall", wall, "wall time"), ("cpu", cpu, "CPU")):
                width = room * seconds / most
                body.append(
                    f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}">'
                    f"<title>{mover}: {seconds:.2f} s of {what}</title></rect>"
                    f'<text class="value" x="{LEFT + width + 6:.1f}" y="{y + BAR / 2:.1f}">'
                    f"{seconds:.1f}</text>"
                )
                y += BAR
            body.append("</g>")
            y += GAP
    for line in note:
        body.append(f'<text class="note" x="0" y="{y + 20}">{escape(line)}</text>')
        y += BAR + 4
    summary = "; ".join(
        f"{title}: " + ", ".join(f"{m} {w:.1f} s, {c:.1f} s of CPU" for m, w, c in figures)
        for title, figures in ways
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 30}" '
        f'viewBox="0 0 {WIDTH} {y + 30}" role="img"><title>{escape(summary)}</title>'
        f"<style>{STYLE}</style>{''.join(body)}</svg>\n"
    )


def main() -> None:
    figures, chart, *rest = sys.argv[1:]
    degree = int(rest[0]) if rest else 4
    result = json.loads(Path(figures).read_text(encoding="utf-8"))
    note = (
        "Seconds: above wall time, below CPU of the mover.",
        f"TPC-H lineitem, {degree} streams, {result['machine'].partition(',')[0]}.",
    )
    Path(chart).write_text(drawn(list(routes(result, degree)), note), encoding="utf-8")


if __name__ == "__main__":
    main()
