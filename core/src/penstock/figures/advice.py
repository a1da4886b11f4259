"""One line of advice from the figures of a run. Pure: no I/O and no database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.backends.api.optional.pulse import LOCKS, LOG, STORAGE, WORKING
from penstock.figures.run_report import Outlier, TimeSpent

# Seconds: a shorter copy gets no advice.
SHORT = 5.0
# Shares of the streams' time, and of the sampled sessions.
BOUND, MOSTLY = 0.5, 0.3
# Share of the streams' working time that was lost in the tail.
TAIL = 0.1
# Seconds: a shorter partition spends most of its time on starting and ending.
TINY = 0.25
# Seconds of planning per table: above this, planning waited for answers or scanned the table.
FAR_AWAY = 0.1
MANY = 20
"""Recommended partitions per stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts that the advice is based on."""

    spent: TimeSpent | None
    copying: float
    """Seconds in which partitions were copied."""
    planning: float = 0.0
    """Seconds of planning before the partitions."""
    tables: int = 1
    """The number of planned tables."""
    cheaper_plan: str = ""
    """The option that partitions the table without scanning it, if planning did scan it."""
    steps: float = 0.0
    """Seconds of the steps after the partitions."""
    degree: int = 0
    """Concurrent streams allowed; 0 if unknown."""
    partitions: int = 0
    median: float = 0.0
    """Seconds of the median partition."""
    slow: Outlier | None = None
    """The partition that took far longer than the others, if any."""
    tail: float = 0.0
    idle: float = 0.0
    lost_seconds: float = 0.0
    """Seconds lost in failed attempts."""
    waits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The share of each kind of wait, by side."""
    deferrable: str = ""
    """The options that build indexes after the load, if they apply and are not set."""
    unlogged: str = ""
    """The options that load without a log, if they apply and are not set."""
    counts: bool = False
    """Whether the number of partitions is the requested one."""
    even: str = ""
    """The options that partition by counting rows, if bounds came from elsewhere."""


def advice(facts: RunFacts) -> str:
    """Return what was slow, in numbers, and which option may help; empty if nothing stands out."""
    if facts.planning + facts.copying + facts.steps < SHORT:
        return ""
    for rule in _RULES:
        if text := rule(facts):
            return text
    return ""


def _planning(facts: RunFacts) -> str:
    total = facts.planning + facts.copying + facts.steps
    if facts.planning <= max(facts.copying, MOSTLY * total):
        return ""
    each = facts.planning / facts.tables
    many = f" for {facts.tables:,} tables, {each * 1000:,.0f} ms each" if facts.tables > 1 else ""
    text = (
        f"{_percent(facts.planning, total)} of the time went into planning "
        f"({facts.planning:,.0f} s{many}), {facts.copying:,.0f} s into copying"
    )
    if facts.cheaper_plan:
        return f"{text}{_try(facts.cheaper_plan)}"
    if each > FAR_AWAY:
        return (
            f"{text}: run Penstock closer to both servers, since planning queries them for "
            "each table"
        )
    if facts.tables > 1:
        return f"{text}: leave out tables that need not be copied (--exclude)"
    return text


def _after_the_load(facts: RunFacts) -> str:
    if facts.steps <= facts.copying:
        return ""
    return (
        f"{_percent(facts.steps, facts.copying + facts.steps)} of the time went into the steps "
        f"after the load ({facts.steps:,.0f} s), {facts.copying:,.0f} s into copying"
    )


def _failures(facts: RunFacts) -> str:
    total = facts.spent.total if facts.spent else 0.0
    if facts.lost_seconds <= MOSTLY * (total + facts.lost_seconds):
        return ""
    smaller = f": try {_partitions(facts, 2)}, to lose less with each" if facts.counts else ""
    lost = facts.lost_seconds
    return (
        f"{_percent(lost, total + lost)} of the streams' time was lost to failed attempts "
        f"({lost:,.0f} s){smaller}"
    )


def _too_few(facts: RunFacts) -> str:
    if not 0 < facts.partitions < facts.degree:
        return ""
    text = (
        f"too few partitions: {facts.partitions} for {facts.degree} streams, so "
        f"{facts.degree - facts.partitions} had nothing to do"
    )
    return f"{text}: try --partitions {4 * facts.degree}" if facts.counts else text


