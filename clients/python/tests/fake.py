"""A fake scheduler, and what tests of the client share."""

from __future__ import annotations

import contextlib
import threading
import time
import unittest
from concurrent import futures
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import grpc

import monoceros
from monoceros.clock import Clock
from monoceros.items import AnyReply, AnyRequest, Kind
from monoceros.scope import Scope
from monoceros.si.v1 import scheduler_pb2_grpc
from monoceros.si.v1 import types_pb2 as si
from monoceros.silence import Watch
from monoceros.v1 import admin_pb2, admin_pb2_grpc, callback_pb2_grpc
from monoceros.v1 import callback_pb2 as callback

#: The longest wait for what a test expects, in seconds.
PATIENCE = 30.0

State = monoceros.State


def empty() -> State:
    return State()


class Waiter:
    """A lock with conditions that tests wait for."""

    def __init__(self) -> None:
        self.condition = threading.Condition()

    def until(self, what: str, so: Callable[[], bool]) -> None:
        with self.condition:
            if not self.condition.wait_for(so, PATIENCE):
                raise AssertionError(f"not within {PATIENCE} s: {what}")


class FakeClock(Clock, Waiter):
    """A clock that stands still until a test moves it. Pauses, which tests make short, are over at once."""

    def __init__(self) -> None:
        Waiter.__init__(self)
        self.time = 1000.0
        #: The pauses that were made.
        self.pauses: List[float] = []
        #: The length and the end of each wait that has begun.
        self.waits: Dict[object, Tuple[float, float]] = {}

    def now(self) -> float:
        return self.time

    def wait(self, scope: Scope, seconds: float) -> bool:
        key, until = object(), self.time + seconds
        with self.condition:
            if seconds < 0.03:
                self.pauses.append(seconds)
                return scope.is_over
            self.waits[key] = seconds, until
            self.condition.notify_all()

        def wake() -> None:
            with self.condition:
                self.condition.notify_all()

        scope.on_end(wake)
        with self.condition:
            self.condition.wait_for(lambda: scope.is_over or self.time >= until)
            del self.waits[key]
            self.condition.notify_all()
        scope.forget(wake)
        return scope.is_over

    def step(self, seconds: float, timeout: float = PATIENCE) -> None:
        """Moves to the end of a wait of this length, as soon as there is one."""

        def ends() -> List[float]:
            return [until for length, until in self.waits.values() if length == seconds]

        with self.condition:
            if not self.condition.wait_for(lambda: bool(ends()), timeout):
                return
            self.time = max(self.time, min(ends()))
            self.condition.notify_all()
            self.condition.wait_for(lambda: all(until > self.time for _, until in self.waits.values()), PATIENCE)

    def steps(self, seconds: float, what: str, so: Callable[[], bool]) -> None:
        """Moves by waits of this length until something is so."""
        late = time.monotonic() + PATIENCE
        while not so():
            if time.monotonic() > late:
                raise AssertionError(f"not within {PATIENCE} s: {what}")
            self.step(seconds, 0.01)


