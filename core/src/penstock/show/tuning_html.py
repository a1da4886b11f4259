"""The results of `tune`, as one HTML page with charts."""

from __future__ import annotations

from penstock.show.charts import Curve, Part, bars, curves, text
from penstock.show.page import CLASSES, fact_list, keys, legend, page, prose, section, table
from penstock.show.report_facts import KINDS
from penstock.show.text import PACED, moment
from penstock.show.tuning_table import by_kind, facts, numbers
from penstock.tuning.measurements import TOO_SHORT, Figures, Tuning

# One for each variant; a legend beside the chart names them.
_COLOURS = ("source", "target", "moving", "paced")
_SESSIONS = {
    "working": "moving",
    "locks": "target",
    "log": "paced",
    "storage": "source",
    "mover": "lost",
    "other": "other",
}
"""Classes for the activities of sessions."""
_STEPS = "steps after the load"


def tuning_html(tuning: Tuning) -> str:
    """Return a self-contained page: no scripts, no external references, and well-formed XML."""
    best = tuning.recommendation
    return page(
        f"Tuning of {tuning.source}",
        str(best.setting),
        "done",
        f"{best.setting}: {best.reason}",
        [
            fact_list([*facts(tuning), ("ended", moment(tuning.at))]),
            _rates(tuning),
            _time(tuning),
            _cpu(tuning),
            _sessions(tuning),
            section("The numbers", table(*numbers(tuning), words=2)),
            _remarks(tuning),
        ],
    )


def _rates(tuning: Tuning) -> str:
    title = "MB/s against degree"
    longest = max(each.seconds for each in tuning.figures)
    if longest < TOO_SHORT:
        note = (
            f"Not enough was copied to compare: no setting took more than {longest:.1f} s, which "
            "is mostly the begin and the end of a copy. A larger --sample says more, where the "
            "table has it."
        )
        return section(title, f'<p class="note">{text(note)}</p>')
    degrees = sorted({each.setting.degree for each in tuning.figures})
    variants = list(dict.fromkeys(each.setting.variant for each in tuning.figures))
    drawn: list[Curve] = [
        (
            kind,
            variant,
            [
                (degrees.index(each.setting.degree), each.bytes_a_second / 1e6)
                for each in tuning.figures
                if each.setting.variant == variant
            ],
        )
        for kind, variant in zip(_COLOURS, variants, strict=False)
    ]
    description = ", ".join(
        f"{each.setting} {each.bytes_a_second / 1e6:,.1f}" for each in tuning.figures
    )
    below = [f"degree {degree}" for degree in degrees]
    return section(
        title,
        keys(zip(_COLOURS, variants, strict=False)) if len(variants) > 1 else "",
        curves("rates", title, description, drawn, below, "{:,.4g}".format),
    )


def _time(tuning: Tuning) -> str:
    kinds = _kinds(tuning)
    rows = [
        (str(each.setting), _parts(each, kinds), f"{each.seconds:,.1f} s")
        for each in tuning.figures
    ]
    description = ", ".join(f"{label} {value}" for label, _, value in rows)
    note = (
        '<p class="note">Seconds of the clock, from the first partition on; divided as the time of '
        "all streams together was.</p>"
    )
    most = max(each.seconds for each in tuning.figures)
    shown = [name for name in kinds if name != _STEPS]
    marks = (
        legend(*shown)
        if _STEPS not in kinds
        else keys([*((CLASSES[name], name) for name in shown), ("lost", _STEPS)])
    )
    return section(
        "Where the time went",
        marks,
        bars("time", "Where the time went", description, rows, most),
        note,
    )


def _kinds(tuning: Tuning) -> tuple[str, ...]:
    copies = [each.typical for each in tuning.figures]
    paced = (PACED,) if any(copy.spent.paced for copy in copies) else ()
    steps = (_STEPS,) if any(copy.steps for copy in copies) else ()
    return ("waiting for source", "waiting for target", "moving", *paced, *steps)


def _parts(figures: Figures, kinds: tuple[str, ...]) -> list[Part]:
    copy = figures.typical
    spent = copy.spent
    streams = max(spent.total, 0.001)
    scale = figures.seconds / max(copy.seconds, 0.001)
    values = {
        "waiting for source": spent.source,
        "waiting for target": spent.target,
        "moving": spent.moving,
        PACED: spent.paced,
    }
    parts = {
        name: value / streams * (copy.seconds - copy.steps) * scale
        for name, value in values.items()
    } | {_STEPS: copy.steps * scale}
    return [
        (CLASSES.get(name, "lost"), f"{name} {parts[name]:,.2f} s", parts[name]) for name in kinds
    ]


def _cpu(tuning: Tuning) -> str:
    rows: list[tuple[str, list[Part], str]] = [
        (str(each.setting), [("moved", "CPU", each.cpu)], f"{each.cpu:,.1f} s")
        for each in tuning.figures
    ]
    description = ", ".join(f"{label} {value}" for label, _, value in rows)
    most = max(each.cpu for each in tuning.figures)
    note = (
        '<p class="note">Of all of Penstock\'s processes, their start included; what the servers '
        "use is not in it.</p>"
    )
    return section(
        "CPU of the mover", bars("cpu", "CPU of the mover", description, rows, most), note
    )


def _sessions(tuning: Tuning) -> str:
    rows: list[tuple[str, list[Part], str]] = []
    for each in tuning.figures:
        shares = by_kind(each)
        if any(shares.values()):
            parts = [
                (_SESSIONS[kind], f"{KINDS[kind]} {share:.0%}", share)
                for kind, share in shares.items()
            ]
            kind = max(shares, key=lambda kind: shares[kind])
            rows.append((str(each.setting), parts, f"{shares[kind]:.0%} {KINDS[kind]}"))
    title = "The target's sessions"
    if not rows:
        if not any(each.typical.waits.get("target") for each in tuning.figures):
            return ""
        note = "They are seen about once a second, and these copies were too short for that."
        return section(title, f'<p class="note">{note}</p>')
    description = ", ".join(f"{label} {value}" for label, _, value in rows)
    note = (
        '<p class="note">What they waited for, or computed, as seen about once a second. '
        "<em>Penstock</em>: they waited for rows to come.</p>"
    )
    legend_of_kinds = keys((_SESSIONS[kind], KINDS[kind]) for kind in _SESSIONS)
    return section(title, legend_of_kinds, bars("sessions", title, description, rows, 1.0), note)


def _remarks(tuning: Tuning) -> str:
    if not tuning.remarks:
        return ""
    items = "".join(f"<li>{prose(remark)}</li>" for remark in tuning.remarks)
    return section("Notes", f"<ul>{items}</ul>")