def _tiny(facts: RunFacts) -> str:
    many = facts.partitions > MANY * max(1, facts.degree)
    if not many or not 0 < facts.median < TINY or not facts.counts:
        return ""
    return (
        f"too many partitions: {facts.partitions:,}, with a median of {facts.median:.2f} s, "
        f"mostly to begin and to commit: try --partitions {8 * max(1, facts.degree)}"
    )


def _skewed(facts: RunFacts) -> str:
    if facts.degree < 2 or facts.idle <= TAIL * facts.degree * facts.copying:
        return ""
    text = (
        f"for the last {facts.tail:,.1f} s, fewer than {facts.degree} streams were at work, which "
        f"wasted {_percent(facts.idle, facts.degree * facts.copying)} of the streams' time"
    )
    if facts.slow is None:
        more = facts.counts and facts.partitions < 4 * facts.degree
        return f"{text}: try {_partitions(facts, 4)}" if more else text
    slow = facts.slow
    text = (
        f"skewed: {slow.partition_id} took {slow.value:,.1f} s, {slow.times:.1f} times the median; "
        f"{text}"
    )
    ways = [facts.even, _partitions(facts, 4) if facts.counts else ""]
    return f"{text}{_try(*ways)}"


def _target(facts: RunFacts) -> str:
    text, kind = _bound(facts, "target")
    if not text:
        return ""
    fewer = f"--degree {facts.degree // 2}" if facts.degree > 1 else ""
    ways = {
        LOG: (facts.unlogged, facts.deferrable),
        LOCKS: (fewer,),
        STORAGE: (facts.deferrable, facts.unlogged),
        WORKING: (facts.deferrable,),
    }
    return f"{text}{_try(*ways.get(kind, (facts.deferrable, facts.unlogged)))}"


def _source(facts: RunFacts) -> str:
    return _bound(facts, "source")[0]


_DOING = {
    LOG: "waiting for its log (WAL)",
    LOCKS: "waiting for each other's locks",
    STORAGE: "waiting for its files",
    WORKING: "computing",
}


def _bound(facts: RunFacts, side: str) -> tuple[str, str]:
    """Return a sentence if a copy mostly waits for a side, and the kind of its sessions' waits.

    Each is empty if it does not stand out.
    """
    spent = facts.spent
    waited = getattr(spent, side, 0.0)
    if spent is None or waited <= BOUND * spent.total:
        return "", ""
    text = f"{side}-bound: {_percent(waited, spent.total)} of the time was spent waiting for it"
    kinds = facts.waits.get(side, {})
    most = max(kinds, key=lambda kind: kinds[kind], default="")
    if most not in _DOING or kinds[most] < MOSTLY:
        return text, ""
    return f"{text}, with {kinds[most]:.0%} of its sessions {_DOING[most]}", most


def _paced(facts: RunFacts) -> str:
    spent = facts.spent
    if spent is None or spent.paced <= BOUND * spent.total:
        return ""
    return (
        f"held back: {_percent(spent.paced, spent.total)} of the time was spent keeping to a "
        "rate (--max-rate or --max-lag)"
    )


def _mover(facts: RunFacts) -> str:
    spent = facts.spent
    if spent is None or spent.moving <= BOUND * spent.total:
        return ""
    return (
        f"mover-bound: {_percent(spent.moving, spent.total)} of the time was spent on Penstock's "
        "own work, not waiting for a server: use a machine with more or faster CPUs"
    )


_RULES: tuple[Callable[[RunFacts], str], ...] = (
    _planning,
    _after_the_load,
    _failures,
    _too_few,
    _skewed,
    _tiny,
    _paced,
    _target,
    _source,
    _mover,
)


def _percent(part: float, total: float) -> str:
    return f"{part / total:.0%}"


def _partitions(facts: RunFacts, times: int) -> str:
    return f"--partitions {max(times * facts.partitions, times * facts.degree)}"


def _try(*ways: str) -> str:
    options = [way for way in ways if way]
    return f": try {' or '.join(options)}" if options else ""
