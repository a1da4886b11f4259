"""The report of a run as one page of HTML: charts in it, and nothing fetched from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

from penstock.figures.run_report import PartitionFigures, RunReport, TimeSpent
from penstock.model.journal import Point
from penstock.show.charts import Part, areas, bars, text
from penstock.show.run_report import (
    KINDS,
    facts,
    happenings,
    outlier_value,
    tail,
    times,
)
from penstock.show.text import PACED, counted, duration, megabytes, number, size

_CLASSES = {
    "waiting for source": "source",
    "waiting for target": "target",
    "moving": "moving",
    PACED: "paced",
    "failed attempts": "lost",
}
_OPTION = re.compile(r"--[a-z][a-z-]*( \d+| defer| ntile)?")


def run_report_html(report: RunReport) -> str:
    """A page that stands alone: no script, no reference to anything else. Also well-formed XML."""
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    kind = "Batch" if report.runs else "Run"
    sections = [
        _facts(report),
        _time(report),
        _waits(report),
        _over_time(report),
        _slowest(report.slowest),
        _skew(report),
        _executions(report),
        _tables(report),
        _unknown(report),
    ]
    # An option is not to be broken at its hyphens.
    said = _OPTION.sub(r"<code>\g<0></code>", text(report.advice))
    advice = f'<p class="advice">{said}</p>' if said else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{kind} {text(report.run_id)}: report</title>\n<style>\n{style}</style></head>\n"
        f'<body><main><header><h1>{kind} {text(report.run_id)} <span class="status {_state(report)}'
        f'">{text(report.status)}</span></h1>{advice}</header>\n'
        + "\n".join(section for section in sections if section)
        + "\n</main></body></html>\n"
    )


def _state(report: RunReport) -> str:
    return report.status if report.status in ("done", "partial", "running") else "failed"


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{text(title)}</h2>{''.join(parts)}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """
    Parameters:
        words: how many columns, from the left, are no numbers.
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


def _facts(report: RunReport) -> str:
    found = [("begun", report.created_at), ("ended", report.finished_at or "not yet")]
    found = [*facts(report), *found]
    items = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in found
    )
    return f"<section><dl>{items}</dl></section>"


def _legend(*names: str) -> str:
    keys = "".join(
        f'<span class="key"><span class="swatch {_CLASSES[name]}"></span>{text(name)}</span>'
        for name in names
    )
    return f'<p class="legend">{keys}</p>'


def _time(report: RunReport) -> str:
    parts = times(report)
    if not parts:
        return ""
    most = max(seconds for _, seconds, _ in parts)
    said = ", ".join(f"{name} {share:.0%}" for name, _, share in parts)
    rows: list[tuple[str, list[Part], str]] = [
        (name, [(_CLASSES[name], name, spent)], f"{spent:,.1f} s, {share:.1%}")
        for name, spent, share in parts
    ]
    return _section(
        "Where the streams' time went",
        bars("time", "Where the streams' time went", said, rows, most),
    )


def _waits(report: RunReport) -> str:
    charts = []
    for side, waits in report.waits.items():
        rows: list[tuple[str, list[Part], str]] = [
            (
                f"{each.wait} ({KINDS.get(each.kind, each.kind)})",
                [(side, each.wait, each.share)],
                f"{each.share:.0%}",
            )
            for each in waits
        ]
        said = ", ".join(f"{each.wait} {each.share:.0%}" for each in waits)
        charts.append(
            f"<h3>Sessions of the {side}</h3>"
            + bars(f"waits-{side}", f"Waits of the {side}", said, rows, waits[0].share)
        )
    if not charts:
        return ""
    note = (
        '<p class="note">Sampled about once a second; in brackets what a wait is for. '
        "<em>Penstock</em>: the session waits for rows to come, or to be taken.</p>"
    )
    return _section("What the servers waited for", *charts, note)


def _over_time(report: RunReport) -> str:
    timeline = report.timeline
    if timeline is None or not timeline.points:
        return ""
    points, width, pauses = timeline.points, timeline.width, timeline.pauses
    rates = [point.bytes / width for point in points]
    # The first and the last point are not full.
    total = report.copying or len(points) * width
    average = sum(point.bytes for point in points) / total
    said = (
        f"Over {duration(total)}: {megabytes(average)} MB/s on average, "
        f"{megabytes(max(*rates, average))} at most"
    )
    kinds = _kinds(report.spent)
    shares = [_streams(point, width)[: len(kinds)] for point in points]
    layers = [
        (_CLASSES[kind], [share[place] for share in shares]) for place, kind in enumerate(kinds)
    ]
    busy = sum(point.busy for point in points) / total
    allowed = sum(point.allowed for point in points) / total
    streams = f"{busy:.1f} streams at work on average, of {allowed:.1f} that were allowed"
    rows = (
        (
            duration(place * width),
            f"{point.rows:,}",
            megabytes(point.bytes),
            *(f"{each:.1f}" for each in share),
        )
        for place, (point, share) in enumerate(zip(points, shares, strict=True))
    )
    head = ("from", "rows", "MB", *kinds)
    left_out = '<p class="note">Dashed lines: pauses that are left out.</p>' if pauses else ""
    return _section(
        "Over time",
        f"<h3>MB/s</h3><p>{text(said)}.</p>",
        areas("rate", "MB/s over time", said, [("moved", rates)], width, _mb, pauses=pauses),
        f"<h3>Streams at work</h3><p>{text(streams)}: the line.</p>",
        _legend(*kinds),
        areas(
            "streams",
            "Streams at work over time",
            streams,
            layers,
            width,
            "{:g}".format,
            pauses=pauses,
            limits=[point.allowed / width for point in points],
        ),
        left_out,
        f"<details><summary>The numbers, every {text(duration(width))}; of streams on average"
        f"</summary>{_table(head, rows)}</details>",
    )


