"""The outbox: requests of the program, numbered, and kept until the scheduler acknowledges them.

# Invariants
* Requests have one order over all streams. A request gets its number when it is first sent, and the number never
  changes. After a break, all requests after the last acknowledged one are sent again.
* `sent` holds the requests numbered `taken + 1` and on, without a gap; `pending` those behind them. The last pending
  request takes further items until it is due.
* An item never joins a request that has one of a later stage, because the scheduler applies the items of a request by
  stage. Existing allocations and asks are never in one request, because an ask could get the capacity of the former.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Iterable, List, Optional, Tuple

from monoceros.errors import EndedError, WaitError
from monoceros.items import Item, Kind, Stage, add, new_request
from monoceros.scope import Scope

#: The most items in one request, including the allocations of its nodes.
BATCH_ITEMS = 1000
#: The most bytes of a request with several items.
BATCH_BYTES = 1 << 20
#: The time that an item waits for others to be joined with, in seconds.
BATCH_WAIT = 0.001
#: The most items sent and not acknowledged: fewer than the scheduler holds while an earlier request is missing (one
#: item per 4 KiB of session.ingress_bytes).
AHEAD_ITEMS = 16384
#: The same in bytes: less than session.ingress_bytes.
AHEAD_BYTES = 64 << 20


class Request:
    """A message, with its number once it has one (zero before)."""

    def __init__(self, kind: Kind, now: float) -> None:
        self.kind = kind
        self.message = new_request(kind)
        self.number = 0
        self.items = 0
        self.size = 0
        self.stage = Stage.NODE
        #: The time at which the request is sent, full or not.
        self.due = now + BATCH_WAIT
        #: Set when the request was acknowledged or dropped.
        self.is_over = False

    def takes(self, item: Item, most: int) -> bool:
        """Adds an item, if it may join. The first item always may."""
        if self.items:
            if self.kind is not item.kind or item.stage < self.stage:
                return False
            if self.items + item.count > BATCH_ITEMS or self.size + item.size > most:
                return False
            if self.kind is Kind.ALLOCATION and self.stage == Stage.EXISTING != item.stage:
                return False
        add(self.message, item.message)
        self.items += item.count
        self.size += item.size
        self.stage = item.stage
        return True


#: The last request of an outbox that has none.
_NOTHING = Request(Kind.NODE, 0.0)
_NOTHING.is_over = True


class Outbox:
    """See the head of this module. All methods may be called by any thread."""

    def __init__(self, limit: int, batch: int) -> None:
        self._condition = threading.Condition()
        self._limit = limit
        #: The most bytes of a request with several items.
        self._batch = batch
        self._taken = 0
        self._sent: List[Request] = []
        self._pending: List[Request] = []
        #: The number of items in `pending`.
        self._waiting = 0
        #: The number of items and bytes in `sent`.
        self._ahead = 0
        self._ahead_bytes = 0
        #: Set while the full state is being queued: then no call blocks.
        self._is_open = False
        #: Set once nothing is sent any more: the reason.
        self._ended: Optional[EndedError] = None

    def _wait(self, done: Callable[[], bool], until: Optional[float], what: str) -> None:
        """Waits until `done`, which is called with the lock held, returns True."""
        while True:
            if self._ended is not None:
                raise self._ended.again()
            if done():
                return
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise WaitError(what)
            self._condition.wait(left)

    def end(self, why: EndedError) -> None:
        """Ends the outbox. All calls raise the reason from now on."""
        with self._condition:
            self._ended = why
            self._condition.notify_all()

    def wake(self) -> None:
        """Wakes all waiters, of which one may find that its scope is over."""
        with self._condition:
            self._condition.notify_all()

    def add(self, item: Item, until: Optional[float] = None) -> None:
        """Queues an item. It blocks while too many are queued, until a time of the monotonic clock."""
        with self._condition:
            self._wait(
                lambda: self._waiting < self._limit or self._is_open, until, "the queue is full (Config.waiting)"
            )
            self._append(item, time.monotonic())
            if len(self._pending) == 1:
                self._condition.notify_all()

    def _append(self, item: Item, now: float) -> None:
        self._waiting += item.count
        if self._pending and self._pending[-1].takes(item, self._batch):
            return
        request = Request(item.kind, now)
        request.takes(item, self._batch)
        self._pending.append(request)

    def next(self, after: int, until: float, scope: Scope) -> Optional[Request]:
        """Returns the request after number `after` as soon as it is due. None if there is none by `until`, or at the
        end of the scope."""
        with self._condition:
            while not scope.is_over:
                now = time.monotonic()
                request, wait = self._poll(after, now)
                if request is not None or now >= until:
                    return request
                self._condition.wait(until - now if wait is None else min(until - now, wait))
        return None

    def poll(self, after: int, now: float) -> Optional[Request]:
        """Returns the request after number `after`, if it is due."""
        with self._condition:
            return self._poll(after, now)[0]

    def _poll(self, after: int, now: float) -> Tuple[Optional[Request], Optional[float]]:
        """Returns the request, or the seconds until it may be due if that is known."""
        # Requests acknowledged meanwhile need not be sent.
        at = max(after, self._taken) - self._taken
        if at < len(self._sent):
            return self._sent[at], None
        if not self._pending:
            return None, None
        request = self._pending[0]
        if self._ahead and (
            self._ahead + request.items > AHEAD_ITEMS or self._ahead_bytes + request.size > AHEAD_BYTES
        ):
            return None, None
        is_full = request.items >= BATCH_ITEMS or request.size >= self._batch
        if now < request.due and len(self._pending) == 1 and not is_full:
            return None, request.due - now
        del self._pending[0]
        was_crowded = self._waiting >= self._limit
        self._waiting -= request.items
        self._ahead += request.items
        self._ahead_bytes += request.size
        request.number = request.message.clientSeq = self._last() + 1
        self._sent.append(request)
        if was_crowded:
            self._condition.notify_all()
        return request, None

    def _last(self) -> int:
        """Returns the number of the newest request."""
        return self._taken + len(self._sent)

    def known(self) -> int:
        """Returns the number of the last acknowledged request."""
        with self._condition:
            return self._taken

    def took(self, number: int) -> bool:
        """Records that requests up to a number are acknowledged. Returns False for one that was never used."""
        with self._condition:
            if number > self._last():
                return False
            if number > self._taken:
                over = self._sent[: number - self._taken]
                del self._sent[: len(over)]
                for request in over:
                    self._ahead -= request.items
                    self._ahead_bytes -= request.size
                _forget(over)
                self._taken = number
                self._condition.notify_all()
            return True

    def flush(self, until: Optional[float] = None) -> None:
        """Waits until all items added before are acknowledged, or a new session begins."""
        with self._condition:
            last = (self._pending or self._sent or [_NOTHING])[-1]
            self._wait(lambda: last.is_over, until, "the scheduler has not acknowledged all items in time")

    def begin(self) -> None:
        """Drops all requests. Calls do not block until `proceed`."""
        with self._condition:
            _forget(self._sent)
            _forget(self._pending)
            self._taken, self._sent, self._pending, self._is_open = 0, [], [], True
            self._waiting = self._ahead = self._ahead_bytes = 0
            self._condition.notify_all()

    def attach(self, taken: int) -> None:
        """Continues the numbers of another instance, in place of `begin`. No request was sent before."""
        with self._condition:
            self._taken = taken

    def proceed(self, first: Iterable[Item]) -> None:
        """Puts items before those added since `begin`."""
        with self._condition:
            later, self._pending = self._pending, []
            now = time.monotonic()
            for item in first:
                self._append(item, now)
            self._pending += later
            self._is_open = False
            self._condition.notify_all()


def _forget(requests: List[Request]) -> None:
    """Marks requests that are not to be sent again."""
    for request in requests:
        request.is_over = True
