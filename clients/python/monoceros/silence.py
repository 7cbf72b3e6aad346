"""The silence of an owner: when a client in a cluster gives up the member that serves it.

In a cluster the owner of an RM sends something every 100 ms or so on the allocation stream. A member that stands still
keeps its connections open, so its silence is the only sign.

# What counts as silence
Only the time in which the client waits for a message of that stream, because until then messages may be unread. Time is
counted in ticks. A tick that is late counts as two at most: the client itself has stood still. It raises no alarm unless
the one before was late, too, because what the owner sent meanwhile may be unread. Any message of any stream of the
session ends a silence.

# The bound
Three times the mean distance of messages, and at least `LEAST`. It doubles with each alarm up to `MOST`, and falls back
once there was none for `QUIET`: a false alarm costs a report of the full state.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator, Optional

import grpc

from monoceros.clock import Clock
from monoceros.errors import SILENT, CallError
from monoceros.scope import Scope

#: The interval of ticks in seconds.
TICK = 0.05
#: The least and the largest bound of a silence in seconds.
LEAST, MOST = 0.3, 5.0
#: The time without an alarm after which the bound falls back, in seconds.
QUIET = 60.0
#: The number of distances over which the mean is taken, roughly.
_WEIGHT = 8


class Silence:
    """Counts the silence of the owner. It has no clock of its own: times are passed in, in seconds."""

    def __init__(self) -> None:
        #: True while streams with beats are open.
        self.is_counted = False
        self._mean = 0.0
        #: The silence up to the last tick or message.
        self._silent = 0.0
        #: The time of the last tick or message.
        self._at = 0.0
        #: True while the client waits for a message of the stream with beats.
        self._waits = False
        #: True if the last tick was late, and nothing has arrived since.
        self._was_late = False
        #: The alarms, of which each came within `QUIET` after the one before, and the time of the last.
        self._alarms = 0
        self._last_alarm = 0.0

    def begin(self, distance: float, now: float) -> None:
        """Begins with new streams, on which the owner has promised a message in each `distance`."""
        self.is_counted, self._mean, self._silent, self._at = True, min(distance, MOST), 0.0, now
        self._waits = self._was_late = False

    def end(self) -> None:
        """Ends with the streams."""
        self.is_counted = False

    def received(self, now: float) -> None:
        """Records a message of any stream."""
        self._advance(now)
        self._mean += (self._silent - self._mean) / _WEIGHT
        self._silent, self._was_late = 0.0, False

    def pauses(self, now: float) -> None:
        """Records that the client does not wait for a message of the stream with beats."""
        self._advance(now)
        self._waits = False

    def waits(self, now: float) -> None:
        """Records that the client waits for the next message of the stream with beats, and has read all before."""
        self._silent, self._at, self._waits = 0.0, now, True

    def bound(self) -> float:
        """Returns the silence that raises an alarm."""
        least = max(LEAST, 3 * self._mean)
        return min(least * 2.0 ** min(self._alarms, 8), MOST)

    def tick(self, now: float) -> Optional[float]:
        """Returns the silence if that is an alarm. After an alarm nothing is counted until `begin`."""
        if now - self._last_alarm >= QUIET:
            self._alarms = 0
        is_late = now - self._at > 2 * TICK
        may_have_unread = is_late and not self._was_late
        self._was_late = is_late
        self._advance(now)
        if not self.is_counted or not self._waits or may_have_unread or self._silent < self.bound():
            return None
        self.is_counted = False
        self._alarms += 1
        self._last_alarm = now
        return self._silent

    def _advance(self, now: float) -> None:
        if self._waits:
            self._silent += min(now - self._at, 2 * TICK)
        self._at = now


class Watch:
    """Watches the owner of a client for as long as the client lives. All methods may be called by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._silence = Silence()
        #: The time until which streams have to be open, while the client opens some.
        self._until: Optional[float] = None
        #: Set when nothing is to be watched any more, since the owner has promised nothing.
        self._is_over = False

    def reset(self) -> None:
        """Ends the watch of an earlier session."""
        with self._lock:
            self._silence.end()
            self._until, self._is_over = None, False

    @contextlib.contextmanager
    def opening(self, seconds: Optional[float]) -> Iterator[None]:
        """Limits the time in which the block opens streams, unless it is None."""
        self._until = None if seconds is None else self._clock.now() + seconds
        try:
            yield
        finally:
            self._until = None

    def begin(self, distance: float) -> None:
        """Begins to count. The owner has promised a message in each `distance` seconds, or nothing if that is zero."""
        with self._lock:
            self._is_over = not distance
            if distance:
                self._silence.begin(distance, self._clock.now())

    def received(self) -> None:
        """Records a message of any stream."""
        if self._silence.is_counted:
            with self._lock:
                self._silence.received(self._clock.now())

    def pauses(self) -> None:
        """Records that nobody waits for a message of the stream with beats."""
        if self._silence.is_counted:
            with self._lock:
                self._silence.pauses(self._clock.now())

    def waits(self) -> None:
        """Records that the next message of the stream with beats is waited for."""
        if self._silence.is_counted:
            with self._lock:
                self._silence.waits(self._clock.now())

    def run(self, scope: Scope) -> None:
        """Watches until the scope ends. An alarm is raised as a `CallError`."""
        while not self._is_over and not self._clock.wait(scope, TICK):
            now, until = self._clock.now(), self._until
            if until is not None and now >= until:
                raise _silent("the streams were not opened in time")
            with self._lock:
                silent = self._silence.tick(now)
            if silent is not None:
                raise _silent(f"nothing has arrived for {silent:.2f} s")


def _silent(text: str) -> CallError:
    return CallError("allocation stream", grpc.StatusCode.UNAVAILABLE, f"the scheduler is silent: {text}", SILENT)
