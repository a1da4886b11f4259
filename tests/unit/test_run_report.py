"""The report of a run, as text, Markdown and HTML, for all contents and names."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from penstock.figures.run_report import (
    ExecutionFigures,
    Outlier,
    PartitionFigures,
    RunReport,
    Timeline,
    TimeSpent,
    WaitShare,
)
from penstock.model.journal import DegreeChange, FailedAttempt, Point
from penstock.show.html_report import run_report_html
from penstock.show.markdown_report import run_report_markdown
from penstock.show.run_report import run_report_text

HOSTILE = '<script>alert("x")</script> & \x1b[31m | `a` ]]> é 🐘 \n# head'
SPENT = TimeSpent(1.0, 7.0, 2.0)
FAILED = FailedAttempt(3.0, HOSTILE, 1, HOSTILE, HOSTILE, "target")
EXECUTION = ExecutionFigures(
    "x", "2026-01-01T10:00:00+00:00", "done", "", 12.0, 4, 9, 1, (FAILED,),
    (DegreeChange(2.0, 3, HOSTILE),),
)  # fmt: skip
FULL = RunReport(
    run_id="r",
    what=HOSTILE,
    status="done",
    mode="truncate",
    strategy=HOSTILE,
    created_at="2026-01-01 10:00:00+00",
    finished_at=None,
    partitions=9,
    committed=8,
    rows=1234567,
    bytes=10**9,
    degree=4,
    seconds=12.0,
    copying=10.0,
    planning=0.5,
    comparing=1.0,
    steps={HOSTILE: 3.0},
    finishing=3.0,
    spent=SPENT,
    failed_attempts=1,
    lost=2.0,
    tail=3.0,
    idle=5.0,
    waits={"target": (WaitShare(HOSTILE, "log", 0.75), WaitShare("CPU", "working", 0.25))},
    slowest=(
        PartitionFigures("p1", HOSTILE, 2, 10, 100, 10.0, SPENT),
        PartitionFigures("p2", "id < 5", 1, 10, 100, 4.0, None),
    ),
    outliers=(Outlier("p1", HOSTILE, "seconds", 10.0, 4.0), Outlier("p1", "", "rows", 90, 9)),
    timeline=Timeline(
        2.0,
        (Point(10, 10**6, 4.0, 1.0, 2.0, 8.0), Point(5, 10, 2.0, 9.0, 9.0)),
        (2.0,),
        (DegreeChange(0.5, 2, "up"), DegreeChange(2.0, 3, HOSTILE)),
    ),
    executions=(EXECUTION, EXECUTION),
    advice=f"target-bound: 78%: try --indexes defer {HOSTILE}",
    unknown=(HOSTILE,),
)
EMPTY = replace(
    FULL, rows=0, bytes=0, committed=0, degree=0, seconds=None, copying=None, planning=0.0,
    comparing=0.0, steps={}, finishing=0.0, spent=None, failed_attempts=0, lost=0.0, tail=0.0,
    idle=0.0, waits={}, slowest=(), outliers=(), timeline=None, executions=(), advice="",
    unknown=(),
)  # fmt: skip
STILL = replace(EMPTY, timeline=Timeline(1.0, (Point(),), (), ()), spent=TimeSpent(0.0, 0.0, 0.0))
REPORTS = {
    "full": FULL,
    "nothing known": EMPTY,
    "nothing moved": STILL,
    "batch": replace(FULL, runs=(FULL, EMPTY)),
}
every = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@every
def test_the_page_is_well_formed(report: RunReport) -> None:
    page = run_report_html(report)
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "image", "use"}
    names = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(names) == len(set(names))


@every
def test_the_page_needs_no_other_files(report: RunReport) -> None:
    page = run_report_html(report)
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    for element in root.iter():
        assert not {"href", "src", "style", "action", "data"} & set(element.keys())
        assert not any(name.startswith("on") for name in element.keys())  # noqa: SIM118
    assert not re.search(r"url\(|@import|https?:|//", page.replace("</", ""))


def test_names_are_escaped() -> None:
    page = run_report_html(FULL)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in page
    for text in (run_report_text(FULL), run_report_markdown(FULL)):
        assert "\x1b" not in text
    assert "<script>" not in run_report_markdown(FULL).replace("\\<", "")


def test_charts_have_descriptions() -> None:
    root = ElementTree.fromstring(run_report_html(FULL).removeprefix("<!DOCTYPE html>\n"))
    charts = root.findall(".//*[@role='img']")
    assert len(charts) == 5
    drawn = {drawing for chart in charts for drawing in chart.iter("svg")}
    assert drawn == set(root.iter("svg"))
    for chart in charts:
        named = (chart.get("aria-labelledby") or "").split()
        texts = {element.get("id"): element.text for element in chart.iter() if element.get("id")}
        assert len(named) == 2
        assert all(texts[name] for name in named)


def test_numbers_of_charts_are_finite() -> None:
    for report in REPORTS.values():
        page = run_report_html(report)
        assert not re.search(r'"[^"]*\b(nan|inf)\b', page)


def test_the_text_has_every_section() -> None:
    text = run_report_text(FULL)
    for expected in (
        "target-bound: 78%: try --indexes defer",
        "8 of 9 committed",
        "waiting for target      7.0  58.3%",
        "failed attempts         2.0  16.7%",
        "75%",
        "10.0 s   4.0 s    2.5",
        "90 rows  9 rows   10.0",
        "3.0 s with fewer than 4 streams at work, 5.0 s of streams idle",
        "after 2.0 s: 3 streams:",
        "after 3.0 s: attempt 1 of",
    ):
        assert expected in text, expected
    assert run_report_text(EMPTY).count("\n") < 8


def test_the_markdown_is_short() -> None:
    markdown = run_report_markdown(FULL)
    assert "| waiting for target | 7.0 | 58.3% |" in markdown
    assert "2.5 times the median of 4.0 s" in markdown
    assert run_report_markdown(EMPTY) == ""


def test_pacing_is_shown_if_there_was_a_rate() -> None:
    paced = replace(FULL, spent=replace(SPENT, paced=30.0))
    assert "keeping to a rate" in run_report_text(paced)
    assert "keeping to a rate" in run_report_html(paced)
    assert "keeping to a rate" not in run_report_html(FULL) + run_report_text(FULL)


def test_changes_of_the_degree_are_numbered_in_the_charts_and_explained_below() -> None:
    page = run_report_html(FULL)
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    over_time = root.find(".//section[@id='over-time']")
    assert over_time is not None
    lines = ["".join(item.itertext()) for item in over_time.findall(".//ol/li")]
    assert lines[0] == "0.5 s: 2 streams: up"
    assert len(lines) == 2
    marks = [mark.text for mark in over_time.findall(".//text[@class='mark']")]
    assert marks == ["1", "2", "1", "2"]
    # Each appears once.
    assert page.count("3 streams: &lt;script") == 1


def test_numbers_of_close_changes_are_combined() -> None:
    changes = tuple(DegreeChange(at, 2, "") for at in (0.1, 0.12, 0.13, 1.0, 1.9))
    timeline = replace(FULL.timeline, changes=changes)  # type: ignore[type-var]
    marks = re.findall(
        r'<text class="mark"[^>]*>([^<]*)', run_report_html(replace(FULL, timeline=timeline))
    )
    assert marks[:3] == ["1-3", "4", "5"]


def test_a_chart_of_a_short_copy_is_omitted() -> None:
    short = replace(FULL, copying=3.9)
    assert "Over time" not in run_report_html(short)
    assert "over time" not in run_report_text(short)
    # Its contents appear elsewhere.
    assert "after 2.0 s: 3 streams" in run_report_html(short)


def test_a_negligible_tail_is_not_reported() -> None:
    assert "at the end" not in run_report_text(replace(FULL, copying=0.1, idle=0.04, tail=0.04))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-01 10:00:00.123456+00", "2026-01-01 10:00:00Z"),
        ("2026-01-01T12:00:00.123+02:00", "2026-01-01 10:00:00Z"),
        ("yesterday", "yesterday"),
    ],
)
def test_moments_have_one_format(text: str, shown: str) -> None:
    assert f"<dd>{shown}</dd>" in run_report_html(replace(FULL, created_at=text))


def test_omitted_changes_are_reported() -> None:
    many = replace(EXECUTION, degrees=50 * EXECUTION.degrees)
    assert "the first 50." in run_report_html(replace(FULL, executions=(many,)))
    assert "the first 50." not in run_report_html(FULL)
