"""A lane of the callback stream: messages whose order matters, apart from those of other lanes."""

from __future__ import annotations

import threading
from collections import deque
from typing import Callable, Deque

from monoceros.scope import Scope
from monoceros.v1 import callback_pb2 as callback


class Lane:
    """A queue of messages, which one thread passes to a function of the program."""

    def __init__(self, most: int, scope: Scope) -> None:
        self._condition = threading.Condition()
        self._messages: Deque[callback.CoreMessage] = deque()
        self._most = most
        self._scope = scope
        scope.on_end(self._wake)

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def offer(self, message: callback.CoreMessage) -> bool:
        """Queues a message. Returns False if the queue is full."""
        with self._condition:
            if len(self._messages) >= self._most:
                return False
            self._messages.append(message)
            self._condition.notify_all()
            return True

    def put(self, message: callback.CoreMessage) -> None:
        """Queues a message. It blocks while the queue is full and the scope goes on."""
        with self._condition:
            while len(self._messages) >= self._most and not self._scope.is_over:
                self._condition.wait()
            self._messages.append(message)
            self._condition.notify_all()

    def run(self, handle: Callable[[callback.CoreMessage], None]) -> None:
        while True:
            with self._condition:
                while not self._messages and not self._scope.is_over:
                    self._condition.wait()
                if self._scope.is_over:
                    return
                message = self._messages.popleft()
                self._condition.notify_all()
            handle(message)
