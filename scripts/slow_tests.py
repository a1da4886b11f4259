"""Write tests/slow_tests.txt, the tests that take too long for `make test`, by measurement.

Usage: ``.venv/bin/python scripts/slow_tests.py DURATIONS.xml ... [--check]``

The files are those that ``--junitxml`` wrote in a run of every test (`make test-all`), on an idle
machine. A test that took longer than `LONGEST` is slow. Of the functions that took longest by the
sum of their cases, all cases but the shortest are slow until the rest takes at most `BUDGET`. Tests
in `KEPT` are never slow.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.suites import LIST, SlowTests  # noqa: E402

LONGEST = 2.5
"""Seconds of a test."""
BUDGET = 1500.0
"""Seconds of all tests of `make test`, over its three workers."""
KEPT = (
    "tests/contract/test_kills.py::",
    "tests/contract/test_lost_rows.py::",
    "tests/contract/test_modes.py::test_each_mode_with_every_strategy[",
    "tests/contract/test_pairs.py::test_every_kind_of_value_arrives[",
    "tests/faults/test_holder.py::test_a_second_holder_takes_over_from_a_killed_one",
    "tests/faults/test_killed_nursery.py::",
    "tests/faults/test_killed_steps.py::test_swap_is_resumed_after_a_kill_at_any_step[",
    "tests/faults/test_killed_supervisor.py::",
    "tests/faults/test_killed_worker.py::test_the_partition_of_a_killed_worker_is_retried[",
    "tests/nights/test_month.py::test_a_month_into_postgresql[0]",
)
"""The beginnings of the ids of tests that `make test` runs, however long they take."""
UNIT = "tests/unit/"
"""Tests so short that fewer cases would save nothing."""
HEAD = """\
# The tests that `make test` leaves out beside the areas in suites.py, with the seconds they took.
# Written by scripts/slow_tests.py.
"""


def durations(files: Sequence[str]) -> dict[str, float]:
    """Return the seconds of each test, by its id.

    Args:
        files: results in JUnit's format.
    """
    found: dict[str, float] = {}
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            if case.find("skipped") is None:
                test = _id(case.attrib["classname"], case.attrib["name"])
                found[test] = float(case.attrib["time"])
    return found


def _id(classname: str, name: str) -> str:
    parts = classname.split(".")
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if (ROOT / path).is_file():
            return "::".join([path, *parts[count:], name])
    raise ValueError(f"{classname}: expected a module of this repository")


def slow_tests(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of slow tests, by what the list says of them.

    Args:
        seconds: those of all tests.
    """
    areas = SlowTests(())
    here = {test: took for test, took in seconds.items() if not areas.has(test)}
    functions: dict[str, list[str]] = defaultdict(list)
    for test in here:
        functions[test.partition("[")[0]].append(test)
    slow = {t for t, took in here.items() if took > LONGEST and not t.startswith(KEPT)}
    # What each function would save if only its shortest case stayed.
    others = {
        function: sorted((t for t in tests if t not in slow), key=here.__getitem__)[1:]
        for function, tests in functions.items()
        if not any(test.startswith((*KEPT, UNIT)) for test in tests)
    }
    saved = {function: sum(here[t] for t in tests) for function, tests in others.items()}
    rest = sum(took for test, took in here.items() if test not in slow)
    for function in sorted(saved, key=lambda each: -saved[each]):
        if rest <= BUDGET:
            break
        slow.update(others[function])
        rest -= saved[function]
    return _grouped(here, slow, functions)


def _grouped(
    here: Mapping[str, float], slow: set[str], functions: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    files: dict[str, list[str]] = defaultdict(list)
    for test in here:
        files[test.partition("::")[0]].append(test)
    found: dict[str, float] = {}
    for path, tests in files.items():
        if slow.issuperset(tests):
            found[path] = sum(here[test] for test in tests)
            continue
        for function in {test.partition("[")[0] for test in tests}:
            cases = functions[function]
            gone = [test for test in cases if test in slow]
            took = sum(here[test] for test in gone)
            if len(gone) == len(cases):
                found[function] = took
            elif len(gone) == len(cases) - 1 and len(gone) > 1:
                (kept,) = set(cases).difference(gone)
                found[f"{function} except {kept.removeprefix(function)}"] = took
            else:
                found |= {test: here[test] for test in gone}
    return found


def main() -> int:
    files = [word for word in sys.argv[1:] if word != "--check"]
    if not files:
        print(__doc__)
        return 64
    seconds = durations(files)
    if "--check" in sys.argv:
        known = SlowTests(LIST.read_text().splitlines())
        new = {
            test: took
            for test, took in seconds.items()
            if took > 2 * LONGEST and not known.has(test) and not test.startswith(KEPT)
        }
        for test, took in sorted(new.items(), key=lambda each: -each[1]):
            print(f"{test} took {took:.1f} s: expected {LONGEST} s at most in make test")
        return 1 if new else 0
    slow = slow_tests(seconds)
    lines = [f"{took:4.0f} {test}\n" for test, took in sorted(slow.items())]
    LIST.write_text(HEAD + "".join(lines))
    areas = SlowTests(())
    of_areas = sum(took for test, took in seconds.items() if areas.has(test))
    print(f"slow: {sum(slow.values()):.0f} s in {len(slow)} lines, and {of_areas:.0f} s of areas;")
    print(f"make test: {sum(seconds.values()) - sum(slow.values()) - of_areas:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
