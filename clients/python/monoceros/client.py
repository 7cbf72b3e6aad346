"""The client: the calls of the program, and the loop that reconnects."""

from __future__ import annotations

import dataclasses
import functools
import random
import secrets
import threading
import time
from types import TracebackType
from typing import Optional, Sequence, Type

import grpc

from monoceros.attach import Attachment, Resumption
from monoceros.callbacks import Invalidation
from monoceros.calls import Metadata, call_error, ends, first
from monoceros.clock import Clock
from monoceros.config import MAX_MESSAGE, Config, Registration
from monoceros.errors import (
    DEREGISTERED,
    SILENT,
    CallError,
    EndedError,
    ItemError,
    OldSchedulerError,
    StateError,
    Verdict,
    WaitError,
    bare,
    is_passing,
    judge,
    keeps_owner,
    may_leave_later,
)
from monoceros.inbox import Inbox
from monoceros.items import AnyItem, Item, Kind, name_of
from monoceros.life import Life
from monoceros.outbox import BATCH_BYTES, Outbox
from monoceros.outgoing import Outgoing
from monoceros.route import End, Route
from monoceros.scope import Scope
from monoceros.session import Session
from monoceros.si.v1 import scheduler_pb2_grpc
from monoceros.si.v1 import types_pb2 as si
from monoceros.silence import Watch
from monoceros.state import report
from monoceros.v1 import admin_pb2, admin_pb2_grpc, callback_pb2_grpc

#: The time limit of a registration in seconds, and of a deregistration without a limit of its own.
_CALL_WAIT = 60.0
#: The time limit in seconds of an attempt to connect.
_CONNECT_WAIT = 5.0
#: The same limits if there are other addresses, in the first round. They double with each round. That of a registration
#: also applies to the opening of the streams.
_SHORT_CALL_WAIT, _SHORT_CONNECT_WAIT = 5.0, 1.0
#: The seconds before a deregistration is tried again.
_LEAVE_EVERY = 0.2
#: Streams that were open for this many seconds make the next pause a short one again.
_HEALTHY = 60.0
#: The factor from one pause to the next, and the part of it that is random.
_GROWTH, _JITTER = 1.6, 0.2


