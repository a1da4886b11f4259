"""Charts with inline SVG: bars, curves, and areas over time. Pure: numbers in, markup out.

Colours are classes of the page. Each chart has a title and a description, and the page shows its
numbers as text as well, so that colours are never the only difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from penstock.show.text import duration, one_line

WIDTH = 860
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 26
_HEIGHT = 190
_BAR = 15
# Room above a chart for the numbers of marks, and on either side.
_MARKS, _MARK = 14, 18


def text(value: str) -> str:
    """Escape text for use within markup."""
    return escape(one_line(value))


def chart(name: str, height: float, title: str, description: str, body: str) -> str:
    """Return a chart as SVG, which scrolls sideways on a narrow screen.

    Args:
        name: the prefix of the chart's ids, unique within the page.
        height: the height, in the units in which the chart is `WIDTH` wide.
        title: names the chart to readers who cannot see it.
        description: describes the chart to readers who cannot see it.
        body: the markup inside the chart.
    """
    return (
        f'<div class="wide drawn"><svg class="plot" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{text(title)}</title>'
        f'<desc id="{name}-d">{text(description)}</desc>{body}</svg></div>'
    )


Part = tuple[str, str, float]
"""The class, name and value of a part of a bar."""


def bars(
    name: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, Sequence[Part], str]],
    most: float,
) -> str:
    """Draw horizontal bars, one below the other, each with a label, its parts and a value.

    On a narrow screen, labels are above their bars.

    Args:
        name: as for `chart`.
        title: as for `chart`.
        description: as for `chart`.
        rows: the label, parts and formatted value of each bar.
        most: the value at the right edge.
    """
    body = []
    for label, parts, value in rows:
        drawn, x = [], 0.0
        for kind, what, amount in parts:
            width = max(100 * amount / most, 0.0) if most > 0 else 0.0
            drawn.append(
                f'<rect class="{kind}" x="{x:.2f}%" width="{width:.2f}%" height="{_BAR}">'
                f"<title>{text(what)}</title></rect>"
            )
            x += width
        body.append(
            f'<div class="bar"><span class="label">{text(_short(label))}</span>'
            f'<svg height="{_BAR}">{"".join(drawn)}'
            f'<text class="value" x="{x:.2f}%" dx="6" y="{_BAR - 3}">{text(value)}</text>'
            "</svg></div>"
        )
    return (
        f'<div class="bars" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<span id="{name}-t" hidden="hidden">{text(title)}</span>'
        f'<span id="{name}-d" hidden="hidden">{text(description)}</span>{"".join(body)}</div>'
    )


Layer = tuple[str, Sequence[float]]
"""The class and the values of an area; areas are stacked."""


def areas(
    name: str,
    title: str,
    description: str,
    layers: Sequence[Layer],
    width: float,
    shown: Callable[[float], str],
    *,
    pauses: Sequence[float] = (),
    limits: Sequence[float] = (),
    marks: Sequence[float] = (),
) -> str:
    """Draw values over time as stacked steps.

    Args:
        name: as for `chart`.
        title: as for `chart`.
        description: as for `chart`.
        layers: the areas from the lowest, all with the same number of values.
        width: seconds per value.
        shown: formats a value of the axis.
        pauses: seconds at which a line marks time that is left out.
        limits: values to draw as a line.
        marks: seconds to mark with numbers above the chart, from 1.
    """
    count = len(layers[0][1])
    sums = [0.0] * count
    tops = []
    for _, values in layers:
        sums = [below + value for below, value in zip(sums, values, strict=True)]
        tops.append(sums)
    step, highest = _axis(max([*sums, *limits]))
    plot_width, plot_height = WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(at: float) -> str:
        return f"{_LEFT + plot_width * at / (count * width):.1f}"

    def y(value: float) -> str:
        return f"{_TOP + plot_height * (1 - value / highest):.1f}"

    def steps(values: Sequence[float]) -> str:
        return "".join(
            f"L{x(i * width)},{y(value)}L{x((i + 1) * width)},{y(value)}"
            for i, value in enumerate(values)
        )

    body = _grid(step, highest, y, shown)
    # Draw the highest first: each lower area covers part of it.
    for (kind, _), top in reversed(list(zip(layers, tops, strict=True))):
        ends = f"L{x(count * width)},{y(0)}Z"
        body.append(f'<path class="{kind}" d="M{x(0)},{y(0)}{steps(top)}{ends}"/>')
    if limits:
        body.append(f'<path class="limit" d="M{steps(limits)[1:]}"/>')
    for pause in pauses:
        body.append(
            f'<line class="pause" x1="{x(pause)}" x2="{x(pause)}" y1="{_TOP}" '
            f'y2="{_TOP + plot_height}"/>'
        )
    total = count * width
    body += _marks(marks, total, plot_width, plot_height)
    between, _ = _axis(total)
    for number in range(int(total / between + 1e-9) + 1):
        at = number * between
        side = "begin" if number == 0 else "end" if at > 0.97 * total else ""
        body.append(
            f'<text class="tick below {side}" x="{x(at)}" y="{_HEIGHT - 8}">'
            f"{text(duration(at))}</text>"
        )
    room = _MARKS if marks else 0
    drawn = f'<g transform="translate(0 {room})">{"".join(body)}</g>' if room else "".join(body)
    return chart(name, _HEIGHT + room, title, description, drawn)


def _marks(marks: Sequence[float], total: float, width: float, height: float) -> list[str]:
    """Draw a line and a number at each mark; marks too close together show only two numbers.

    These are the first and the last number of the group.
    """
    shapes, places = [], [width * min(at / total, 1.0) for at in marks]
    groups: list[list[int]] = []
    for number, place in enumerate(places, 1):
        shapes.append(
            f'<line class="mark" x1="{_LEFT + place:.1f}" x2="{_LEFT + place:.1f}" y1="{_TOP}" '
            f'y2="{_TOP + height}"/>'
        )
        if groups and place < places[groups[-1][0] - 1] + _MARK * (1 + (len(groups[-1]) > 1)):
            groups[-1].append(number)
        else:
            groups.append([number])
    for group in groups:
        first, last = group[0], group[-1]
        shown = f"{first}" if first == last else f"{first}-{last}"
        shapes.append(
            f'<text class="mark" x="{_LEFT + places[first - 1]:.1f}" y="{_TOP - 6}">{shown}</text>'
        )
    return shapes


Curve = tuple[str, str, Sequence[tuple[int, float]]]
"""The class and name of a curve, and its points: the index of the tick below, and the value."""


def curves(
    name: str,
    title: str,
    description: str,
    drawn: Sequence[Curve],
    below: Sequence[str],
    shown: Callable[[float], str],
) -> str:
    """Draw values as lines with points.

    Args:
        name: as for `chart`.
        title: as for `chart`.
        description: as for `chart`.
        drawn: the curves, with at least one point in all.
        below: labels below the chart, at equal distances.
        shown: formats a value.
    """
    step, highest = _axis(max(value for _, _, points in drawn for _, value in points))
    plot_width, plot_height = WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(place: int) -> str:
        return f"{_LEFT + plot_width * (place + 0.5) / len(below):.1f}"

    def y(value: float) -> str:
        return f"{_TOP + plot_height * (1 - value / highest):.1f}"

    body = _grid(step, highest, y, shown)
    for kind, label, points in drawn:
        line = "L".join(f"{x(place)},{y(value)}" for place, value in points)
        body.append(f'<path class="curve {kind}" d="M{line}"/>')
        for place, value in points:
            body.append(
                f'<circle class="{kind}" cx="{x(place)}" cy="{y(value)}" r="4"><title>'
                f"{text(f'{label}, {below[place]}: {shown(value)}')}</title></circle>"
            )
    for place, each in enumerate(below):
        body.append(
            f'<text class="tick below" x="{x(place)}" y="{_HEIGHT - 8}">{text(each)}</text>'
        )
    return chart(name, _HEIGHT, title, description, "".join(body))


def _grid(
    step: float, highest: float, y: Callable[[float], str], shown: Callable[[float], str]
) -> list[str]:
    """Draw lines at round values, with the values on their left."""
    body = []
    for number in range(round(highest / step) + 1):
        value = number * step
        body.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(value)}" '
            f'y2="{y(value)}"/><text class="tick left" x="{_LEFT - 6}" y="{y(value)}" dy="4">'
            f"{text(shown(value))}</text>"
        )
    return body


def _axis(most: float) -> tuple[float, float]:
    """Return the distance between two to five round values, and the highest of them."""
    if most <= 0:
        return 1.0, 1.0
    size = 10.0 ** math.floor(math.log10(most))
    step = next(s for s in (size / 5, size / 2, size, 2 * size) if most / s <= 5)
    return step, step * math.ceil(most / step - 1e-9)


def _short(label: str) -> str:
    most = 36
    return label if len(label) <= most else f"{label[: most // 2]}…{label[-(most // 2 - 1) :]}"
