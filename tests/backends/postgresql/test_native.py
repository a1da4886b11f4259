"""penstock-native is used if it fits; otherwise Python is, with a message that says so."""

from __future__ import annotations

import ctypes.util
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.backends.postgresql import native as postgres_native
from penstock.backends.shared import native as shared_native

from ...conftest import native_missing
from ...packages import build_wheels, clean_environment, run

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

BUILT = pytest.mark.skipif(native_missing() is not None, reason=str(native_missing()))
WITHOUT = "rows move through Python"


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """Make this process look for the package again, now and after the test."""

    def forget() -> None:
        shared_native.native.cache_clear()
        postgres_native._libraries.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def table(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int, a text)")
    pair.source.run("INSERT INTO t SELECT n, repeat('a', 50) FROM generate_series(1, 5000) AS n")
    return pair


def copied(pair: Pair, *program: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Copy in a new process, which imports everything again."""
    words = ("copy", *pair.ends, "--table", "public.t", "--degree", "1")
    done = subprocess.run(
        [*(program or [Path(sys.executable).parent / "penstock"]), *words],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pair.assert_same()
    return done


def test_a_faster_alternative_is_mentioned_once(
    table: Pair,
    asked_anew: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the process that the user sees."""
    monkeypatch.setitem(sys.modules, "penstock_native", None)
    with caplog.at_level(logging.DEBUG, "penstock"):
        table.copy()
        table.copy(mode="truncate")
    logged = [record for record in caplog.records if WITHOUT in record.message]
    assert [record.levelno for record in logged] == [logging.DEBUG]


def test_nothing_is_logged_if_the_user_chose_python(
    table: Pair,
    asked_anew: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(shared_native.SWITCH, "off")
    with caplog.at_level(logging.DEBUG, "penstock"):
        table.copy()
    assert not caplog.records
    assert not postgres_native.available()


def test_another_version_is_not_used(table: Pair, tmp_path: Path) -> None:
    package = tmp_path / "penstock_native"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "0.0.9"\n')
    done = copied(table, PYTHONPATH=str(tmp_path))
    assert done.stderr.count("penstock-native 0.0.9 is installed but not used: expected ") == 1


@BUILT
@pytest.mark.parametrize("library", ["/nowhere/libpq.so", ctypes.util.find_library("c")])
def test_another_library_is_not_used(
    library: str,
    table: Pair,
    asked_anew: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(postgres_native, "library", lambda: library)
    assert not postgres_native.available()
    assert not postgres_native.available()
    (logged,) = caplog.records
    assert logged.levelno == logging.WARNING
    assert "psycopg's libpq cannot be loaded" in logged.message


PURE = """
import os, sys
import psycopg, penstock
from penstock.events import Committed
assert psycopg.pq.__impl__ == "python"
source, target = sys.argv[1:]
for event in penstock.copy(penstock.CopySpec(source=source, target=target, table="public.t")):
    if isinstance(event, Committed):
        with open(f"/proc/{event.pid}/maps") as maps:
            loaded = maps.read()
        assert "psycopg_binary" not in loaded
        assert ("penstock_native" in loaded) is (os.environ.get("PENSTOCK_NATIVE") != "off")
"""


@pytest.mark.skipif(not ctypes.util.find_library("pq"), reason="the system has no libpq")
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is loaded is read there")
@pytest.mark.usefixtures("both_paths")
def test_psycopg_in_python_with_the_system_s_libpq(table: Pair) -> None:
    ends = (table.source.url, table.target.url)
    run(sys.executable, "-c", PURE, *ends, env={**os.environ, "PSYCOPG_IMPL": "python"})
    table.assert_same()


@BUILT
def test_the_wheels_of_both_packages_work_together(table: Pair, tmp_path: Path) -> None:
    wheels = build_wheels(tmp_path / "wheels", "core", "core/native")
    programs = clean_environment(tmp_path, wheels, "psycopg[binary]")
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    used = "from penstock.backends.postgresql.native import available; assert available()"
    run(programs / "python", "-c", used, env=environment)
    copied(table, programs / "penstock")
