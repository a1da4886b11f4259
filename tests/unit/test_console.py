"""A file gets the same text with and without rich."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.show import console
from penstock.show.console import (
    Console,
    ShortenedText,
    Text,
    TextColumn,
    make_console,
    make_table,
    print_facts,
    print_heading,
    print_line,
    rich_console,
)

texts = st.one_of(
    st.text(st.sampled_from("ab .,:[]/\\-é…\t\n漢"), max_size=12),
    st.text(st.sampled_from("abc d"), max_size=100),
)
cells = st.one_of(texts, texts.map(ShortenedText), texts.map(Text))


@pytest.fixture(scope="module", autouse=True)
def no_terminal() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
            patch.delenv(name, raising=False)
        patch.setattr(console, "_has_terminal", lambda: False)
        yield


def check_same(show: Callable[[Console], None], width: int = 80) -> None:
    plain, drawn = io.StringIO(), io.StringIO()
    show(make_console(plain, width))
    show(rich_console(drawn, width))
    assert plain.getvalue() == drawn.getvalue()


@given(texts, st.booleans())
def test_a_text_is_the_same(text: str, soft_wrap: bool) -> None:
    check_same(lambda console: console.print(text, soft_wrap=soft_wrap))
    check_same(lambda console: console.print(Text(text), soft_wrap=soft_wrap))


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3), texts)
@example([("", "")], "")
def test_lines_headings_and_facts_are_the_same(facts: list[tuple[str, str]], text: str) -> None:
    def show(console: Console) -> None:
        print_facts(console, facts)
        print_heading(console, text)
        print_line(console, Text.assemble("  ", (text, "bold"), Text(text)))
        console.print()

    check_same(show)


@pytest.mark.skipif(
    tuple(map(int, version("rich").split(".")[:2])) < (14, 3),
    reason="rich pads empty columns otherwise before version 14.3",
)
@given(st.data(), st.integers(20, 90))
def test_a_table_is_the_same(data: st.DataObject, width: int) -> None:
    columns = data.draw(
        st.lists(
            st.builds(
                TextColumn,
                texts,
                right=st.booleans(),
                wide=st.booleans(),
                width=st.none() | st.integers(1, 12),
                from_width=st.integers(0, 30),
            ),
            min_size=1,
            max_size=4,
        )
    )
    if not any(width >= column.from_width for column in columns):
        return
    rows = data.draw(st.lists(st.tuples(*[cells] * len(columns)), max_size=3))
    expand = data.draw(st.booleans())
    check_same(
        lambda console: console.print(make_table(console, columns, rows, expand=expand)), width
    )


@pytest.mark.parametrize("columns", ["", "40", "100", "x"])
def test_the_environment_may_set_the_columns(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    texts = []
    for make in (make_console, rich_console):
        file = io.StringIO()
        for length in (30, 60, 90, 120):
            make(file).print("ab " * (length // 3))
        texts.append(file.getvalue())
    assert texts[0] == texts[1]
    assert make_console(io.StringIO()).width == rich_console(io.StringIO()).width


def test_output_that_fits_needs_no_rich() -> None:
    code = (
        "import io, sys\n"
        "from penstock.show.console import *\n"
        "console = make_console(io.StringIO())\n"
        "print_facts(console, [('rows', '1')])\n"
        "columns = [TextColumn('a'), TextColumn('b', right=True)]\n"
        "console.print(make_table(console, columns, [['x', '1']]))\n"
        "print('rich' in sys.modules)\n"
        "console.print('ä')\n"
        "print('rich' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    )
    assert done.stdout.split() == ["False", "True"]
