"""Write tables of each system's capabilities into the documentation.

Usage: ``.venv/bin/python scripts/capability_tables.py [--check]``
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# A script can import only from its own folder and from installed packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.marked_tables import ROOT, code, main, markdown

from penstock.backends.api.backend import Backend
from penstock.backends.api.capabilities import (
    ROLL_FORWARD,
    SOURCE_OPTIONS,
    STAGED,
    TARGET_OPTIONS,
    TRANSACTIONAL,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.backends.api.registry import ENTRY_POINTS, load_backend
from penstock.planning.support import join_names
from penstock.spec.modes import MODES, Entry, Mode
from penstock.spec.option_values import flag_of
from penstock.spec.strategies import ALIASES, STRATEGIES, Strategy

YES, NO = "yes", "no"
# Of an option's values, the one that some targets do not support.
VALUES = {"indexes": " defer"}
# If at most this many are missing, they are listed instead of the others.
FEW = 2
COMMITS = {
    TRANSACTIONAL: "its rows and its record in one transaction",
    STAGED: "staged; then its rows and its record in one transaction",
    ROLL_FORWARD: "its record, which names its files or stage; then its rows appear",
}
PARTITIONING = [strategy for name, strategy in STRATEGIES.items() if name not in ALIASES]
Row = tuple[str, ...]


@dataclass(frozen=True)
class System:
    """A system with its URLs."""

    source: SourceCapabilities
    target: TargetCapabilities
    schemes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.target.system


def systems() -> list[System]:
    """Return all systems with a backend, in the order of registration.

    What is a source only, and only in Python, is on the page about Python.
    """
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, tuple[Backend, list[str]]] = {}
    for scheme, reference in project["project"]["entry-points"][ENTRY_POINTS].items():
        backend = load_backend(reference)
        if not backend.target_capabilities.modes:
            continue
        _, schemes = found.setdefault(backend.target_capabilities.system, (backend, []))
        schemes.append(scheme)
    return [
        System(backend.source_capabilities, backend.target_capabilities, tuple(schemes))
        for backend, schemes in found.values()
    ]


SYSTEMS = systems()


def url(scheme: str) -> str:
    """Return the beginning of a scheme's URLs, and their ending if it names the format."""
    scheme, _, extension = scheme.partition(".")
    return f"{scheme}://*.{extension}" if extension else f"{scheme}://"


def yes_or_no(value: bool) -> str:
    return YES if value else NO


def row(name: str, cell: Callable[[System], str]) -> Row:
    return (name, *map(cell, SYSTEMS))


def table(head: str, rows: Iterable[Row]) -> str:
    """Return a table with a column for each system."""
    return markdown(row(head, lambda system: system.name), rows)


def without_variants(modes: Sequence[Mode]) -> list[Mode]:
    """Drop modes that are another mode with an option."""
    return [mode for mode in modes if mode in MODES.values()]


def some_of(chosen: Sequence[Mode], all_of: Sequence[Mode]) -> str:
    """Return the modes of a choice by name, or the missing ones, among those of the target."""
    chosen, all_of = without_variants(chosen), without_variants(all_of)
    others = [mode for mode in all_of if mode not in chosen]
    if not chosen:
        return NO
    if not others:
        return YES
    if len(others) <= FEW and len(others) < len(chosen):
        return f"{YES}, not with {join_names(code(others))}"
    return f"with {join_names(code(chosen))}"


def all_but(chosen: Sequence[object], all_of: Sequence[object]) -> str:
    others = [each for each in all_of if each not in chosen]
    return f"all but {join_names(code(others), 'and')}" if others else "all"


def how_replaced(system: System) -> str:
    return "by a key" if system.target.replaces_by_condition else "files of the same selection"


def modes() -> str:
    """Return the table for docs/modes.md: supported modes and options."""

    def supports(mode: Mode) -> Row:
        def cell(system: System) -> str:
            if mode not in system.target.modes:
                return NO
            return f"{YES}, {how_replaced(system)}" if mode.entry is Entry.REPLACE else YES

        return row(f"`{mode}`", cell)

    def option(name: str) -> Row:
        def cell(system: System) -> str:
            found = some_of(system.target.options.get(name, ()), system.target.modes)
            unlike = name in system.target.cross_system_options
            return f"{found}, from other systems" if unlike else found

        return row(f"`{flag_of(name)}{VALUES.get(name, '')}`", cell)

    return table(
        "as a target",
        [
            *map(supports, MODES.values()),
            row(
                "`--atomic`, `--incremental`, `--deletes`",
                lambda s: yes_or_no(s.target.merges_nights),
            ),
            row(
                "creates a missing table",
                lambda s: some_of(s.target.creating_modes, s.target.modes),
            ),
            *map(option, TARGET_OPTIONS),
            row(
                "distinguishes a run's rows from others",
                lambda s: yes_or_no(s.target.identifies_loaded_rows),
            ),
            row("`penstock tune`", lambda s: yes_or_no(s.target.scratch)),
            row("`penstock control-ddl`", lambda s: yes_or_no(s.target.control_ddl)),
        ],
    )


def strategies() -> str:
    """Return the table for docs/strategies.md: the ways to partition each source."""

    def supports(strategy: Strategy) -> Row:
        def cell(system: System) -> str:
            if strategy not in system.source.strategies:
                return NO
            other = system.source.block_strategy
            renamed = strategy.by_blocks and other != strategy.name
            return f"{YES}, as `{other}`" if renamed else YES

        return row(f"`{strategy}`", cell)

    def option(name: str) -> Row:
        return row(f"`{flag_of(name)}`", lambda system: yes_or_no(name in system.source.options))

    return table(
        "as a source",
        [
            *map(supports, PARTITIONING),
            row("`--snapshot shared`", lambda s: yes_or_no(s.source.shared_snapshots)),
            *map(option, SOURCE_OPTIONS),
        ],
    )


def overview() -> str:
    """Return the overview of databases: each system in a few words, in a row of its own."""
    properties = ("URLs", "strategies", "modes", "creates a missing table", "commits a partition")

    def cells(system: System) -> Row:
        source, target = system.source, system.target
        return (
            system.name,
            ", ".join(code(url(scheme) for scheme in system.schemes)),
            all_but(source.strategies, PARTITIONING),
            all_but(target.modes, list(MODES.values())),
            some_of(target.creating_modes, target.modes),
            COMMITS[target.commits],
        )

    return markdown(("", *properties), map(cells, SYSTEMS))


if __name__ == "__main__":
    tables = {
        "docs/databases.md": overview(),
        "docs/modes.md": modes(),
        "docs/strategies.md": strategies(),
    }
    marker = f"scripts/{Path(__file__).name}"
    sys.exit(main({page: {marker: text} for page, text in tables.items()}))
