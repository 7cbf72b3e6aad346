"""The time by which the client pauses, limits calls and counts silence. Tests replace it."""

from __future__ import annotations

import time

from monoceros.scope import Scope


class Clock:
    """The clock of the machine that no adjustment of the date changes, in seconds."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, scope: Scope, seconds: float) -> bool:
        """Waits for the end of a scope. Returns False if the time was over first."""
        return scope.wait(seconds)
