"""The result of a copy, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from penstock.events import Event, Finished
from penstock.model.tables import NotCopied
from penstock.show.charts import text
from penstock.show.text import duration, moment, not_copied_lines, number, size

_ASIDE = ' style="text-align:left;opacity:0.7"'
_CELL = ' style="text-align:left"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What `run` has done. Notebooks show it as a table."""

    run_id: str
    rows: int
    """Rows that this call committed: none if the run was done before."""
    bytes: int
    """Bytes of those rows, in the form in which they travelled."""
    seconds: float
    partitions: int
    """Partitions of the plan, all of which are committed."""
    inserted: int | None = None
    """In mode upsert: new rows."""
    updated: int | None = None
    """In mode upsert: existing rows that differed, and were updated."""
    deleted: int | None = None
    """With `deletes`: rows deleted because the source no longer had them."""
    watermark: str = ""
    """The name of the watermark that this call has set; empty if it has set none."""
    moment: str = ""
    """The moment of the source up to which that watermark says it was read, in ISO 8601."""
    warnings: tuple[str, ...] = ()
    not_copied: tuple[NotCopied, ...] = ()
    """Objects that the run leaves out, other than rows."""

    def __repr__(self) -> str:
        shown = (
            f"{item.name}={value!r}"
            for item in fields(self)
            if (value := getattr(self, item.name)) not in (None, "", ())
        )
        return f"Result({', '.join(shown)})"

    def _repr_html_(self) -> str:
        rows = [("run", self.run_id), ("rows", number(self.rows)), ("size", size(self.bytes))]
        rows.append(("time", duration(self.seconds)))
        rows.append(("partitions", number(self.partitions)))
        for name in ("inserted", "updated", "deleted"):
            if (count := getattr(self, name)) is not None:
                rows.append((name, number(count)))
        if self.watermark:
            rows.append(("watermark", f"{self.watermark}, {moment(self.moment)}"))
        rows += [("warning", warning) for warning in self.warnings]
        rows += [("", line) for line in not_copied_lines(self.not_copied)]
        cells = (
            f"<tr><td{_ASIDE}>{text(name)}</td><td{_CELL}>{text(value)}</td></tr>"
            for name, value in rows
        )
        return f"<table><tbody>{''.join(cells)}</tbody></table>"


def result_of(events: Iterable[Event]) -> Result:
    """Return the result that the events of a whole copy tell.

    Args:
        events: the events of an execution; the last one is `Finished`.
    """
    warnings: list[str] = []
    watermark = moment = ""
    end: Finished | None = None
    for event in events:
        match event.name:
            case "planned":
                warnings += event.warnings
            case "warning":
                warnings.append(event.message)
            case "merged":
                watermark, moment = event.watermark, event.moment
            case "finished":
                end = event
    assert end is not None
    return Result(
        run_id=end.run_id,
        rows=end.rows,
        bytes=end.bytes,
        seconds=end.seconds,
        partitions=end.partitions,
        inserted=end.inserted,
        updated=end.updated,
        deleted=end.deleted,
        watermark=watermark,
        moment=moment if watermark else "",
        warnings=tuple(dict.fromkeys(warnings)),
        not_copied=end.not_copied,
    )
