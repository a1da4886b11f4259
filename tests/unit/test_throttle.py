"""Limits for streams: a rate, its division, and the brake for a lagging source."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.events import AUTOMATIC, LAG
from penstock.spec.degrees import Streams
from penstock.workers.pace import CATCH_UP, Pace
from penstock.workers.steering import Change, Steering
from penstock.workers.throttle import TRICKLE, LagBrake, RateShares, divide

MB = 1_000_000


class Clock:
    """A clock that advances only by pauses and by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class TestPace:
    @given(st.lists(st.integers(1, 50 * MB), min_size=1, max_size=30), st.integers(1, 1 << 40))
    def test_is_kept_for_blocks_of_any_size(self, blocks: list[int], rate: int) -> None:
        clock = Clock()
        pace = Pace(clock, clock.wait)
        pace.set(rate)
        for block in blocks:
            pace(block)
        took = clock.now - 100
        # Less than a byte causes no pause.
        assert took == pytest.approx(sum(blocks) / rate, rel=1e-6, abs=1e-6 + 1 / rate)
        assert pace.paused == pytest.approx(took)

    def test_a_slow_stream_is_not_delayed(self) -> None:
        clock = Clock()
        pace = Pace(clock, clock.wait)
        pace.set(10 * MB)
        for _ in range(10):
            clock.now += 1.0
            pace(5 * MB)
        assert clock.pauses == []
        assert pace.paused == 0

    def test_catching_up_is_limited(self) -> None:
        clock = Clock()
        pace = Pace(clock, clock.wait)
        pace.set(10 * MB)
        clock.now += 60
        pace(1 * MB)
        for _ in range(10):
            pace(1 * MB)
        assert clock.now - 160 == pytest.approx(1 - CATCH_UP)

    def test_bytes_without_a_rate_are_not_owed(self) -> None:
        clock = Clock()
        pace = Pace(clock, clock.wait)
        pace(1000 * MB)
        pace.set(10 * MB)
        pace(10 * MB)
        assert clock.pauses == [pytest.approx(1.0)]
        pace.set(None)
        pace(1000 * MB)
        assert len(clock.pauses) == 1

    def test_an_attempt_counts_its_own_pauses(self) -> None:
        clock = Clock()
        pace = Pace(clock, clock.wait)
        pace.set(10 * MB)
        pace(10 * MB)
        pace.begin()
        assert pace.paused == 0

    def test_a_pause_in_progress_counts(self) -> None:
        clock = Clock()
        pauses: list[float] = []

        def wait(seconds: float) -> None:
            clock.now += seconds / 2
            pauses.append(pace.paused)
            clock.now += seconds / 2

        pace = Pace(clock, wait)
        pace.set(10 * MB)
        pace(100 * MB)
        pace(20 * MB)
        assert pauses == [pytest.approx(5), pytest.approx(11)]
        assert pace.paused == pytest.approx(12)

    @pytest.mark.parametrize("rate", [None, 1 << 40])
    def test_another_rate_ends_a_pause(self, rate: float | None) -> None:
        pace = Pace()
        pace.set(1)
        changed = threading.Timer(0.05, lambda: pace.set(rate))
        changed.start()
        pace(1 << 30)  # years, unless the rate changes
        changed.join()
        assert pace.paused > 0

    def test_a_signal_ends_a_pause(self) -> None:
        class Cancelled(Exception):
            pass

        def cancel(*_: object) -> None:
            raise Cancelled

        before = signal.signal(signal.SIGUSR1, cancel)
        main = threading.main_thread().ident
        assert main is not None
        pace = Pace()
        pace.set(1)
        killer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGUSR1))
        killer.start()
        try:
            with pytest.raises(Cancelled):
                pace(1 << 30)
        finally:
            killer.join()
            signal.signal(signal.SIGUSR1, before)
        assert pace.paused > 0


rates = st.one_of(st.floats(0, 1e9), st.just(math.inf))


class TestDivide:
    @given(st.floats(1, 1e9), st.lists(rates, min_size=1, max_size=20))
    def test_gives_everything_and_a_share_to_each(self, rate: float, lately: list[float]) -> None:
        parts = divide(rate, lately)
        assert sum(parts) == pytest.approx(rate)
        assert min(parts) > 0

    def test_equal_streams_get_equal_shares(self) -> None:
        assert divide(90, [math.inf, 30, 28]) == [30, 30, 30]

    def test_an_unused_share_goes_to_the_others(self) -> None:
        slow, *others = divide(90, [2, 30, math.inf])
        assert slow == pytest.approx(3)
        assert others == [pytest.approx(43.5)] * 2

    def test_a_stream_that_had_to_wait_grows_again(self) -> None:
        shares = RateShares()
        shares.changes(0, 100.0, {1: 0, 2: 0})
        slow = shares.changes(1, 100.0, {1: 0, 2: 50})[1]
        assert slow is not None
        total, now = 0.0, 1.0
        while slow < 45:
            total += slow
            now += 1
            slow = shares.changes(now, 100.0, {1: int(total), 2: 10**6 * int(now)}).get(1, slow)
            assert slow is not None
            assert now < 30


