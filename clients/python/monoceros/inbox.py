"""The inbox: received messages, passed to the program one at a time, in the order of each stream.

A message counts as received when it is in the queue, which outlives streams. It is acknowledged when the program has
handled it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Deque, Dict, Optional, Tuple

from monoceros.items import AnyReply, Kind
from monoceros.scope import Scope
from monoceros.si.v1 import types_pb2 as si

#: The most messages in the queue. The streams are not read while it is full.
_MOST = 256


class Handler:
    """Receives the scheduler's answers and decisions; a program overrides what it needs.

    One method is called at a time, in the order of each stream, and the message is acknowledged when the method
    returns. An exception ends `Client.run`, which raises it; the message is not acknowledged. After a restart of the
    scheduler or of the program, messages may be repeated: an existing node or application is rejected with
    R_NODE_EXISTS or R_APP_EXISTS, and running allocations are repeated in `new`. Handling a message twice must change
    nothing. A method must not wait for a session (`Client.wait_registered`, `Client.deregister`), because a new session
    waits for the methods.

    An item of the state that is larger than `Config.max_message` is rejected here, too, by the client itself: the
    reason ends in [C_TOO_LARGE].
    """

    def nodes(self, message: si.NodeResponse) -> None:
        """Receives answers about nodes."""

    def applications(self, message: si.ApplicationResponse) -> None:
        """Receives answers about applications, and their states."""

    def allocations(self, message: si.AllocationResponse) -> None:
        """Receives allocations, releases and rejections."""


class Inbox:
    """See the head of this module."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._condition = threading.Condition()
        #: Received messages with the kind of their stream and their number; zero for one made by the client.
        self._queue: Deque[Tuple[Kind, int, AnyReply]] = deque()
        #: Whether the handler has a message of the queue.
        self._is_busy = False
        self._received: Dict[Kind, int] = dict.fromkeys(Kind, 0)
        self._handled: Dict[Kind, int] = dict.fromkeys(Kind, 0)

    def wake(self) -> None:
        """Wakes all waiters, of which one may find that its scope is over."""
        with self._condition:
            self._condition.notify_all()

    def run(self, scope: Scope) -> None:
        """Passes messages to the handler until the scope ends. An exception of the handler ends the scope."""
        while True:
            with self._condition:
                while not self._queue and not scope.is_over:
                    self._condition.wait()
                if scope.is_over:
                    return
                kind, seq, message = self._queue.popleft()
                self._is_busy = True
                self._condition.notify_all()
            try:
                self._handle(message)
            except BaseException as error:
                scope.end(error)
                return
            with self._condition:
                self._is_busy = False
                if seq:
                    self._handled[kind] = seq
                self._condition.notify_all()

    def _handle(self, message: AnyReply) -> None:
        if isinstance(message, si.NodeResponse):
            self._handler.nodes(message)
        elif isinstance(message, si.ApplicationResponse):
            self._handler.applications(message)
        else:
            self._handler.allocations(message)

    def put(self, kind: Kind, seq: int, message: AnyReply, scope: Scope) -> None:
        """Queues a message, unless it was received before. It blocks while the queue is full and the scope goes on."""
        with self._condition:
            if seq and seq <= self._received[kind]:
                return
            while len(self._queue) >= _MOST and not scope.is_over:
                self._condition.wait()
            if scope.is_over:
                return
            self._queue.append((kind, seq, message))
            if seq:
                self._received[kind] = seq
            self._condition.notify_all()

    def resume(self, kind: Kind) -> int:
        """Returns the number of the last received message, after which a stream continues."""
        with self._condition:
            return self._received[kind]

    def acknowledged(self, kind: Kind) -> int:
        """Returns the number up to which messages were handled."""
        with self._condition:
            return self._handled[kind]

    def drop(self) -> None:
        """Drops the messages that the handler has not received yet."""
        with self._condition:
            self._queue.clear()
            self._condition.notify_all()

    def begin(self, scope: Scope) -> None:
        """Waits until all messages of the earlier session were handled, and restarts the numbers."""
        with self._condition:
            while (self._queue or self._is_busy) and not scope.is_over:
                self._condition.wait()
            self._received = dict.fromkeys(Kind, 0)
            self._handled = dict.fromkeys(Kind, 0)
