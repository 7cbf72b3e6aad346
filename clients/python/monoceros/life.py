"""The phase of a client. `run` writes it; the calls that wait for a session or end the client read it."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Iterator, Optional

from monoceros.errors import EndedError, RunningError, WaitError
from monoceros.scope import Scope


class Life:
    """See the head of this module."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        #: The scope of the run; None before `run` is called.
        self._scope: Optional[Scope] = None
        #: Set once the client has ended.
        self._ended: Optional[EndedError] = None
        #: The number of the session; zero while there is none.
        self._session = 0
        #: The reason why the last attempt to connect failed; None once streams were open after it.
        self._last: Optional[BaseException] = None
        #: True if a cluster has given the last session.
        self.is_in_cluster = False
        #: True from a call of `deregister` on, unless the scheduler has refused it.
        self._is_leaving = False
        #: The number of running calls of `deregister`, which try again with another session.
        self._deregisters = 0
        #: Set when the session was found to be over while leaving.
        self._has_left = False

    def start(self) -> Scope:
        """Records the call of `run`, and returns its scope."""
        with self._condition:
            if self._ended is not None:
                raise self._ended.again()
            if self._scope is not None:
                raise RunningError("run was called before; a client runs once")
            self._scope = Scope()
            return self._scope

    def end(self, why: Optional[BaseException]) -> EndedError:
        """Records the end of the client, and returns the error of all later calls."""
        with self._condition:
            text = "the client has ended"
            self._ended = EndedError(text if why is None else f"{text}: {why}")
            self._ended.__cause__ = why
            self._session = 0
            self._condition.notify_all()
            return self._ended

    def check(self) -> None:
        """Raises the error of calls after the end of the client."""
        if self._ended is not None:
            raise self._ended.again()

    def stop(self) -> bool:
        """Ends the run on request. Returns False if `run` was never called and the client has not ended."""
        with self._condition:
            scope = self._scope
        if scope is not None:
            scope.end()
        return scope is not None or self._ended is not None

    def registered(self, session: int, is_in_cluster: bool) -> None:
        with self._condition:
            self._session, self.is_in_cluster = session, is_in_cluster
            self._condition.notify_all()

    def connected(self) -> None:
        """Records that the streams are open."""
        self._last = None

    def broke(self, why: BaseException) -> None:
        """Records why the streams ended, or could not be opened."""
        self._last = why

    def leave(self, is_leaving: bool) -> None:
        """Records whether the client is about to deregister."""
        self._is_leaving = is_leaving

    @contextlib.contextmanager
    def deregistering(self) -> Iterator[None]:
        """Counts the block as a running call of `deregister`."""
        with self._condition:
            self._deregisters += 1
        try:
            yield
        finally:
            with self._condition:
                self._deregisters -= 1

    def gone(self, is_over: bool = True) -> bool:
        """Records that the client has no session. Returns whether `deregister` wanted that, so that the client does not
        register again. `is_over` is False if the scheduler may keep the session; the client registers again then if
        `deregister` is going to try with the next session."""
        with self._condition:
            self._session = 0
            self._has_left = self._is_leaving and is_over
            return self._is_leaving and (is_over or not self._deregisters)

    @property
    def has_left(self) -> bool:
        """Whether the run has ended because the session was deregistered."""
        return self._has_left

    def wait(self, timeout: Optional[float]) -> int:
        """Returns the number of the session as soon as there is one."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while True:
                self.check()
                if self._session:
                    return self._session
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._condition.wait(left)
            text = "the client is not registered" if self._scope else "run was not called yet"
            text += f" after {timeout} s"
            raise WaitError(f"{text}: {self._last}" if self._last else text) from self._last