class Listener(monoceros.Handler, Waiter):
    """Records the messages that it receives, a line for each item."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: List[str] = []

    def note(self, *lines: str) -> None:
        with self.condition:
            self.lines += lines
            self.condition.notify_all()

    def until_line(self, line: str) -> None:
        self.until(f"{line} in {self.lines}", lambda: any(line in one for one in self.lines))

    def nodes(self, message: si.NodeResponse) -> None:
        self.note(*(f"node {one.nodeID}" for one in message.accepted))
        self.note(*(f"no node {one.nodeID}: {one.reason}" for one in message.rejected))

    def applications(self, message: si.ApplicationResponse) -> None:
        self.note(*(f"application {one.applicationID}" for one in message.accepted))
        self.note(*(f"no application {one.applicationID}: {one.reason}" for one in message.rejected))

    def allocations(self, message: si.AllocationResponse) -> None:
        self.note(*(f"allocation {one.allocationKey}" for one in message.new))
        self.note(*(f"release {one.allocationKey}" for one in message.released))
        self.note(*(f"no allocation {one.allocationKey}: {one.reason}" for one in message.rejectedAllocations))


#: Without its type, which wants every method to be implemented.
AdminServicer: Any = admin_pb2_grpc.AdminServiceServicer


class Fake(scheduler_pb2_grpc.SchedulerServicer, AdminServicer, Waiter):  # type: ignore[misc]
    """A scheduler that acknowledges requests in the order of their numbers, answers each item, and ends all streams on
    demand."""

    def __init__(self, breaks: Callable[[], bool] = lambda: False) -> None:
        Waiter.__init__(self)
        #: Whether to break before the present request.
        self.breaks = breaks
        self.session = 0
        self.taken = 0
        self.held: Dict[int, AnyRequest] = {}
        self.effects: List[str] = []
        self.replies: Dict[Kind, List[Any]] = {kind: [] for kind in Kind}
        self.acked: Dict[Kind, int] = dict.fromkeys(Kind, 0)
        #: The status, reason and owner with which the streams of each epoch end; the last epoch goes on.
        self.ends: List[Tuple[grpc.StatusCode, str, str]] = []
        #: The status and reason of the next registrations and deregistrations, and the owner if the status names one.
        self.refusals: List[Tuple[Any, ...]] = []
        #: The refusal of all registrations, if they are not None.
        self.refuses: Optional[Tuple[Any, ...]] = None
        self.registrations: List[Dict[str, Any]] = []
        self.deregistrations = 0
        #: The metadata of each stream.
        self.streams: List[Dict[str, Any]] = []
        #: Whether requests are numbered, as by every scheduler but the oldest ones.
        self.numbers = True
        #: The addresses of the members of a cluster, and the id of this one.
        self.members = ""
        self.scheduler = ""
        #: The promised distance of beats in milliseconds; None: no beats.
        self.distance: Optional[int] = None
        #: The number of beats that were sent, or are to be.
        self.beats = 0
        #: Whether registrations and deregistrations are answered, and streams.
        self.answers = self.opens = True

    def end(self, code: grpc.StatusCode, reason: str = "", owner: str = "") -> None:
        """Ends all open streams. Requests out of order are lost with them."""
        with self.condition:
            self.held.clear()
            self.ends.append((code, reason, owner))
            self.condition.notify_all()

    def beat(self) -> None:
        """Sends an empty message."""
        with self.condition:
            self.beats += 1
            self.condition.notify_all()

    def set(self, **values: Any) -> None:
        with self.condition:
            for name, value in values.items():
                setattr(self, name, value)
            self.condition.notify_all()

    def lose(self) -> None:
        """Forgets the session, as a restart would."""
        with self.condition:
            self.session += 10
        self.end(grpc.StatusCode.UNAVAILABLE)

    def RegisterResourceManager(self, request: Any, context: Any) -> si.RegisterResourceManagerResponse:
        with self.condition:
            self.registrations.append(dict(context.invocation_metadata()))
            self.condition.notify_all()
            self.condition.wait_for(lambda: self.answers, PATIENCE)
            if self.refusals:
                abort(context, *self.refusals.pop(0))
            if self.refuses is not None:
                abort(context, *self.refuses)
            self.session += 1
            self.taken, self.held, self.effects = 0, {}, []
            self.replies, self.acked = {kind: [] for kind in Kind}, dict.fromkeys(Kind, 0)
            known = (("x-si-scheduler", self.scheduler), ("x-si-members", self.members))
            context.send_initial_metadata(
                (("x-si-session", str(self.session)), ("x-si-registered", "new"), *(one for one in known if one[1]))
            )
        return si.RegisterResourceManagerResponse()

    def DeregisterResourceManager(self, request: Any, context: Any) -> admin_pb2.DeregisterResourceManagerResponse:
        with self.condition:
            self.deregistrations += 1
            self.condition.notify_all()
            self.condition.wait_for(lambda: self.answers, PATIENCE)
            if self.refusals:
                abort(context, *self.refusals.pop(0))
        return admin_pb2.DeregisterResourceManagerResponse()

    def UpdateNode(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        return self.serve(Kind.NODE, request_iterator, context)

    def UpdateApplication(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        return self.serve(Kind.APPLICATION, request_iterator, context)

    def UpdateAllocation(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        return self.serve(Kind.ALLOCATION, request_iterator, context)

    def serve(self, kind: Kind, requests: Iterator[AnyRequest], context: Any) -> Iterator[AnyReply]:
        known = dict(context.invocation_metadata())
        with self.condition:
            self.streams.append(known)
            self.condition.notify_all()
            epoch = len(self.ends)
            self.condition.wait_for(lambda: self.opens, PATIENCE)
            if known["x-si-session"] != str(self.session):
                abort(context, grpc.StatusCode.FAILED_PRECONDITION, "SESSION_STALE")
            if int(known["x-si-client-seq"]) > self.taken:
                abort(context, grpc.StatusCode.ABORTED, "SEQUENCE_GAP")
            following = int(known["x-si-resume"])
            key, value = ("x-si-taken-seq", self.taken) if self.numbers else ("x-si-session", self.session)
            beat: Tuple[Tuple[str, str], ...] = ()
            if self.distance is not None and "x-si-beat" in known:
                beat = (("x-si-beat", str(self.distance)),)
            context.send_initial_metadata(((key, str(value)), *beat))
            beats = self.beats
        # The stream is over when its requests are.
        over = threading.Event()
        threading.Thread(target=self.read, args=(kind, requests, epoch, over), daemon=True).start()
        sent = 0
        while True:
            with self.condition:
                self.condition.wait_for(
                    lambda: over.is_set()
                    or len(self.ends) > epoch
                    or following < len(self.replies[kind])
                    or sent < self.taken
                    or bool(beat and beats < self.beats)
                )
                if len(self.ends) > epoch:
                    abort(context, *self.ends[epoch])
                if over.is_set():
                    return
                reply: AnyReply = {
                    Kind.NODE: si.NodeResponse,
                    Kind.APPLICATION: si.ApplicationResponse,
                    Kind.ALLOCATION: si.AllocationResponse,
                }[kind]()
                if following < len(self.replies[kind]):
                    reply.CopyFrom(self.replies[kind][following])
                    following += 1
                sent, beats = self.taken, self.beats
                reply.takenSeq = sent
            yield reply

    def read(self, kind: Kind, requests: Iterator[AnyRequest], epoch: int, over: threading.Event) -> None:
        with contextlib.suppress(Exception):
            for request in requests:
                self.arrive(kind, request, epoch)
        with self.condition:
            over.set()
            self.condition.notify_all()

    def arrive(self, kind: Kind, request: AnyRequest, epoch: int) -> None:
        """Takes a request after those before it, unless the streams break now."""
        with self.condition:
            if len(self.ends) > epoch:
                return
            if self.breaks():
                self.end(grpc.StatusCode.UNAVAILABLE)
                return
            self.acked[kind] = max(self.acked[kind], request.ackSeq)
            if request.clientSeq > self.taken:
                self.held[request.clientSeq] = request
            while self.taken + 1 in self.held:
                self.taken += 1
                self.take(self.held.pop(self.taken))
            self.condition.notify_all()

    def take(self, request: AnyRequest) -> None:
        if isinstance(request, si.NodeRequest):
            nodes = si.NodeResponse(seq=len(self.replies[Kind.NODE]) + 1)
            for node in request.nodes:
                self.effects.append(f"node {node.nodeID}")
                nodes.accepted.add(nodeID=node.nodeID)
            self.replies[Kind.NODE].append(nodes)
        elif isinstance(request, si.ApplicationRequest):
            applications = si.ApplicationResponse(seq=len(self.replies[Kind.APPLICATION]) + 1)
            for application in request.new:
                self.effects.append(f"application {application.applicationID}")
                applications.accepted.add(applicationID=application.applicationID)
            self.replies[Kind.APPLICATION].append(applications)
        else:
            allocations = si.AllocationResponse(seq=len(self.replies[Kind.ALLOCATION]) + 1)
            for allocation in request.allocations:
                self.effects.append(f"allocation {allocation.allocationKey}")
                allocations.new.append(allocation)
            for release in request.releases.allocationsToRelease:
                self.effects.append(f"release {release.allocationKey}")
                allocations.released.append(release)
            self.replies[Kind.ALLOCATION].append(allocations)

    def all_acknowledged(self) -> bool:
        return all(self.acked[kind] == len(self.replies[kind]) for kind in Kind)


class FakeCallbacks(callback_pb2_grpc.CallbackServiceServicer, Waiter):
    """The scheduler's side of callback streams: it sends what a test tells it, and records what it receives."""

    def __init__(self) -> None:
        Waiter.__init__(self)
        self.hellos: List[callback.Hello] = []
        self.received: List[callback.ShimMessage] = []
        self.outgoing: List[callback.CoreMessage] = []
        #: The number of streams to end.
        self.ended = 0

    def Attach(self, request_iterator: Any, context: Any) -> Iterator[callback.CoreMessage]:
        hello = next(request_iterator).hello
        over = threading.Event()
        with self.condition:
            self.hellos.append(hello)
            number = len(self.hellos)
            self.outgoing.clear()
            self.condition.notify_all()
        threading.Thread(target=self.read, args=(request_iterator, over), daemon=True).start()
        yield callback.CoreMessage(welcome=callback.Welcome(session_id=hello.session_id))
        while True:
            with self.condition:
                self.condition.wait_for(lambda: over.is_set() or self.ended >= number or bool(self.outgoing))
                if over.is_set():
                    return
                if not self.outgoing:
                    abort(context, grpc.StatusCode.UNAVAILABLE, "")
                message = self.outgoing.pop(0)
            yield message

    def read(self, requests: Iterator[callback.ShimMessage], over: threading.Event) -> None:
        with contextlib.suppress(Exception):
            for request in requests:
                with self.condition:
                    self.received.append(request)
                    self.condition.notify_all()
        with self.condition:
            over.set()
            self.condition.notify_all()

    def send(self, *messages: callback.CoreMessage) -> None:
        with self.condition:
            self.outgoing += messages
            self.condition.notify_all()

    def break_stream(self) -> None:
        with self.condition:
            self.ended = len(self.hellos)
            self.condition.notify_all()

    def answers(self, body: str, count: int = 1) -> List[Any]:
        """Waits until `count` messages of a kind were received, and takes them."""

        def known() -> List[callback.ShimMessage]:
            return [one for one in self.received if one.WhichOneof("body") == body]

        self.until(f"{count} messages `{body}`", lambda: len(known()) >= count)
        with self.condition:
            taken = known()
            self.received = [one for one in self.received if one not in taken]
        return [getattr(one, body) for one in taken]


