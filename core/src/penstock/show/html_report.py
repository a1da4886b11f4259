"""The report of a run as one HTML page that includes its charts and fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.figures.run_report import PartitionFigures, RunReport, TimeSpent
from penstock.model.journal import MOST_CHANGES, Point
from penstock.show.charts import Part, areas, bars, text
from penstock.show.folding import FEW
from penstock.show.page import CLASSES, fact_list, legend, page, section, table
from penstock.show.report_facts import (
    KINDS,
    degree_change,
    facts,
    happenings,
    kind_of,
    one_partition_each,
    outlier_value,
    points_to_draw,
    streams_time,
    tail,
    times,
    uses,
)
from penstock.show.text import PACED, duration, megabytes, moment, number, quantity, size

_SLOWEST_TABLES = 10


def run_report_html(report: RunReport) -> str:
    """Return a self-contained page: no scripts, no external references, and well-formed XML."""
    kind = kind_of(report).capitalize()
    sections = [
        _facts(report),
        _phases(report),
        _slowest_tables(report),
        _undone(report),
        _time(report),
        _waits(report),
        _over_time(report),
        "" if one_partition_each(report) else _slowest(report.slowest),
        _skew(report),
        _executions(report),
        _tables(report),
        _unknown(report),
    ]
    return page(f"{kind} {report.run_id}", report.status, _state(report), report.advice, sections)


def _state(report: RunReport) -> str:
    return report.status if report.status in ("done", "partial", "running") else "failed"


def _facts(report: RunReport) -> str:
    ended = moment(report.finished_at) if report.finished_at else "not yet"
    return fact_list([*facts(report), ("begun", moment(report.created_at)), ("ended", ended)])


def _time(report: RunReport) -> str:
    parts = times(report)
    if not parts:
        return ""
    most = max(seconds for _, seconds, _ in parts)
    description = ", ".join(f"{name} {share:.0%}" for name, _, share in parts)
    rows: list[tuple[str, list[Part], str]] = [
        (name, [(CLASSES[name], name, spent)], f"{spent:,.1f} s, {share:.1%}")
        for name, spent, share in parts
    ]
    return section(
        "Where the streams' time went",
        bars("time", "Where the streams' time went", description, rows, most),
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
        description = ", ".join(f"{each.wait} {each.share:.0%}" for each in waits)
        charts.append(
            f"<h3>Sessions of the {side}</h3>"
            + bars(f"waits-{side}", f"Waits of the {side}", description, rows, waits[0].share)
        )
    if not charts:
        return ""
    note = (
        '<p class="note">Sampled about once a second; in brackets what a wait is for. '
        "<em>Penstock</em>: the session waits for rows to come, or to be taken.</p>"
    )
    return section("What the servers waited for", *charts, note)


def _over_time(report: RunReport) -> str:
    timeline = points_to_draw(report)
    if timeline is None:
        return ""
    points, width, pauses = timeline.points, timeline.width, timeline.pauses
    rates = [point.bytes / width for point in points]
    # The first and the last point cover only part of their time.
    total = report.copying or len(points) * width
    average = sum(point.bytes for point in points) / total
    description = (
        f"Over {duration(total)}: {megabytes(average)} MB/s on average, "
        f"{megabytes(max(*rates, average))} at most"
    )
    kinds = _kinds(report.spent)
    shares = [_streams(point, width)[: len(kinds)] for point in points]
    layers = [
        (CLASSES[kind], [share[place] for share in shares]) for place, kind in enumerate(kinds)
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
    marks = [change.at for change in timeline.changes]
    changed = [(change.at, degree_change(change)) for change in timeline.changes]
    items = "".join(
        f"<li>{text(f'{duration(at)}: {description}')}</li>" for at, description in changed
    )
    left_out = '<p class="note">Dashed lines: pauses that are left out.</p>' if pauses else ""
    return section(
        "Over time",
        f"<h3>MB/s</h3><p>{text(description)}.</p>",
        areas(
            "rate",
            "MB/s over time",
            description,
            [("moved", rates)],
            width,
            _mb,
            pauses=pauses,
            marks=marks,
        ),
        f"<h3>Streams at work</h3><p>{text(streams)}: the line.</p>",
        legend(*kinds),
        areas(
            "streams",
            "Streams at work over time",
            streams,
            layers,
            width,
            "{:g}".format,
            pauses=pauses,
            limits=[point.allowed / width for point in points],
            marks=marks,
        ),
        f"<h3>Changes of the degree, as numbered above</h3><ol>{items}</ol>" if items else "",
        _first_changes(report),
        left_out,
        f"<details><summary>The numbers, every {text(duration(width))}; of streams on average"
        f"</summary>{table(head, rows)}</details>",
    )


def _first_changes(report: RunReport) -> str:
    if all(len(each.degrees) < MOST_CHANGES for each in report.executions):
        return ""
    return f'<p class="note">Of each execution the first {MOST_CHANGES}.</p>'


def _mb(value: float) -> str:
    return f"{value / 1e6:,.4g}"


def _kinds(*spent: TimeSpent | None) -> tuple[str, ...]:
    """Return the kinds of time; *keeping to a rate* is included only if time was spent on it."""
    kinds = ("waiting for source", "waiting for target", "moving")
    return (*kinds, PACED) if any(each and each.paced for each in spent) else kinds


def _streams(point: Point, width: float) -> tuple[float, float, float, float]:
    """Return the average number of streams per point, by what they spent their time on.

    In order: waiting for the source, waiting for the target, moving, keeping to a rate.
    """
    # Worker and main process use different clocks, so a point may get more seconds than it has.
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
    description = ", ".join(f"{each.partition_id} {each.seconds:,.1f} s" for each in slowest)
    listed = table(
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
    return section(
        "Slowest partitions",
        legend(*kinds),
        bars("slowest", "Slowest partitions", description, rows, most),
        listed,
    )


def _seconds(spent: TimeSpent | None, count: int) -> list[str]:
    if spent is None:
        return ["?"] * count
    seconds = (spent.source, spent.target, spent.moving, spent.paced)
    return [f"{each:,.2f}" for each in seconds[:count]]


def _parts(partition: PartitionFigures) -> list[Part]:
    if partition.spent is None:
        return [("lost", "not known", partition.seconds)]
    return [
        (CLASSES[kind], f"{kind} {value:,.2f} s", value) for kind, value in uses(partition.spent)
    ]


def _skew(report: RunReport) -> str:
    ending = f"<p>At the end: {text(description)}.</p>" if (description := tail(report)) else ""
    if not report.outliers and not ending:
        return ""
    listed = table(
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
    return section("Far from the median, and the end", ending, listed if report.outliers else "")


def _executions(report: RunReport) -> str:
    happened = [
        f"<li>{text(line)}</li>"
        for each in report.executions
        for line in happenings(() if points_to_draw(report) else each.degrees, each.failures)
    ]
    if len(report.executions) < 2 and not happened:
        return ""
    listed = table(
        ("begun", "status", "time", "streams", "attempts", "failed"),
        (
            (
                moment(each.started_at),
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
    return section("Executions", listed, f"<ul>{''.join(happened)}</ul>" if happened else "")


def _phases(report: RunReport) -> str:
    """Return the phases of a batch."""
    if not report.phases:
        return ""
    total = max(sum(report.phases.values()), 0.001)
    description = ", ".join(f"{name} {spent / total:.0%}" for name, spent in report.phases.items())
    rows: list[tuple[str, list[Part], str]] = [
        (name, [(CLASSES["moving"], name, spent)], f"{spent:,.1f} s, {spent / total:.1%}")
        for name, spent in report.phases.items()
    ]
    title = "What the time went into"
    return section(
        title, bars("phases", title, description, rows, max(*report.phases.values(), 0.001))
    )


_TABLE_HEAD = ("table", "status", "run", "rows", "bytes", "streams' time", "advice")


def _table_row(run: RunReport) -> tuple[str, ...]:
    figures = number(run.rows), size(run.bytes), streams_time(run)
    return run.what, run.status, run.run_id, *figures, run.advice


def _slowest_tables(report: RunReport) -> str:
    if len(report.runs) <= FEW:
        return ""
    listed = table(_TABLE_HEAD, map(_table_row, report.runs[:_SLOWEST_TABLES]), words=3)
    return section("Slowest tables", listed)


def _undone(report: RunReport) -> str:
    undone = [run for run in report.runs if run.status != "done"]
    if not undone:
        return ""
    listed = table(_TABLE_HEAD, map(_table_row, undone), words=3)
    if len(undone) > FEW:
        listed = f"<details><summary>All {len(undone):,}</summary>{listed}</details>"
    return section("Tables that are not done", listed)


def _tables(report: RunReport) -> str:
    if not report.runs:
        return ""
    count = quantity(len(report.runs), "table")
    listed = table(_TABLE_HEAD, map(_table_row, report.runs), words=3)
    if len(report.runs) > FEW:
        # Browsers lay out only what is open, so that a page with thousands of tables opens at once.
        listed = f"<details><summary>All of them, the slowest first</summary>{listed}</details>"
    return section(f"The batch's {count}", listed)


def _unknown(report: RunReport) -> str:
    if not report.unknown:
        return ""
    items = "".join(f"<li>{text(line)}</li>" for line in report.unknown)
    return section("Not known", f"<ul>{items}</ul>")
