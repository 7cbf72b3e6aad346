"""A scope: a run of a client, or one set of streams in it, which ends once and for one reason."""

from __future__ import annotations

import threading
import time
from typing import Callable, List, Optional

#: The seconds after which a wait is begun again. Python does not run the handler of a signal that arrives just before the
#: main thread waits, or that another thread receives, until the wait is over.
_SIGNALS = 1.0


class Scope:
    """Ends once, together with the scopes inside it. Threads wait for the end, or are called at it.

    The locks are reentrant, so that a signal handler may end a scope for which its thread waits.
    """

    def __init__(self, parent: Optional[Scope] = None) -> None:
        self._condition = threading.Condition()
        self._over = False
        self._why: Optional[BaseException] = None
        self._calls: List[Callable[[], object]] = []
        self._parent = parent
        if parent is not None:
            parent.on_end(self.end)

    def end(self, why: Optional[BaseException] = None) -> None:
        """Ends the scope. The first reason counts; None is an end on request."""
        with self._condition:
            if self._over:
                return
            self._over, self._why = True, why
            calls, self._calls = self._calls, []
            self._condition.notify_all()
        if self._parent is not None:
            self._parent.forget(self.end)
        for call in calls:
            call()

    @property
    def is_over(self) -> bool:
        return self._over

    @property
    def why(self) -> Optional[BaseException]:
        """The reason of the end; None before it, and after an end on request."""
        return self._why

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits for the end. Returns False if the time was over first."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._condition:
            while not self._over:
                left = _SIGNALS if until is None else min(until - time.monotonic(), _SIGNALS)
                if left <= 0:
                    return False
                self._condition.wait(left)
        return True

    def on_end(self, call: Callable[[], object]) -> None:
        """Calls a function at the end; at once if that has passed."""
        with self._condition:
            if not self._over:
                self._calls.append(call)
                return
        call()

    def forget(self, call: Callable[[], object]) -> None:
        """Withdraws a function of `on_end`."""
        with self._condition:
            self._calls = [one for one in self._calls if one != call]
