"""The silence of an owner, on times that the tests choose."""

from __future__ import annotations

import random
import unittest
from typing import Optional

from monoceros.silence import LEAST, MOST, QUIET, TICK, Silence

DISTANCE = 0.1


class Bench:
    """A client whose timer fires on time, and which waits for messages."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.silence = Silence()
        self.begin()

    def begin(self, distance: float = DISTANCE) -> None:
        self.silence.begin(distance, self.now)
        self.silence.waits(self.now)

    def ticks(self, seconds: float) -> Optional[float]:
        """Lets time pass. Returns the silence at an alarm."""
        end = self.now + seconds
        while self.now + TICK <= end:
            self.now += TICK
            silent = self.silence.tick(self.now)
            if silent is not None:
                return silent
        self.now = end
        return None

    def message(self) -> None:
        self.silence.received(self.now)
        self.silence.pauses(self.now)
        self.silence.waits(self.now)

    def stands_still(self, seconds: float) -> Optional[float]:
        """The client itself does nothing; its timer fires late."""
        self.now += seconds
        return self.silence.tick(self.now)

    def until_alarm(self) -> float:
        """Returns the time until the alarm about an owner that sends nothing more."""
        began = self.now
        assert self.ticks(3 * MOST) is not None, "no alarm"
        return self.now - began


class Silences(unittest.TestCase):
    def test_each_course_has_its_alarm(self) -> None:
        for name, distances, expected in (
            ("beats", [0.1] * 20, 0.3),
            ("a burst", [0.0] * 500, 0.3),
            ("slow beats", [0.25] * 60, 0.75),
            ("one late message", [0.1] * 20 + [0.28], 0.4),
        ):
            bench = Bench()
            for distance in distances:
                self.assertIsNone(bench.ticks(distance), name)
                bench.message()
            self.assertAlmostEqual(bench.until_alarm(), expected, delta=2 * TICK + 0.001, msg=name)

    def test_the_bound_doubles_with_each_alarm_and_falls_back(self) -> None:
        bench = Bench()
        bounds = []
        for _ in range(6):
            bounds.append(bench.until_alarm())
            self.assertIsNone(bench.ticks(1.0), "nothing is counted between sessions")
            bench.begin()
        for seen, expected in zip(bounds, (0.3, 0.6, 1.2, 2.4, 4.8, 5.0)):
            self.assertAlmostEqual(seen, expected, delta=TICK + 0.001)
        for _ in range(int(QUIET / DISTANCE) + 1):
            self.assertIsNone(bench.ticks(DISTANCE))
            bench.message()
        self.assertAlmostEqual(bench.until_alarm(), LEAST, delta=2 * TICK + 0.001)

    def test_time_without_a_wait_for_messages_does_not_count(self) -> None:
        bench = Bench()
        bench.ticks(0.2)
        bench.silence.received(bench.now)
        bench.silence.pauses(bench.now)
        # The handler is slow, and the queue of messages full.
        self.assertIsNone(bench.ticks(60.0))
        bench.silence.waits(bench.now)
        self.assertAlmostEqual(bench.until_alarm(), LEAST, delta=2 * TICK)

    def test_streams_without_beats_are_not_counted(self) -> None:
        bench = Bench()
        bench.silence.end()
        self.assertIsNone(bench.ticks(600.0))

    def test_a_late_tick_raises_no_alarm_by_itself(self) -> None:
        bench = Bench()
        bench.ticks(0.25)
        self.assertIsNone(bench.stands_still(10.0))
        bench.message()
        self.assertIsNone(bench.ticks(0.2))
        self.assertIsNone(bench.stands_still(10.0))
        self.assertIsNotNone(bench.ticks(3 * TICK), "nothing has arrived after the pause")


    def test_a_client_whose_ticks_are_always_late_notices_a_silence(self) -> None:
        bench = Bench()
        seen = [bench.stands_still(0.2) for _ in range(3)]
        self.assertEqual(seen[:2], [None, None])
        self.assertAlmostEqual(seen[2] or 0.0, LEAST)
        bench.begin()
        for _ in range(20):
            self.assertIsNone(bench.stands_still(9.0), "what was sent meanwhile is unread")
            bench.message()


class Properties(unittest.TestCase):
    """The same for courses made by dice."""

    def test_messages_in_time_are_no_alarm(self) -> None:
        for seed in range(200):
            dice, bench = random.Random(seed), Bench()
            for _ in range(dice.randrange(200)):
                self.assertIsNone(bench.ticks(dice.uniform(0.0, LEAST - TICK)), seed)
                bench.message()

    def test_a_silent_owner_is_noticed_in_time(self) -> None:
        for seed in range(200):
            dice, bench = random.Random(seed), Bench()
            for _ in range(dice.randrange(200)):
                bench.ticks(dice.uniform(0.0, 0.15))
                bench.message()
            alarm = bench.until_alarm()
            self.assertGreaterEqual(alarm, LEAST - 2 * TICK, seed)
            self.assertLessEqual(alarm, 0.45 + 2 * TICK, seed)

    def test_pauses_of_the_client_are_no_alarm(self) -> None:
        for seed in range(200):
            dice, bench = random.Random(seed), Bench()
            for _ in range(dice.randrange(50)):
                self.assertIsNone(bench.ticks(dice.uniform(0.0, 0.15)), seed)
                self.assertIsNone(bench.stands_still(dice.uniform(3 * TICK, 100.0)), seed)
                bench.message()

    def test_the_bound_stays_within_its_limits(self) -> None:
        for seed in range(200):
            dice, bench = random.Random(seed), Bench()
            for _ in range(dice.randrange(60)):
                silent = bench.ticks(dice.uniform(0.0, 10.0))
                if silent is not None:
                    self.assertTrue(LEAST - 0.001 <= silent <= MOST + 2 * TICK, (seed, silent))
                    bench.begin(dice.uniform(0.0, 20.0))
                elif dice.randrange(2):
                    bench.message()
                self.assertTrue(LEAST <= bench.silence.bound() <= MOST, seed)
