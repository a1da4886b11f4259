"""Watermarks as the user sees and sets them: how far sources were read, and by which nights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from penstock.backends.api.execution.control import ControlStore
from penstock.engine.state import new_run_id
from penstock.engine.stored_runs import target_catalog
from penstock.engine.value_display import isolate_display
from penstock.errors import TargetBusy, UsageError, did_you_mean
from penstock.model.nights import BY_HAND, Watermark

_TO = " to "
"""Separates the two tables in a default name; see `watermark_name`."""


@isolate_display
def watermarks(*, target: str, control_schema: str = "penstock") -> tuple[Watermark, ...]:
    """Return how far sources were read into a target: the latest watermark of each name."""
    with _control(target, control_schema) as control:
        return control.watermarks.latest_of_all()


@isolate_display
def watermark_history(
    name: str, *, target: str, control_schema: str = "penstock"
) -> tuple[Watermark, ...]:
    """Return all watermarks of a name, the newest first.

    Args:
        name: the name of the watermark, or of a table that only one watermark leads from or to.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the name means no watermark, or several.
    """
    with _control(target, control_schema) as control:
        return _history(control, name)


@isolate_display
def reset_watermark(name: str, *, target: str, control_schema: str = "penstock") -> Watermark:
    """Make the next night read all rows. A night in progress then merges nothing.

    Args:
        name: the name of the watermark, or of a table that only one watermark leads from or to.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the name means no watermark, or several.
        TargetBusy: a night has ended at this very moment.
    """
    with _control(target, control_schema) as control:
        last = _history(control, name)[0]
        # Options still name columns that may have other names now.
        mark = Watermark(last.name, last.epoch + 1, _by_hand(), "", None, columns=last.columns)
        return _put(control, mark)


@isolate_display
def set_watermark(
    name: str, *, epoch: int, target: str, control_schema: str = "penstock"
) -> Watermark:
    """Make the next night read what has changed since an earlier one.

    A night in progress then merges nothing.

    Args:
        name: the name of the watermark, or of a table that only one watermark leads from or to.
        epoch: the epoch of the earlier night; see `watermark_history`.
        target: the connection.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the name means no watermark, or several, or no night has this epoch.
        TargetBusy: a night has ended at this very moment.
    """
    with _control(target, control_schema) as control:
        history = _history(control, name)
        chosen = next((each for each in history if each.epoch == epoch), None)
        if chosen is None:
            epochs = f"{history[-1].epoch} to {history[0].epoch}"
            raise UsageError(f"watermark {name!r}: expected an epoch from {epochs}, found {epoch}")
        # The target must still be as the last night left it, whatever is read again; so must its
        # columns, and options name columns that may have other names now.
        latest = next((each for each in history if each.target), chosen)
        mark = replace(
            chosen,
            epoch=history[0].epoch + 1,
            run_id=_by_hand(),
            target=latest.target,
            rows=latest.rows,
            columns=history[0].columns,
        )
        return _put(control, mark)


@contextmanager
def _control(target: str, control_schema: str) -> Iterator[ControlStore]:
    with target_catalog(target, control_schema) as catalog:
        yield catalog.control


def _history(control: ControlStore, name: str) -> tuple[Watermark, ...]:
    return control.watermarks.history(name) or control.watermarks.history(_meant(control, name))


def _meant(control: ControlStore, name: str) -> str:
    """Return the only watermark that a name means: its own, or a table that it leads from or to.

    Raises:
        UsageError: the name means no watermark, or several.
    """
    names = [each.name for each in control.watermarks.latest_of_all()]
    meant = _meanings(names, name)
    if len(meant) == 1:
        return meant[0]
    if meant:
        several = ", ".join(repr(each) for each in meant)
        raise UsageError(f"watermark: {name!r} may be one of {several}; name one of them")
    if not names:
        raise UsageError(
            f"no watermark {name!r}: no copy with --incremental has ended in this target"
        )
    expected = ", ".join(map(repr, names))
    near = did_you_mean(name, {part: each for each in names for part in (each, *each.split(_TO))})
    raise UsageError(f"watermark: expected one of {expected}; found {name!r}{near}")


def find_watermark(control: ControlStore, name: str) -> Watermark | None:
    """Return the latest watermark of a name; None if no night has ended under it.

    Args:
        control: the control store of the target.
        name: as in `watermark_history`.

    Raises:
        UsageError: the name means several watermarks.
    """
    if control.watermarks.history(name):
        return control.watermarks.history(name)[0]
    names = [each.name for each in control.watermarks.latest_of_all()]
    if not _meanings(names, name):
        return None
    return _history(control, name)[0]


def _meanings(names: Sequence[str], name: str) -> list[str]:
    """Return the watermarks that a name may mean."""
    return [each for each in names if name in (_on_one_line(each), *each.split(_TO))] or [
        each for each in names if _is_shortened(name, _on_one_line(each))
    ]


def _on_one_line(name: str) -> str:
    return " ".join(name.split("\n"))


def _is_shortened(name: str, whole: str) -> bool:
    """Whether a name is what a narrow terminal has shown of a longer one."""
    head, dots, tail = name.partition("…")
    return bool(dots) and whole.startswith(head) and whole.endswith(tail)


def _by_hand() -> str:
    return f"{BY_HAND}{new_run_id()}"


def _put(control: ControlStore, mark: Watermark) -> Watermark:
    if not control.watermarks.put(mark):
        raise TargetBusy(
            f"watermark {mark.name!r} was moved by a run that has just ended; check it with "
            "penstock watermark show, and try again"
        )
    return mark
