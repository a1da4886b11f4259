"""Rejection of options that one of the ends does not support, in one wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Any

from penstock.backends.api.capabilities import (
    SOURCE_OPTIONS,
    TARGET_OPTIONS,
    SourceCapabilities,
    TargetCapabilities,
)
from penstock.errors import UsageError
from penstock.spec.copy_spec import CopySpec
from penstock.spec.groups.snapshot import SNAPSHOTS
from penstock.spec.modes import Ending, Mode
from penstock.spec.night_kinds import COLUMN, FILES, XMIN
from penstock.spec.option_values import flag_of

_FIELDS = {item.name: item for item in fields(CopySpec)}


def check_supported(
    spec: CopySpec, source: SourceCapabilities | None, target: TargetCapabilities | None
) -> None:
    """Check that both ends support the request, whatever the tables are.

    Args:
        spec: the request.
        source: the capabilities of the source; None if its system is not known yet.
        target: the capabilities of the target; None if its system is not known yet.

    Raises:
        UsageError: an end does not support an option, and the message says what it does support; or
            mode replace has no key to delete by, or mode attach none to attach by.
    """
    if source is not None:
        _check_source(spec, source)
    if target is not None:
        _check_target(spec, target)
        if source is not None and source.system == target.system:
            _check_alike(spec, target)


def _check_source(spec: CopySpec, source: SourceCapabilities) -> None:
    if spec.partition_strategy not in source.strategies:
        strategies = join_names(str(strategy) for strategy in source.strategies)
        raise _refused(
            source.system, "source", f"--strategy {spec.strategy}", f"--strategy {strategies}"
        )
    shared, none = SNAPSHOTS
    if spec.snapshot == shared and not source.shared_snapshots:
        raise _refused(source.system, "source", f"--snapshot {shared}", f"--snapshot {none}")
    if not source.compares and spec.verify != _default("verify"):
        raise _refused(source.system, "source", f"--verify {spec.verify}", "--verify none")
    _check_options(spec, SOURCE_OPTIONS, source.options, source.system, "source")
    if spec.incremental and spec.night_by not in source.nights:
        forms = {XMIN: XMIN, FILES: FILES, COLUMN: "COLUMN"}
        ways = [f"--incremental {forms[each]}" for each in source.nights]
        option = f"--incremental {spec.incremental}"
        raise _refused(source.system, "source", option, join_names(ways))


def _check_target(spec: CopySpec, target: TargetCapabilities) -> None:
    if spec.load_mode not in target.modes:
        supported, option = f"--mode {_modes(target.modes)}", f"--mode {spec.mode}"
        if spec.load_mode.ending is Ending.MERGE:
            option += " with --incremental" if spec.incremental else " with --atomic"
        raise _refused(target.system, "target", option, supported)
    if spec.incremental and not target.merges_nights:
        option = f"--mode {spec.mode} with --incremental"
        raise _refused(target.system, "target", option, f"--mode {_modes(target.modes)}")
    _check_options(spec, TARGET_OPTIONS, target.options, target.system, "target")
    for name in _explicit_options(spec, target.options):
        modes = target.options[name]
        if spec.load_mode not in modes:
            text = _option_text(spec, name)
            option, supported = (
                f"{text} with --mode {spec.mode}",
                f"{text} with --mode {_modes(modes)}",
            )
            raise _refused(target.system, "target", option, supported)
    _check_control_schema(spec, target)
    if target.replaces_by_condition:
        spec.check_replaceable()
    spec.check_attachable()


def _check_control_schema(spec: CopySpec, target: TargetCapabilities) -> None:
    schema = spec.control_schema
    if any(fnmatchcase(schema.lower(), pattern) for pattern in target.reserved_schemas):
        raise UsageError(
            f"--control-schema: {target.system} reserves the name {schema!r}; choose another one"
        )


def _check_alike(spec: CopySpec, target: TargetCapabilities) -> None:
    for name in _explicit_options(spec, target.options):
        if name in target.cross_system_options:
            text = _option_text(spec, name)
            option, supported = f"{text} from {target.system}", f"{text} from other systems"
            raise _refused(target.system, "target", option, supported)


def _check_options(
    spec: CopySpec, names: Sequence[str], supported: Iterable[str], system: str, side: str
) -> None:
    wrong = [
        _option_text(spec, name) for name in _explicit_options(spec, names) if name not in supported
    ]
    if wrong:
        alternatives = [flag_of(name) for name in names if name in supported]
        raise _refused(system, side, join_names(wrong, "and"), f"{join_names(alternatives, 'and')}")


def _explicit_options(spec: CopySpec, names: Iterable[str]) -> list[str]:
    """Return the options that the user has set."""
    return [name for name in names if getattr(spec, name) and getattr(spec, name) != _default(name)]


def _default(name: str) -> Any:
    return _FIELDS[name].default


def _option_text(spec: CopySpec, name: str) -> str:
    """Return an option as the user wrote it; one that is off by default without its value."""
    if isinstance(_default(name), str):
        return f"{flag_of(name)} {getattr(spec, name)}"
    return flag_of(name)


def _modes(modes: Iterable[Mode]) -> str:
    return join_names(dict.fromkeys(mode.name for mode in modes))


def join_names(names: Iterable[str], last: str = "or") -> str:
    """Join names: ``a, b or c``; ``none of them`` if there are none."""
    *first, final = list(names) or ["none of them"]
    return f"{', '.join(first)} {last} {final}" if first else final


def _refused(system: str, side: str, option: str, supported: str) -> UsageError:
    return UsageError(f"{system} as a {side} does not support {option}; it supports {supported}")