def _mb(value: float) -> str:
    return f"{value / 1e6:,.4g}"


def _kinds(*spent: TimeSpent | None) -> tuple[str, ...]:
    """What time was spent on: of keeping to a rate nothing is said where there was none."""
    kinds = ("waiting for source", "waiting for target", "moving")
    return (*kinds, PACED) if any(each and each.paced for each in spent) else kinds


def _streams(point: Point, width: float) -> tuple[float, float, float, float]:
    """On average within a point: waiting for the source, for the target, moving, keeping to a
    rate."""
    # A long wait is reported when it ends, so that more of it may fall on a point than it has.
    source = min(point.source, point.busy)
    target = min(point.target, point.busy - source)
    paced = min(point.paced, point.busy - source - target)
    moving = point.busy - source - target - paced
    return source / width, target / width, moving / width, paced / width


def _slowest(slowest: Sequence[PartitionFigures]) -> str:
    if not slowest:
        return ""
    kinds = _kinds(*(each.spent for each in slowest))
    rows = [
        (f"{each.partition_id}: {each.label}", _parts(each), f"{each.seconds:,.1f} s")
        for each in slowest
    ]
    said = ", ".join(f"{each.partition_id} {each.seconds:,.1f} s" for each in slowest)
    table = _table(
        ("partition", "what it selects", "attempt", "rows", "MB", "seconds", *kinds),
        (
            (
                each.partition_id,
                each.label,
                number(each.attempt),
                number(each.rows),
                megabytes(each.bytes),
                f"{each.seconds:,.2f}",
                *_seconds(each.spent, len(kinds)),
            )
            for each in slowest
        ),
        words=2,
    )
    most = max(each.seconds for each in slowest)
    return _section(
        "Slowest partitions",
        _legend(*kinds),
        bars("slowest", "Slowest partitions", said, rows, most),
        table,
    )


def _spent(spent: TimeSpent) -> tuple[float, float, float, float]:
    return spent.source, spent.target, spent.moving, spent.paced


def _seconds(spent: TimeSpent | None, count: int) -> list[str]:
    if spent is None:
        return ["?"] * count
    return [f"{seconds:,.2f}" for seconds in _spent(spent)[:count]]


def _parts(partition: PartitionFigures) -> list[Part]:
    if partition.spent is None:
        return [("lost", "not known", partition.seconds)]
    values = zip(_kinds(partition.spent), _spent(partition.spent), strict=False)
    return [(_CLASSES[kind], f"{kind} {value:,.2f} s", value) for kind, value in values]


def _skew(report: RunReport) -> str:
    ending = f"<p>At the end: {text(said)}.</p>" if (said := tail(report)) else ""
    if not report.outliers and not ending:
        return ""
    table = _table(
        ("partition", "what it selects", "it has", "median", "times"),
        (
            (
                each.partition_id,
                each.label,
                outlier_value(each.measure, each.value),
                outlier_value(each.measure, each.median),
                f"{each.times:,.1f}",
            )
            for each in report.outliers
        ),
        words=2,
    )
    return _section("Far from the median, and the end", ending, table if report.outliers else "")


def _executions(report: RunReport) -> str:
    happened = [
        f"<li>{text(line)}</li>"
        for each in report.executions
        for line in happenings(each.degrees, each.failures)
    ]
    if len(report.executions) < 2 and not happened:
        return ""
    table = _table(
        ("begun", "status", "time", "streams", "attempts", "failed"),
        (
            (
                each.started_at,
                each.status,
                duration(each.seconds),
                number(each.degree),
                number(each.attempts),
                number(each.failed),
            )
            for each in report.executions
        ),
        words=2,
    )
    return _section("Executions", table, f"<ul>{''.join(happened)}</ul>" if happened else "")


def _tables(report: RunReport) -> str:
    if not report.runs:
        return ""
    head = ("run", "what", "status", "rows", "bytes", "streams' time", "advice")
    rows = (
        (
            run.run_id,
            run.what,
            run.status,
            number(run.rows),
            size(run.bytes),
            duration(run.spent.total) if run.spent else "?",
            run.advice,
        )
        for run in report.runs
    )
    named = counted(len(report.runs), "table")
    return _section(f"The batch's {named}", _table(head, rows, words=3))


def _unknown(report: RunReport) -> str:
    if not report.unknown:
        return ""
    items = "".join(f"<li>{text(line)}</li>" for line in report.unknown)
    return _section("Not known", f"<ul>{items}</ul>")
