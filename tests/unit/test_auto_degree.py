"""The number of streams that the automatic degree settles on, with simulated servers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from penstock.backends.api.optional.pulse import LOCKS, LOG, MOVER, WORKING
from penstock.spec.degrees import Streams
from penstock.workers.auto_degree import FIRST, AutoDegree

MB = 1e6
STEP = 0.1
REPORT = 0.5
STREAMS = Streams(4, 32, automatic=True)


def with_key(streams: int, seconds: float) -> float:
    """Return a rate as measured with a primary key in the target: best at 8, slower at 16."""
    known = {1: 20, 2: 35, 3: 46, 4: 55, 5: 61, 6: 66, 7: 69, 8: 70}
    return MB * max(10.0, known.get(streams, 70 - 2.2 * (streams - 8)))


def unlogged(streams: int, seconds: float) -> float:
    """Return a rate that rises with every stream."""
    return MB * 8 * math.pow(streams, 0.85)


def saturated(streams: int, seconds: float) -> float:
    """Return a rate that one stream reaches alone."""
    return MB * 100


def lock_bound_later(streams: int, seconds: float) -> float:
    """Return a rate that falls after a minute if there are more than 3 streams."""
    if seconds < 60:
        return with_key(streams, seconds)
    return MB * 30 * math.exp(-max(0, streams - 3) / 6)


def lock_bound_meanwhile(streams: int, seconds: float) -> float:
    return lock_bound_later(streams, seconds) if seconds < 120 else with_key(streams, seconds)


def waits_for_locks(streams: int, seconds: float) -> Mapping[str, int]:
    if 60 <= seconds < 120 and streams > 3:
        return {LOCKS: streams - 2, LOG: 1, WORKING: 1, MOVER: 2}
    return {WORKING: max(1, streams - 2), MOVER: 2}


@dataclass
class Server:
    """Streams that share a rate, and report their progress twice a second at random moments."""

    rate: Callable[[int, float], float]
    noise: float = 0.03
    seed: int = 0
    waits: Callable[[int, float], Mapping[str, int]] | None = None
    room: int | None = None
    busy: int = 1000
    """No more streams than this have a partition."""
    degrees: list[int] = field(default_factory=list)
    """By step."""
    reasons: list[str] = field(default_factory=list)

    def run(self, seconds: float, streams: Streams = STREAMS) -> float:
        """Return the amount moved, relative to that of the best number of streams."""
        chance = random.Random(self.seed)
        auto = AutoDegree(streams, 0.0)
        actual, reported = [0.0] * streams.most, [0.0] * streams.most
        due = [chance.random() * REPORT for _ in actual]
        best = now = 0.0
        luck = 1.0
        for step in range(int(seconds / STEP)):
            count = min(auto.degree, self.busy)
            if step % 10 == 0:
                luck = max(0.1, chance.gauss(1, self.noise))
            for stream in range(count):
                jitter = max(0.0, chance.gauss(1, 0.1))
                actual[stream] += self.rate(count, now) / count * STEP * luck * jitter
            best += STEP * max(self.rate(n, now) for n in range(1, streams.most + 1))
            now += STEP
            for stream in range(count):
                if now >= due[stream]:
                    due[stream] = now + REPORT
                    reported[stream] = actual[stream]
            if step % 10 == 0 and (self.waits or self.room is not None):
                kinds = self.waits(count, now) if self.waits else {}
                room = None if self.room is None else self.room - auto.degree
                auto.see(kinds, room)
            if auto.look(now, int(sum(reported)), count):
                self.reasons.append(f"{auto.degree}: {auto.reason}")
            self.degrees.append(auto.degree)
        return sum(actual) / best

    def usual_at(self, seconds: float) -> float:
        """Return the median number of streams in the half minute before a moment."""
        end = int(seconds / STEP)
        recent = sorted(self.degrees[end - int(30 / STEP) : end])
        return recent[len(recent) // 2]


SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_finds_the_best_degree_with_a_key_and_stays_near_it(seed: int) -> None:
    server = Server(with_key, seed=seed)
    assert server.run(180) > 0.93
    assert 5 <= server.usual_at(60) <= 10
    assert 5 <= server.usual_at(180) <= 10
    assert max(server.degrees) <= 16  # it has turned back at degrees that were slower


@pytest.mark.parametrize("seed", SEEDS)
def test_it_uses_all_streams_if_more_are_better(seed: int) -> None:
    server = Server(unlogged, seed=seed)
    assert server.run(120) > 0.8
    assert server.degrees.index(STREAMS.most) < 60 / STEP
    assert server.usual_at(120) >= 0.85 * STREAMS.most


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rate", "least"), [(with_key, 0.75), (unlogged, 0.6)])
def test_a_noisy_server_does_not_mislead_it(
    rate: Callable[[int, float], float], least: float, seed: int
) -> None:
    assert Server(rate, noise=0.2, seed=seed).run(120) > least


@pytest.mark.parametrize("seed", SEEDS)
def test_it_uses_few_streams_if_more_gain_nothing(seed: int) -> None:
    server = Server(saturated, noise=0.01, seed=seed)
    assert server.run(180) > 0.98
    assert server.usual_at(180) <= STREAMS.usual


@pytest.mark.parametrize("seed", SEEDS)
def test_it_backs_off_if_the_target_becomes_lock_bound(seed: int) -> None:
    server = Server(lock_bound_later, seed=seed, waits=waits_for_locks)
    server.run(120)
    assert min(server.degrees[int(60 / STEP) : int(90 / STEP)]) <= 4
    assert server.usual_at(120) <= 4
    assert any("target's sessions wait for" in reason for reason in server.reasons)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_backs_off_even_if_waits_are_unknown(seed: int) -> None:
    server = Server(lock_bound_later, seed=seed)
    server.run(180)
    assert server.usual_at(180) <= 4


@pytest.mark.parametrize("seed", SEEDS)
def test_it_climbs_again_after_a_lock_bound_phase(seed: int) -> None:
    server = Server(lock_bound_meanwhile, seed=seed, waits=waits_for_locks)
    server.run(300)
    assert server.usual_at(120) <= 4
    assert 5 <= server.usual_at(300) <= 11


def test_it_starts_low_and_reaches_one_stream_per_cpu_within_a_second() -> None:
    server = Server(unlogged)
    server.run(2, Streams(16, 64, automatic=True))
    assert server.degrees[0] == FIRST
    assert server.degrees[int(1 / STEP)] == 16


def test_it_stays_at_one_stream_per_cpu_until_it_has_measured() -> None:
    server = Server(unlogged)
    server.run(4)
    assert server.degrees[-1] == STREAMS.usual


def test_one_partition_needs_one_stream() -> None:
    server = Server(saturated)
    server.run(60, Streams(4, 32, automatic=True).limited(1))
    assert set(server.degrees) == {1}


def test_it_leaves_connections_to_others() -> None:
    server = Server(unlogged, room=12)
    server.run(120)
    assert max(server.degrees) == 12 - 3


def test_it_stays_below_a_number_that_a_server_has_rejected() -> None:
    auto = AutoDegree(STREAMS, 0.0)
    total = 0.0
    for step in range(2000):
        if step == 300:
            auto.limit(5)
        total += STEP * unlogged(auto.degree, 0)
        auto.look(step * STEP, int(total), auto.degree)
        assert step < 300 or auto.degree <= 5
    assert auto.degree == 5


def test_it_draws_no_conclusion_from_idle_streams() -> None:
    server = Server(unlogged, busy=3)
    server.run(120)
    assert server.degrees[-1] == STREAMS.usual


def test_it_draws_no_conclusion_while_no_rows_move() -> None:
    server = Server(lambda streams, seconds: 0.0001, waits=lambda n, s: {LOCKS: n})
    server.run(120)
    assert server.degrees[-1] == STREAMS.usual


def test_it_does_not_wait_indefinitely_for_long_partitions() -> None:
    auto = AutoDegree(Streams(4, 8, automatic=True), 0.0)
    busy, total = 0, 0.0
    fewer = 0
    for step in range(int(300 / STEP)):
        busy = max(busy, auto.degree)
        total += STEP * with_key(busy, 0)
        if auto.look(step * STEP, int(total), busy) and auto.degree == 8:
            reason = auto.reason
        fewer += busy == 8 and auto.degree < 8
    assert reason == "partitions take too long to try fewer streams"
    assert 0 < fewer * STEP < 150  # 20 s for each try