def abort(context: Any, code: grpc.StatusCode, reason: str, owner: str = "") -> None:
    """Ends a call with a status, a reason and an owner."""
    trailers = (("x-si-reason", reason), ("x-si-owner", owner))
    context.set_trailing_metadata(tuple(one for one in trailers if one[1]))
    if code is grpc.StatusCode.OK:
        context.set_code(code)
        raise StopIteration
    context.abort(code, f"the text of {reason or code.name}")


class Run:
    """A client that runs in a thread."""

    def __init__(self, client: monoceros.Client) -> None:
        self.client = client
        self.error: Optional[BaseException] = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.client.run()
        except BaseException as error:
            self.error = error

    def ended(self) -> Optional[BaseException]:
        """Waits for the end of `run`, and returns its error."""
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            raise AssertionError(f"run has not ended within {PATIENCE} s")
        return self.error


class Case(unittest.TestCase):
    """A test with servers and clients that end with it."""

    def serve(self, fake: Optional[Fake] = None, callbacks: Optional[FakeCallbacks] = None) -> str:
        """Serves on a port, and returns the address."""
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=32))
        if fake is not None:
            scheduler_pb2_grpc.add_SchedulerServicer_to_server(fake, server)
            admin_pb2_grpc.add_AdminServiceServicer_to_server(fake, server)
        if callbacks is not None:
            callback_pb2_grpc.add_CallbackServiceServicer_to_server(callbacks, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        return f"127.0.0.1:{port}"

    def client(
        self,
        target: str,
        handler: Optional[monoceros.Handler] = None,
        clock: Optional[Clock] = None,
        **more: Any,
    ) -> monoceros.Client:
        """Makes a client with short pauses."""
        settings: Dict[str, Any] = {"rm": "rm", "state": empty, "pause": 0.001, "max_pause": 0.02, **more}
        client = monoceros.Client(monoceros.Config(target, handler=handler or Listener(), **settings))
        if clock is not None:
            client._clock, client._watch = clock, Watch(clock)
        return client

    def soon(self, what: str, so: Callable[[], bool]) -> None:
        """Waits for something that notifies nobody."""
        late = time.monotonic() + PATIENCE
        while not so():
            self.assertLess(time.monotonic(), late, f"not within {PATIENCE} s: {what}")
            time.sleep(0.001)

    def running(
        self,
        target: str,
        handler: Optional[monoceros.Handler] = None,
        clock: Optional[Clock] = None,
        **more: Any,
    ) -> Run:
        run = Run(self.client(target, handler, clock, **more))
        self.addCleanup(run.ended)
        self.addCleanup(run.client.close)
        return run


def ask(key: str) -> si.Allocation:
    return monoceros.allocation("app", key, {"vcore": 1000})