class TestRateShares:
    def test_reports_only_changes(self) -> None:
        shares = RateShares()
        assert shares.changes(0, None, {1: 0, 2: 0}) == {}
        assert shares.changes(1, 100.0, {1: 0, 2: 0}) == {1: 50.0, 2: 50.0}
        assert shares.changes(1.5, 100.0, {1: 25, 2: 25}) == {}
        # A stream ends, another one begins.
        assert shares.changes(1.6, 100.0, {1: 30}) == {1: 100.0}
        assert shares.changes(1.7, 100.0, {1: 40, 3: 0}) == {1: 50.0, 3: 50.0}
        assert shares.changes(1.8, None, {1: 40, 3: 0}) == {1: None, 3: None}
        assert shares.changes(1.9, None, {1: 40, 3: 0}) == {}

    def test_a_returning_stream_is_informed_of_a_change(self) -> None:
        shares = RateShares()
        shares.changes(0, 100.0, {1: 0, 2: 0})
        shares.changes(1, None, {1: 50})
        assert shares.changes(2, None, {1: 90, 2: 50}) == {2: None}

    def test_a_new_stream_with_an_old_number_is_informed(self) -> None:
        shares = RateShares()
        assert shares.changes(0, 100.0, {1: 0}) == {1: 100.0}
        shares.forget(1)
        assert shares.changes(2, 100.0, {1: 0}) == {1: 100.0}


class TestLagBrake:
    def test_halves_until_no_partition_begins_and_then_releases(self) -> None:
        brake = LagBrake(30, "the source, a standby,", "hint")
        brake.note_rate(64 * MB)
        brake.see(10)
        assert (brake.streams(8), brake.rate(8)) == (8, None)
        seen = []
        for _ in range(7):
            brake.see(31)
            seen.append((brake.streams(8), brake.rate(8)))
        assert seen == [
            (4, 32 * MB), (2, 16 * MB), (1, 8 * MB), (1, 4 * MB), (1, 2 * MB),
            (0, 8 * TRICKLE), (0, 8 * TRICKLE),
        ]  # fmt: skip
        assert brake.why == (
            "the source, a standby, lags by 31.0 s (--max-lag 30s): no new partitions start; hint"
        )
        brake.see(25)  # barely below the limit
        assert brake.streams(8) == 0
        released = []
        for _ in range(7):
            brake.see(5)
            released.append(brake.streams(8))
        assert released == [1, 1, 1, 2, 4, 8, 8]
        assert brake.rate(8) is None

    def test_blocks_new_partitions_if_no_rows_have_moved(self) -> None:
        brake = LagBrake(30, "", "")
        brake.see(31)
        assert brake.streams(8) == 0
        brake.see(1)  # there is no rate to slow down to
        assert brake.streams(8) == 8
        assert brake.rate(8) is None

    def test_does_not_mistake_a_reduced_rate_for_the_possible_one(self) -> None:
        brake = LagBrake(30, "", "")
        brake.note_rate(64 * MB)
        brake.see(31)
        brake.note_rate(1 * MB)
        assert brake.rate(1) == 32 * MB


class KnownAnswers:
    """Answers about the servers that a test provides."""

    def __init__(self) -> None:
        self.lags: list[float] = []

    def crowd(self) -> tuple[Mapping[str, int], int | None] | None:
        return None

    def lag(self) -> float | None:
        return self.lags.pop(0) if self.lags else None


def steered(
    degree: Streams, max_rate: int | None, lags: list[float], seconds: int
) -> Iterator[tuple[int, Change]]:
    """Yield the changes, with the second of each."""
    brake, known = LagBrake(30, "it", "hint"), KnownAnswers()
    steering = Steering(degree, max_rate, brake, 0.0)
    steering.attach(known, 0.0)
    for second in range(seconds):
        known.lags = lags[second : second + 1]
        for change in steering.look(float(second), second * 10 * MB, steering.allowed):
            yield second, change


class TestSteering:
    def test_a_number_is_lowered_while_the_source_lags(self) -> None:
        lags = [0.0, 0.0, *[40.0] * 6, *[1.0] * 8]
        changes = list(steered(Streams(4, 4), None, lags, 16))
        assert [change.degree for _, change in changes] == [2, 1, 0, 1, 2, 4]
        assert {change.cause for _, change in changes} == {LAG}
        assert all(change.message.startswith("it lags by ") for _, change in changes)

    def test_measurements_under_a_brake_do_not_count(self) -> None:
        auto = Streams(2, 8, automatic=True)
        rates = list(steered(auto, None, [0.0, 0.0, 0.0, *[40.0] * 3, *[25.0] * 40], 43))
        assert {change.cause for _, change in rates} == {LAG}
        free = list(steered(auto, None, [0.0] * 43, 43))
        assert {change.cause for _, change in free} == {AUTOMATIC}

    def test_the_degree_stays_if_the_rate_is_the_limit(self) -> None:
        auto = Streams(2, 8, automatic=True)
        assert list(steered(auto, 10 * MB, [], 43)) == []
        assert list(steered(auto, 20 * MB, [], 43)) != []

    def test_the_lower_of_two_rates_applies(self) -> None:
        brake = LagBrake(30, "", "")
        steering = Steering(Streams(2, 2), 20 * MB, brake, 0.0)
        assert steering.rate(2) == 20 * MB
        brake.note_rate(30 * MB)
        brake.see(31)
        assert steering.rate(2) == 15 * MB

    def test_a_limit_set_while_the_source_lags_hides_no_change(self) -> None:
        brake, known = LagBrake(30, "it", "hint"), KnownAnswers()
        steering = Steering(Streams(4, 4), None, brake, 0.0)
        brake.see(40.0)
        steering.limit(2)
        steering.attach(known, 0.0)
        assert [change.degree for change in steering.look(0.1, 0, 0)] == [0]

    def test_without_a_throttle_there_is_no_rate(self) -> None:
        assert Steering(Streams(2, 2), None, None, time.monotonic()).rate(2) is None


def test_a_lower_share_is_reported_at_once() -> None:
    shares = RateShares()
    assert shares.changes(0.0, 100.0, {1: 0}) == {1: 100.0}
    assert shares.changes(0.1, 97.0, {1: 0}) == {1: 97.0}
    assert shares.changes(0.2, 100.0, {1: 0}) == {}