class Client:
    """The connection of one RM. Its methods may be called by any thread, and before `run`.

    `with` closes the client at the end of the block.
    """

    def __init__(self, config: Config) -> None:
        config.check()
        self._config = dataclasses.replace(config)
        if config.callbacks is not None:
            self._config.callbacks = dataclasses.replace(config.callbacks)
        self._outbox = Outbox(config.waiting, min(BATCH_BYTES, config.max_message))
        self._inbox = Inbox(config.handler)
        self._life = Life()
        self._outgoing = Outgoing()
        self._resumption = Resumption()
        self._clock = Clock()
        self._route = Route([config.target, *config.other_addresses])
        self._watch = Watch(self._clock)
        #: The number of the session; zero while there is none.
        self._session = 0
        #: The number of the last session, and the id of the scheduler that has served it.
        self._last_session = 0
        self._scheduler = ""
        #: The id of the scheduler that fell silent, until a member has answered a registration with it.
        self._suspect = ""
        #: The time at which the streams were opened; None while they are not.
        self._opened: Optional[float] = None
        #: The secret by which all members of a cluster know this client. It is never shown.
        self._proof = secrets.token_hex(16)
        #: The name and number of the connection, so that late calls of a broken one have no effect.
        self._name = random.getrandbits(64)
        self._attempt = 0
        #: True until a session was lost.
        self._attaches = config.attach

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    # Calls of the program that send items.

    def nodes(self, *nodes: si.NodeInfo, timeout: Optional[float] = None) -> None:
        """Reports new, changed or removed nodes.

        Like the other methods that send items, it returns once copies of the items are queued, in the order of the
        calls, and blocks only while the queue is full. `timeout` bounds that wait, in seconds; after it a `WaitError`
        names the first item that is not queued. An item of another type is a TypeError, and nothing of the call is
        sent. An item that is too large is an `ItemError`, and all others are sent.
        """
        self._queue(si.NodeInfo, nodes, timeout)

    def add_applications(self, *applications: si.AddApplicationRequest, timeout: Optional[float] = None) -> None:
        """Submits applications."""
        self._queue(si.AddApplicationRequest, applications, timeout)

    def remove_applications(self, *removals: si.RemoveApplicationRequest, timeout: Optional[float] = None) -> None:
        """Ends applications."""
        self._queue(si.RemoveApplicationRequest, removals, timeout)

    def allocate(self, *allocations: si.Allocation, timeout: Optional[float] = None) -> None:
        """Asks for allocations (without a node), changes their size, or reports running ones."""
        self._queue(si.Allocation, allocations, timeout)

    def release(self, *releases: si.AllocationRelease, timeout: Optional[float] = None) -> None:
        """Ends allocations and withdraws asks."""
        self._queue(si.AllocationRelease, releases, timeout)

    def _queue(self, wanted: Type[AnyItem], messages: Sequence[AnyItem], timeout: Optional[float]) -> None:
        for at, message in enumerate(messages):
            if not isinstance(message, wanted):
                raise TypeError(
                    f"item {at + 1} of {len(messages)} is a {type(message).__name__}, and no {wanted.__name__}; "
                    "nothing of the call is sent"
                )
        until = None if timeout is None else time.monotonic() + timeout
        refused = []
        for at, message in enumerate(messages):
            item = Item.of(message)
            why = item.refused(self._config.max_message)
            if why is not None:
                refused.append(why)
                continue
            try:
                self._outbox.add(item, until)
            except WaitError as error:
                text = f"{at} of {len(messages)} items of the call are dealt with, before {name_of(message)}"
                raise WaitError(f"{text}: {error}") from (ItemError(refused) if refused else None)
        if refused:
            raise ItemError(refused)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until the scheduler has acknowledged every item sent before.

        The items are ordered then, and not yet decided. If a new session begins meanwhile, the state has reported
        them.
        """
        self._outbox.flush(None if timeout is None else time.monotonic() + timeout)

    def invalidate(self, what: Invalidation) -> None:
        """Makes the scheduler retry requests that the predicate has refused.

        It returns at once: the invalidation is sent when a stream is open, joined with earlier ones that are not sent
        yet. More than a mebibyte of names counts as everything. If the connection breaks after an invalidation was
        sent, the next stream invalidates everything, because the client cannot know whether it arrived.
        """
        if self._config.callbacks is None or self._config.callbacks.predicate is None:
            raise ValueError("invalidate has no effect without Callbacks.predicate")
        if not (what.all or what.nodes or what.allocations):
            raise ValueError("the invalidation names neither nodes nor allocations, nor everything")
        self._life.check()
        self._outgoing.invalidate(what)

    # Calls that wait for a session, or end it.

    def wait_registered(self, timeout: Optional[float] = None) -> None:
        """Blocks until the client is registered.

        A client is registered until its session is lost; after a restart of the scheduler the call blocks until the
        next registration. After `timeout` seconds it raises a `WaitError` with the last reason why the client could
        not register.
        """
        self._life.wait(timeout)

    def deregister(self, reason: str = "", timeout: Optional[float] = None) -> None:
        """Ends the session of this client: the scheduler forgets the nodes, applications and allocations of the RM.

        `run` then returns. If items sent before must take effect, call `flush` first. The reason is for operators, and
        for another instance of the RM that comes later.

        It blocks until the client is registered. If the scheduler refuses (PERMISSION_DENIED, by its access rules), the
        client continues. If the connection breaks meanwhile, the session may be over or not: the error says so, and the
        client does not register again if it is over. A second call is harmless then. In a cluster the client registers
        at another member when the owner is lost, and deregisters there. It tries again, until the time is over, while a
        member cannot decide. If it has raised an error, the client ends without knowing whether it is registered when
        the owner is lost.
        """
        with self._life.deregistering():
            self._deregister(reason, timeout)

    def _deregister(self, reason: str, timeout: Optional[float]) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        session = self._life.wait(timeout)
        if until is None:
            until = time.monotonic() + _CALL_WAIT
        while True:
            end = self._try_to_deregister(session, reason, max(until - time.monotonic(), 0.001))
            if end is None:
                self._life.stop()
                return
            is_lost = end.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            if not is_lost:
                self._life.leave(False)
            left = until - time.monotonic() - _LEAVE_EVERY
            if self._life.has_left:
                return
            if left <= 0 or not may_leave_later(end, is_lost and self._life.is_in_cluster):
                raise end
            time.sleep(_LEAVE_EVERY)
            try:
                session = self._life.wait(left)
            except EndedError:
                if self._life.has_left:
                    return
                raise

    def _try_to_deregister(self, session: int, reason: str, left: float) -> Optional[CallError]:
        """Calls the present owner once, for at most `left` seconds. Returns the refusal."""
        request = admin_pb2.DeregisterResourceManagerRequest(
            rm_id=self._config.rm, session_id=session, reason=reason
        )
        limit = min(left, self._patience(_SHORT_CALL_WAIT, _CALL_WAIT))
        identity = self._identity()
        with self.new_channel() as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)
            self._life.leave(True)
            call = stub.DeregisterResourceManager.future(request, timeout=limit, metadata=identity)
            with ends():
                call.result()
            return None if call.code() is grpc.StatusCode.OK else call_error("deregister", call)

    def close(self) -> None:
        """Ends the client without ending the session. A signal handler may call it.

        The scheduler keeps the session until session.pause_timeout has passed, and allocations keep running. `run`
        then returns.
        """
        if not self._life.stop():
            self._outbox.end(self._life.end(None))

    def new_channel(self) -> grpc.Channel:
        """Returns another connection with the same settings, for calls of other services. The caller closes it.

        In a cluster it leads to the member that serves the RM at this time.
        """
        connect = self._patience(_SHORT_CONNECT_WAIT, _CONNECT_WAIT)
        options = [
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # Pings go on while only the scheduler sends.
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.max_send_message_length", -1),
            # The time limit of an attempt to connect.
            ("grpc.min_reconnect_backoff_ms", int(connect * 1000)),
            # A channel does not share the back-off of an earlier one: the client itself pauses.
            ("grpc.use_local_subchannel_pool", 1),
            *self._config.options,
        ]
        if self._config.credentials is None:
            return grpc.insecure_channel(self._route.present, options)
        return grpc.secure_channel(self._route.present, self._config.credentials, options)

    def _patience(self, short: float, usual: float) -> float:
        """Returns the usual time limit, or a shorter one if there are other addresses."""
        return min(short * 2.0 ** min(self._route.rounds, 8), usual) if self._route.has_several else usual

    def _identity(self) -> Metadata:
        token = self._config.token
        text = token if isinstance(token, str) else token()
        return (("authorization", f"Bearer {text}"),) if text else ()

    # The loop that reconnects.

    def run(self) -> None:
        """Registers and keeps the RM connected until `deregister` or `close` is called, or a retry cannot help.

        It is called once. It raises the `CallError` with the reason, a `StateError`, or the exception of a function of
        the program, among them those of signal handlers, such as KeyboardInterrupt. Calls that send items raise an
        `EndedError` from then on.
        """
        scope = self._life.start()
        scope.on_end(self._inbox.wake)
        handler = threading.Thread(
            target=self._inbox.run, args=(scope,), name="monoceros-handler", daemon=True
        )
        handler.start()
        why: Optional[BaseException] = None
        try:
            self._stay_connected(scope)
        except BaseException as error:
            why = error
            raise
        finally:
            # In this order, because a handler may be waiting for the outbox.
            self._outbox.end(self._life.end(why))
            scope.end()
            handler.join()

    def _stay_connected(self, scope: Scope) -> None:
        """Reconnects after each break, as long as a retry can help."""
        pause = self._config.pause
        may_serve_soon = False
        while True:
            began, had_session = self._clock.now(), bool(self._session)
            why = self._connect(scope)
            if scope.is_over:
                if scope.why is not None:
                    raise scope.why
                return
            self._life.broke(why)
            verdict = judge(why, self._route.is_cluster and self._route.has_others)
            if verdict is Verdict.STOP:
                if isinstance(why, CallError) and why.reason == DEREGISTERED and self._life.gone():
                    return
                raise why
            # In a cluster the RM may still be registered at an owner that was lost: deregister needs another session
            # then.
            if verdict is Verdict.REGISTER and self._life.gone(is_over=not self._route.is_cluster):
                return
            end = self._end(why, verdict, had_session)
            if verdict is Verdict.REGISTER:
                self._abandon(why)
            if self._config.broken is not None:
                self._config.broken(why)
            now = self._clock.now()
            if now - began > _HEALTHY:
                pause = self._config.pause
            may_serve_soon = may_serve_soon or is_passing(why)
            away, self._resumption.away = self._resumption.away, 0.0
            if self._route.after(end):
                continue
            if may_serve_soon:
                pause, may_serve_soon = self._config.pause, False
            wait = pause * random.uniform(1 - _JITTER, 1 + _JITTER)
            self._clock.wait(scope, max(wait, away))
            pause = min(pause * _GROWTH, self._config.max_pause)

    def _end(self, why: BaseException, verdict: Verdict, had_session: bool) -> End:
        """Describes the end of an attempt for the choice of the next address."""
        answer = why if isinstance(why, CallError) and why.reason != SILENT else None
        is_answered = answer is not None and bool(answer.reason)
        if verdict is Verdict.REOPEN:
            stays = self._opened is not None or (had_session and is_answered)
        elif self._route.is_cluster:
            stays = bool(self._session) and keeps_owner(why)
        else:
            # The scheduler that has ended the session is the one to register at.
            stays = had_session and is_answered
        return End(
            lasted=None if self._opened is None else self._clock.now() - self._opened,
            stays=stays,
            waits=verdict is Verdict.REOPEN and is_answered,
            is_over=had_session and verdict is Verdict.REGISTER,
            is_answered=is_answered,
            owner=answer.owner if answer is not None else "",
            is_suspicion=bool(self._suspect),
        )

    def _abandon(self, why: BaseException) -> None:
        """Gives up the session, if there is one, with all that the program has not received of it."""
        reason = why.reason if isinstance(why, CallError) else ""
        if self._session:
            self._suspect = self._scheduler if reason == SILENT else ""
            if self._route.is_cluster:
                self._inbox.drop()
        elif reason:
            self._suspect = ""
        self._session, self._attaches = 0, False
        self._resumption.last_event = 0

    def _connect(self, scope: Scope) -> BaseException:
        """Registers unless there is a session, and serves its streams until one of them ends. Returns why."""
        self._attempt += 1
        self._opened = None
        self._watch.reset()
        session = Session(scope, self._outbox, self._inbox, self._watch)
        with self.new_channel() as channel:
            try:
                if not self._session:
                    self._register(channel, session.scope)
                if not session.scope.is_over:
                    self._serve(channel, session)
            except Exception as error:
                session.scope.end(bare(error))
            finally:
                session.close()
        return session.scope.why or scope.why or AssertionError("a session has ended without a reason")

    def _metadata(self) -> Metadata:
        """Returns the metadata of the calls of an attempt: the attempt, the instance, the token, and whether members may
        name the owner."""
        instance = (("x-si-instance", self._config.instance),) if self._config.instance else ()
        redirect = (("x-si-redirect", "yes"),) if self._route.takes_redirects else ()
        return (("x-si-attempt", f"{self._name:016x}.{self._attempt}"), *instance, *redirect, *self._identity())

    def _claim(self) -> Metadata:
        """Returns the metadata by which members of a cluster know the client again."""
        session = (("x-si-session", str(self._last_session)),) if self._last_session else ()
        suspect = (("x-si-suspects", self._suspect),) if self._suspect else ()
        return (("x-si-proof", self._proof), *session, *suspect)

    def _register(self, channel: grpc.Channel, scope: Scope) -> None:
        """Opens a session, to which the full state is reported, or takes over one."""
        mode = (("x-si-register-mode", "attach"),) if self._attaches else ()
        limit = self._patience(_SHORT_CALL_WAIT, _CALL_WAIT)
        call = scheduler_pb2_grpc.SchedulerStub(channel).RegisterResourceManager.future(
            self._config.registration(), timeout=limit, metadata=(*self._metadata(), *self._claim(), *mode)
        )
        scope.on_end(call.cancel)
        if self._route.has_several:
            answered = Scope()
            call.add_done_callback(lambda _: answered.end())
            if not self._clock.wait(answered, limit):
                raise CallError("register", grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {limit:g} s", "")
        with ends():
            call.result()
        if call.code() is not grpc.StatusCode.OK:
            raise call_error("register", call)
        headers = call.initial_metadata()
        number = first(headers, "x-si-session")
        if not number.isdigit():
            raise OldSchedulerError
        registration = Registration(
            int(number), first(headers, "x-si-scheduler"), first(headers, "x-si-registered")
        )
        self._route.registered(first(headers, "x-si-members"))
        self._last_session, self._scheduler, self._suspect = registration.session, registration.scheduler, ""
        if registration.outcome == "attached":
            taken = first(headers, "x-si-taken-seq")
            if not taken.isdigit():
                raise OldSchedulerError
            self._outbox.attach(int(taken))
        else:
            self._report(scope)
        if scope.is_over:
            return
        self._session = registration.session
        self._life.registered(registration.session, self._route.is_cluster)
        if self._config.registered is not None:
            self._config.registered(registration)

    def _report(self, scope: Scope) -> None:
        """Queues the state of the RM, in place of all requests made before."""
        # In this order: the first begin releases callers that are blocked by the outbox, which a handler may be.
        self._outbox.begin()
        self._inbox.begin(scope)
        # Items sent up to here are in the state.
        self._outbox.begin()
        try:
            items, refused = report(self._config.state(), self._config.max_message)
        except Exception as error:
            raise StateError(f"Config.state: {error!r}") from error
        for kind, reply in refused:
            self._inbox.put(kind, 0, reply, scope)
        self._outbox.proceed(items)

    def _serve(self, channel: grpc.Channel, session: Session) -> None:
        """Opens the streams of the session, and waits until they have ended."""
        common = self._metadata()
        limit = self._patience(_SHORT_CALL_WAIT, _CALL_WAIT) if self._route.has_several else None
        session.task(functools.partial(self._watch.run, session.scope))
        callbacks = self._config.callbacks
        if callbacks is not None:
            attachment = Attachment(callbacks, self._outgoing, self._resumption, session.scope, self._watch)
            stub = callback_pb2_grpc.CallbackServiceStub(channel)
            with self._watch.opening(limit):
                welcome = attachment.open(
                    lambda messages: stub.Attach(messages, metadata=common),
                    self._config.rm,
                    self._session,
                    self._config.instance,
                )
            if callbacks.welcome is not None:
                callbacks.welcome(welcome)
            for task in attachment.tasks():
                session.task(task)

        def metadata(kind: Kind) -> Metadata:
            beat = (("x-si-beat", "yes"),) if kind is Kind.ALLOCATION else ()
            return (
                *common,
                *beat,
                ("x-si-rm-id", self._config.rm),
                ("x-si-session", str(self._session)),
                ("x-si-resume", str(self._inbox.resume(kind))),
                ("x-si-client-seq", str(self._outbox.known())),
            )

        with self._watch.opening(limit):
            session.open(channel, metadata)
        self._opened = self._clock.now()
        self._watch.begin(session.beat())
        session.serve()
        self._life.connected()
        session.scope.wait()
