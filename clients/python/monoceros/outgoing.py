"""Messages to be written to the callback stream: answers, the last heartbeat, and invalidations."""

from __future__ import annotations

import threading
from collections import deque
from typing import Deque, Iterator, Optional

from monoceros.callbacks import Invalidation
from monoceros.outbox import BATCH_BYTES
from monoceros.scope import Scope
from monoceros.v1 import callback_pb2 as callback

#: The most answers that wait to be written. Functions of the program are not called while there are as many.
_MOST = 16


class Outgoing:
    """The messages of all callback streams of a client, since an invalidation may be made before the stream is open."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._answers: Deque[callback.ShimMessage] = deque()
        self._beat: Optional[callback.ShimMessage] = None
        #: The unsent invalidations, joined in one message.
        self._invalidate: Optional[callback.Invalidate] = None
        #: Set when the present stream has carried an invalidation.
        self._has_invalidated = False

    def opened(self) -> None:
        """Begins a stream. If the one before carried an invalidation, that may not have arrived."""
        with self._condition:
            self._answers.clear()
            self._beat = None
            if self._has_invalidated:
                self._invalidate, self._has_invalidated = callback.Invalidate(all=True), False

    def wake(self) -> None:
        """Wakes all waiters, of which one may find that its scope is over."""
        with self._condition:
            self._condition.notify_all()

    def send(self, message: callback.ShimMessage, scope: Scope) -> None:
        """Queues an answer. It blocks while many are queued and the scope goes on."""
        with self._condition:
            while len(self._answers) >= _MOST and not scope.is_over:
                self._condition.wait()
            if not scope.is_over:
                self._answers.append(message)
                self._condition.notify_all()

    def beat(self, heartbeat: callback.Heartbeat) -> None:
        """Queues a heartbeat in place of one that is not written yet: only the last one matters."""
        with self._condition:
            self._beat = callback.ShimMessage(heartbeat=heartbeat)
            self._condition.notify_all()

    def invalidate(self, what: Invalidation) -> None:
        """Joins an invalidation with the unsent ones. More than a mebibyte of names counts as everything."""
        with self._condition:
            joined = self._invalidate or callback.Invalidate()
            joined.all = joined.all or what.all
            if not joined.all:
                joined.node_ids.extend(what.nodes)
                joined.allocation_keys.extend(what.allocations)
            if joined.all or joined.ByteSize() > BATCH_BYTES:
                joined = callback.Invalidate(all=True)
            self._invalidate = joined
            self._condition.notify_all()

    def messages(self, first: callback.ShimMessage, scope: Scope) -> Iterator[callback.ShimMessage]:
        """Returns the messages of a stream until the scope ends."""
        yield first
        while True:
            message = self._next(scope)
            if message is None:
                return
            yield message

    def _next(self, scope: Scope) -> Optional[callback.ShimMessage]:
        with self._condition:
            while not scope.is_over:
                message = self._take()
                if message is not None:
                    self._condition.notify_all()
                    return message
                self._condition.wait()
        return None

    def _take(self) -> Optional[callback.ShimMessage]:
        if self._beat is not None:
            message, self._beat = self._beat, None
            return message
        if self._invalidate is not None:
            message, self._invalidate = callback.ShimMessage(invalidate=self._invalidate), None
            self._has_invalidated = True
            return message
        return self._answers.popleft() if self._answers else None
