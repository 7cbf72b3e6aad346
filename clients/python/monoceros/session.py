"""The open streams of a session, and the threads that serve them."""

from __future__ import annotations

import functools
import queue
import threading
import time
from typing import Any, Callable, Dict, Iterator, List

import grpc

from monoceros.calls import Metadata, Stream, call_error, ends, first
from monoceros.errors import OldSchedulerError, VoidSessionError, bare
from monoceros.inbox import Inbox
from monoceros.items import AnyReply, Kind, new_request
from monoceros.outbox import Outbox
from monoceros.scope import Scope
from monoceros.si.v1 import scheduler_pb2_grpc
from monoceros.silence import Watch

#: The interval between acknowledgements of messages that were handled, in seconds.
ACK_EVERY = 0.1


class Session:
    """The end of one stream ends the others; its reason is that of the scope."""

    def __init__(self, scope: Scope, outbox: Outbox, inbox: Inbox, watch: Watch) -> None:
        self.scope = Scope(scope)
        self._outbox = outbox
        self._inbox = inbox
        self._watch = watch
        self._calls: Dict[Kind, Stream[AnyReply]] = {}
        self._requests: Dict[Kind, queue.SimpleQueue[Any]] = {}
        self._threads: List[threading.Thread] = []
        self.scope.on_end(outbox.wake)
        self.scope.on_end(inbox.wake)

    def task(self, run: Callable[[], None]) -> None:
        """Runs a function in a thread of the session. Its exception ends the session."""

        def body() -> None:
            try:
                run()
            except BaseException as error:
                self.scope.end(bare(error))

        thread = threading.Thread(target=body, name="monoceros-session", daemon=True)
        self._threads.append(thread)
        thread.start()

    def open(self, channel: grpc.Channel, metadata: Callable[[Kind], Metadata]) -> None:
        """Opens the streams, and waits until the scheduler has answered on each. `serve` has to follow."""
        stub = scheduler_pb2_grpc.SchedulerStub(channel)
        self._calls[Kind.NODE] = stub.UpdateNode(self._requests_of(Kind.NODE), metadata=metadata(Kind.NODE))
        self._calls[Kind.APPLICATION] = stub.UpdateApplication(
            self._requests_of(Kind.APPLICATION), metadata=metadata(Kind.APPLICATION)
        )
        self._calls[Kind.ALLOCATION] = stub.UpdateAllocation(
            self._requests_of(Kind.ALLOCATION), metadata=metadata(Kind.ALLOCATION)
        )
        for call in self._calls.values():
            self.scope.on_end(call.cancel)
        for kind, call in self._calls.items():
            self._opened(kind, call)

    def beat(self) -> float:
        """Returns the seconds within which the scheduler sends something on the stream of allocations; zero if it has
        promised nothing."""
        promised = first(self._calls[Kind.ALLOCATION].initial_metadata(), "x-si-beat")
        return int(promised) / 1000 if promised.isdigit() else 0.0

    def serve(self) -> None:
        """Begins to receive and to send."""
        for kind, call in self._calls.items():
            self.task(functools.partial(self._receive, kind, call))
        self.task(self._send)

    def _requests_of(self, kind: Kind) -> Iterator[Any]:
        """Returns the requests of a stream as they are queued. gRPC reads them in a thread of its own, which has to end
        with the stream."""
        requests = self._requests[kind] = queue.SimpleQueue()
        self.scope.on_end(functools.partial(requests.put, None))
        return iter(requests.get, None)

    def _opened(self, kind: Kind, call: Stream[AnyReply]) -> None:
        """Reads the headers of a stream, which have the number of the last acknowledged request."""
        headers = call.initial_metadata()
        taken = first(headers, "x-si-taken-seq")
        if taken.isdigit():
            self._took(int(taken))
            return
        if headers:
            raise OldSchedulerError
        # The stream ends without headers. Its status, for which this waits, says why.
        end = call_error(kind.stream, call)
        if end.reason == "SEQUENCE_GAP":
            # The scheduler has lost requests that it had acknowledged.
            raise VoidSessionError from end
        raise end

    def _took(self, number: int) -> None:
        if not self._outbox.took(number):
            raise VoidSessionError

    def _receive(self, kind: Kind, call: Stream[AnyReply]) -> None:
        """Reads one stream, and queues its messages for the handler."""
        has_beats = kind is Kind.ALLOCATION
        with ends():
            if has_beats:
                self._watch.waits()
            for reply in call:
                self._watch.received()
                if has_beats:
                    self._watch.pauses()
                self._took(reply.takenSeq)
                # A message without a number carries an acknowledgement only.
                if reply.seq:
                    self._inbox.put(kind, reply.seq, reply, self.scope)
                if has_beats:
                    self._watch.waits()
        raise call_error(kind.stream, call)

    def _send(self) -> None:
        """Hands the outbox to the streams in order, starting with the first request that was not acknowledged, and
        interleaves acknowledgements of received messages."""
        acknowledged = dict.fromkeys(Kind, 0)
        sent = self._outbox.known()
        until = time.monotonic() + ACK_EVERY
        while not self.scope.is_over:
            request = self._outbox.next(sent, until, self.scope)
            if request is not None:
                self._requests[request.kind].put(request.message)
                sent = request.number
            if time.monotonic() < until:
                continue
            for kind in Kind:
                handled = self._inbox.acknowledged(kind)
                if handled > acknowledged[kind]:
                    acknowledged[kind] = handled
                    acknowledgement = new_request(kind)
                    acknowledgement.ackSeq = handled
                    self._requests[kind].put(acknowledgement)
            until = time.monotonic() + ACK_EVERY

    def close(self) -> None:
        """Ends the streams, waits for the threads, and releases the calls."""
        self.scope.end()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._calls.clear()
        self._requests.clear()
