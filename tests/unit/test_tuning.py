"""`tune`: the settings it tries, the partitions it samples, its recommendation, and its file."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.main import make_parser
from penstock.cli.options import read_spec
from penstock.errors import UsageError
from penstock.figures.run_report import TimeSpent, WaitShare
from penstock.model.extents import BlockRange
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.tables import TableRef
from penstock.show.tuning_html import tuning_html
from penstock.spec.copy_spec import CopySpec
from penstock.spec.toml_file import read_toml
from penstock.tuning.measurements import (
    Measurement,
    Tuning,
    group_by_setting,
    noise_of,
    recommend,
)
from penstock.tuning.settings import Setting, choose_sample, evenly, sampled_bytes, settings, turns
from penstock.tuning.tuned_file import toml_text, tuned_options


def partitions(count: int, size: int | None = 10) -> tuple[Partition, ...]:
    return tuple(
        Partition(f"p{place}", BlockRange(place, place + 1), bytes=size) for place in range(count)
    )


def plan_of(count: int, total: int | None, size: int | None = 10) -> PartitionPlan:
    load = LoadPlan(TableRef("a", "b"))
    return PartitionPlan("ctid", (), partitions(count, size), (), (), "x", load, bytes=total)


def measured(setting: Setting, *seconds: float, **changes: Any) -> list[Measurement]:
    values: dict[str, Any] = {
        "steps": 0.0,
        "cpu": 1.0,
        "rows": 1000,
        "bytes": 100_000_000,
        "spent": TimeSpent(1.0, 2.0, 1.0),
        "waits": {},
    }
    return [Measurement(setting, each, **{**values, **changes}) for each in seconds]


def best_of(*copies: list[Measurement]) -> tuple[str, str]:
    found = recommend(group_by_setting([each for some in copies for each in some]))
    return str(found.setting), found.reason


# Settings


def test_settings_to_try() -> None:
    assert [str(each) for each in settings((4, 1), ())] == ["degree 1", "degree 4"]
    assert [str(each) for each in settings((2,), ("deferred", "unlogged"))] == [
        "degree 2",
        "degree 2, deferred",
        "degree 2, unlogged",
        "degree 2, unlogged, deferred",
    ]


@pytest.mark.parametrize(
    ("degrees", "options", "message"),
    [
        ((0,), (), "--degrees: expected numbers from 1 to 64, found 0"),
        ((1, 65), (), "found 65"),
        ((), (), "--degrees: expected each number once, found none"),
        ((2, 2), (), "--degrees: expected each number once, found 2, 2"),
        ((1,), ("logged",), "--with: expected some of unlogged, deferred, each once; found logged"),
        ((1,), ("unlogged", "unlogged"), "each once"),
    ],
)
def test_invalid_settings_are_rejected(
    degrees: tuple[int, ...], options: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        settings(degrees, options)
    assert message in caught.value.message


def test_a_setting_becomes_options_of_a_copy() -> None:
    spec = CopySpec(source="x://a", target="x://b", table="a.b", mode="truncate")
    plain = Setting(3).of(spec)
    assert (plain.degree, plain.unlogged, plain.indexes) == (3, False, "keep")
    both = Setting(1, ("unlogged", "deferred")).of(spec)
    assert (both.degree, both.unlogged, both.indexes) == (1, True, "defer")


def test_settings_take_turns_in_both_directions() -> None:
    chosen = settings((1, 2, 4), ())
    order = [setting.degree for setting in turns(chosen, 3)]
    assert order == [1, 2, 4, 4, 2, 1, 1, 2, 4]
    for wrong in (0, 101):
        with pytest.raises(UsageError, match="--repeat: expected a number from 1 to 100"):
            turns(chosen, wrong)


# Samples


@given(count=st.integers(1, 500), size=st.integers(1, 600))
def test_a_sample_is_spread_evenly(count: int, size: int) -> None:
    found = evenly(partitions(count), size)
    places = [int(each.id[1:]) for each in found]
    assert len(places) == len(set(places)) == min(count, size)
    assert places == sorted(places)
    # The distance to both ends equals that between two of them.
    gaps = [after - before for before, after in pairwise(places)]
    assert max(gaps, default=0) - min(gaps, default=0) <= 1
    assert abs(places[0] - (count - 1 - places[-1])) <= 1


def test_the_size_of_a_sample() -> None:
    plan = plan_of(100, 1000)
    found = choose_sample(plan, 300, 1)
    assert len(found) == 30
    assert sampled_bytes(found, plan) == 300
    # Enough for all streams, within the number of partitions.
    assert len(choose_sample(plan, 10, 8)) == 16
    assert len(choose_sample(plan, 5000, 8)) == 100
    # Sizes are unknown to the source.
    unknown = plan_of(100, 1000, None)
    assert sampled_bytes(choose_sample(unknown, 300, 1), unknown) == 300
    nothing = plan_of(10, None, None)
    assert sampled_bytes(choose_sample(nothing, 300, 1), nothing) == 0


# Recommendations


def test_a_flat_curve_needs_one_stream() -> None:
    setting, reason = best_of(
        measured(Setting(1), 10.3), measured(Setting(2), 10.1), measured(Setting(4), 10.0)
    )
    assert setting == "degree 1"
    assert reason == "9.7 MB/s; degree 4 is fastest, but only by 3%"


def test_a_peak_is_recommended() -> None:
    setting, reason = best_of(
        measured(Setting(1), 20.0),
        measured(Setting(2), 12.0),
        measured(Setting(4), 8.0),
        measured(Setting(8), 9.0),
    )
    assert setting == "degree 4"
    assert reason == "12.5 MB/s, the fastest; next: degree 8, 12% slower"


def test_more_streams_must_gain_more_than_five_percent() -> None:
    assert best_of(measured(Setting(2), 10.6), measured(Setting(4), 10.0))[0] == "degree 4"
    assert best_of(measured(Setting(2), 10.4), measured(Setting(4), 10.0))[0] == "degree 2"


def test_an_option_must_gain_more_than_five_percent() -> None:
    unlogged = Setting(2, ("unlogged",))
    assert best_of(measured(Setting(8), 10.2), measured(unlogged, 10.0))[0] == "degree 8"
    assert best_of(measured(Setting(8), 12.0), measured(unlogged, 10.0))[0] == (
        "degree 2, unlogged"
    )


def test_noise_widens_the_margin_for_equal_results() -> None:
    quiet = (measured(Setting(2), 11.0, 11.0, 11.0), measured(Setting(4), 10.0, 10.0, 10.0))
    assert best_of(*quiet)[0] == "degree 4"
    noisy = (measured(Setting(2), 9.5, 11.0, 12.5), measured(Setting(4), 9.0, 10.0, 12.0))
    setting, reason = best_of(*noisy)
    assert setting == "degree 2"
    assert reason.endswith("but only by 10%, and times vary by 14%")


def test_noise_does_not_make_all_results_equal() -> None:
    wild = (measured(Setting(1), 10.0, 50.0, 100.0), measured(Setting(4), 5.0, 20.0, 90.0))
    assert noise_of(group_by_setting([*wild[0], *wild[1]])) == 0.25
    assert best_of(*wild)[0] == "degree 4"


def test_a_single_setting_is_the_best() -> None:
    assert best_of(measured(Setting(4), 10.0)) == (
        "degree 4",
        "10.0 MB/s; the only setting tried",
    )


# The file


def tuning(setting: Setting, **changed: Any) -> Tuning:
    copies = measured(
        setting, 10.0, steps=1.0, waits={"target": (WaitShare("CPU", "working", 1.0),)}
    )
    figures = group_by_setting([*copies, *measured(Setting(1), 20.0)])
    values: dict[str, Any] = {
        "source": "public.t",
        "table": "public.t",
        "query": None,
        "target": "public.t",
        "target_table": "public.t",
        "at": "2026-01-02T03:04:05+00:00",
        "mode": "truncate",
        "partitions": 4,
        "of_partitions": 8,
        "sampled_bytes": 100,
        "of_bytes": 200,
        "figures": figures,
        "recommendation": recommend(figures),
        "remarks": ("<remark>",),
    }
    return Tuning(**{**values, **changed})


BOTH = Setting(4, ("unlogged", "deferred"))


def read_back(tmp_path: Path, text: str, *words: str, table: str = "public.t") -> CopySpec:
    file = tmp_path / "tuned.toml"
    file.write_text(text, encoding="utf-8")
    command_line = ["copy", "--source", "x://a", "--target", "x://b", "--tuned", str(file), *words]
    command_line += ["--table", table] if table else []
    return read_spec(make_parser("copy").parse_args(command_line), {})


def test_the_file_describes_the_same_copy(tmp_path: Path) -> None:
    text = toml_text(tuning(BOTH))
    spec = read_back(tmp_path, text, "--mode", "truncate")
    assert (spec.degree, spec.unlogged, spec.indexes) == (4, True, "defer")
    # A table without a schema is found by the search path.
    assert read_back(tmp_path, text, "--mode", "truncate", table="t").degree == 4


def test_the_command_line_takes_precedence(tmp_path: Path) -> None:
    text = toml_text(tuning(BOTH))
    spec = read_back(tmp_path, text, "--degree", "2", "--no-unlogged", "--mode", "truncate")
    assert (spec.degree, spec.unlogged, spec.indexes) == (2, False, "defer")


@given(query=st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_query_survives_the_file(query: str) -> None:
    text = toml_text(tuning(Setting(4), table=None, query=query))
    raw = tomllib.loads(text)
    assert raw["query"].replace("$${", "${") == query.replace("$${", "${")
    options = {"query": query, "target_table": "public.t"}
    assert tuned_options({**raw, "query": query}, "f", options) == {"degree": 4}


def test_a_query_into_files_has_no_table(tmp_path: Path) -> None:
    query = "SELECT 1"
    spec = CopySpec(source="x://a", target="file:///b", query=query)
    text = toml_text(tuning(Setting(4), table=None, query=query, target_table=str(spec.target_ref)))
    assert read_back(tmp_path, text, "--query", query, table="").degree == 4


def test_a_query_with_a_variable_is_written_unresolved(tmp_path: Path) -> None:
    query = "SELECT '${HOME} $$ \x7f \"\\'"
    file = tmp_path / "tuned.toml"
    file.write_text(toml_text(tuning(Setting(4), table=None, query=query)), encoding="utf-8")
    assert read_toml(str(file), {})["query"] == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('table = "public.t"\ntarget_table = "public.t"\n', "found no degree"),
        ("degree = 4\n", "found no target_table"),
        ('target_table = "public.t"\ndegree = 4\nmode = "append"\n', "found 'mode'"),
        (
            'table = "public.u"\ntarget_table = "public.t"\ndegree = 4\n',
            "expected --table public.t, found public.u",
        ),
        (
            'table = "other.t"\ntarget_table = "public.t"\ndegree = 4\n',
            "expected --table public.t, found other.t",
        ),
        (
            'table = "public.t"\ntarget_table = "public.u"\ndegree = 4\n',
            "expected --target-table public.t, found public.u",
        ),
        ('target_table = "public.t"\ndegree = 4\n', "expected --table public.t, found none"),
        ('table = "public.t"\ntarget_table = "public.t"\ndegree = "x"\n', "--degree"),
        ("degree", "invalid TOML"),
    ],
)
def test_unsuitable_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_back(tmp_path, text)
    assert message in caught.value.message
    assert "tuned.toml" in caught.value.message


# The page


def test_the_page_is_well_formed_and_fetches_nothing() -> None:
    html = tuning_html(tuning(BOTH, source='<script>"&'))
    ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>"))
    assert "<script" not in html
    assert "http" not in html
    assert "&lt;remark&gt;" in html
    for text in (
        "degree 4, unlogged, deferred",
        "steps after the load",
        "MB/s against degree",
        "100% computing",
    ):
        assert text in html


@pytest.mark.parametrize(("seconds", "shown"), [(1.0, False), (4.0, False), (6.0, True)])
def test_a_few_samples_are_too_few_for_sessions(seconds: float, shown: bool) -> None:
    waits = {"target": (WaitShare("CPU", "working", 1.0),)}
    figures = group_by_setting(measured(Setting(2), seconds, waits=waits))
    html = tuning_html(tuning(BOTH, figures=figures, recommendation=recommend(figures)))
    assert ("100% computing" in html) is shown
    assert ("too short for that" in html) is not shown


def test_very_short_copies_are_not_drawn() -> None:
    figures = group_by_setting([*measured(Setting(1), 0.6), *measured(Setting(4), 0.4)])
    html = tuning_html(tuning(BOTH, figures=figures, recommendation=recommend(figures)))
    assert "no setting took more than 0.6 s" in html
    assert 'id="rates"' not in html
    figures = group_by_setting([*measured(Setting(1), 2.6), *measured(Setting(4), 0.4)])
    html = tuning_html(tuning(BOTH, figures=figures, recommendation=recommend(figures)))
    assert "Not enough was copied" not in html


def test_differences_of_tenths_of_a_second_are_ignored() -> None:
    figures = group_by_setting([*measured(Setting(1), 0.6), *measured(Setting(4), 0.4)])
    assert recommend(figures).setting == Setting(1)
    figures = group_by_setting([*measured(Setting(1), 1.6), *measured(Setting(4), 0.4)])
    assert recommend(figures).setting == Setting(4)
