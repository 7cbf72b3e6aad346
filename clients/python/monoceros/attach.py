"""The callback stream: questions and reports of the scheduler, and the program's answers.

One thread reads messages; one per lane passes them to the program, so that a slow state dump delays no predicate; gRPC
writes the answers (`Outgoing`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from monoceros.callbacks import (
    Answer,
    Bundle,
    Callbacks,
    Eviction,
    Place,
    Placement,
    Preemption,
    Question,
    Refusal,
)
from monoceros.calls import Stream, call_error, ends
from monoceros.errors import Error
from monoceros.lane import Lane
from monoceros.outbox import BATCH_BYTES
from monoceros.outgoing import Outgoing
from monoceros.scope import Scope
from monoceros.silence import Watch
from monoceros.si.v1 import types_pb2 as si
from monoceros.v1 import callback_pb2 as callback

LOG = logging.getLogger("monoceros")

#: The most messages queued in a lane before reading stops. For events, the credit bounds the events in them.
_QUEUED = 256
#: The most queued state dumps and configurations. Further ones are refused.
_QUEUED_REQUESTS = 16
#: The number of events that the scheduler sends before it gets more credit, if `hello` sets none.
_EVENT_CREDIT = 256
#: The size of a part of a state dump in bytes, if the scheduler names none.
_CHUNK_BYTES = 1 << 20
#: The most bytes of a reason in an answer. A longer one is cut.
_REASON_BYTES = 1024
#: The most reasons in an answer. Nodes with further reasons are counted under the last one.
_REASON_GROUPS = 64
#: The longest pause that the client makes at the request of the scheduler, in seconds.
_LONGEST_AWAY = 600.0


@dataclass
class Resumption:
    """The position at which the next callback stream continues."""

    #: The number of the last handled event of the session.
    last_event: int = 0
    #: The pause in seconds that the scheduler requested when it ended the stream.
    away: float = 0.0


class _Batch:
    """A batch of questions, which the scheduler may cancel, and which has a time limit in milliseconds or none."""

    def __init__(self, scope: Scope, limit: int) -> None:
        self._scope = scope
        self._until = time.monotonic() + limit / 1000 if limit else None
        self.is_cancelled = False

    def is_over(self) -> bool:
        is_late = self._until is not None and time.monotonic() >= self._until
        return self.is_cancelled or is_late or self._scope.is_over


class Attachment:
    """A callback stream."""

    def __init__(
        self, callbacks: Callbacks, outgoing: Outgoing, resumption: Resumption, scope: Scope, watch: Watch
    ) -> None:
        self._callbacks = callbacks
        self._outgoing = outgoing
        self._resumption = resumption
        self._scope = scope
        self._watch = watch
        scope.on_end(outgoing.wake)
        #: All messages whose order matters.
        self._questions = Lane(_QUEUED, scope)
        self._events = Lane(_QUEUED, scope)
        self._states = Lane(_QUEUED, scope)
        self._requests = Lane(_QUEUED_REQUESTS, scope)
        #: The predicate batches that are queued or being answered. The reader adds and cancels them.
        self._batches: Dict[int, _Batch] = {}
        #: The number of the last change applied to the view.
        self._applied = 0
        #: The names of nodes by the scheduler's numbers. This field and the next are used by the questions alone.
        self._names: Dict[int, str] = {}
        #: The placements of an incomplete list.
        self._listed: List[Placement] = []

    def open(
        self,
        call: Callable[[Iterator[callback.ShimMessage]], Stream[callback.CoreMessage]],
        rm_id: str,
        session: int,
        instance: str,
    ) -> callback.Welcome:
        """Opens the stream, waits until the scheduler has agreed to it, and returns the agreed options."""
        hello = callback.Hello()
        if self._callbacks.hello is not None:
            hello.CopyFrom(self._callbacks.hello)
        hello.rm_id, hello.session_id, hello.instance_id = rm_id, session, instance
        del hello.capabilities[:]
        hello.capabilities.extend(self._callbacks.capabilities())
        hello.confirm_assume = self._callbacks.confirm is not None
        hello.last_event_seq = self._resumption.last_event
        hello.initial_event_credit = hello.initial_event_credit or _EVENT_CREDIT
        self._outgoing.opened()
        self._stream = call(self._outgoing.messages(callback.ShimMessage(hello=hello), self._scope))
        self._scope.on_end(self._stream.cancel)
        first = None
        with ends():
            first = next(self._stream)
        if first is None:
            raise call_error("callback stream", self._stream)
        if first.WhichOneof("body") != "welcome":
            raise Error("callback stream: the first message is no Welcome")
        return first.welcome

    def tasks(self) -> List[Callable[[], None]]:
        """Returns the functions that run until the scope ends, each in a thread."""
        return [
            self._read,
            lambda: self._questions.run(self._question),
            lambda: self._events.run(self._event),
            lambda: self._states.run(self._state),
            lambda: self._requests.run(self._request),
        ]

    def _read(self) -> None:
        """Puts messages into their lanes. It waits for the program only if hundreds of messages are queued."""
        with ends():
            for message in self._stream:
                self._watch.received()
                self._sort(message)
        raise call_error("callback stream", self._stream)

    def _sort(self, message: callback.CoreMessage) -> None:
        body = message.WhichOneof("body")
        if body == "predicate_batch":
            batch = message.predicate_batch
            self._batches[batch.batch_id] = _Batch(self._scope, batch.deadline_ms)
            self._questions.put(message)
        elif body in ("preemption_batch", "node_dictionary", "cache_sync", "bundle_places"):
            self._questions.put(message)
        elif body == "event_batch":
            self._events.put(message)
        elif body == "container_states":
            self._states.put(message)
        elif body in ("state_dump", "config_save"):
            if not self._requests.offer(message):
                self._refuse(message, "too many requests wait for the resource manager")
        elif body == "cancel":
            for number in message.cancel.batch_ids:
                known = self._batches.get(number)
                if known is not None:
                    known.is_cancelled = True
        elif body == "heartbeat" and message.heartbeat.reply:
            nonce = message.heartbeat.nonce
            self._outgoing.beat(callback.Heartbeat(nonce=nonce, cache_seq=self._applied))
        elif body == "goodbye":
            # The status that follows decides how the client continues.
            self._resumption.away = min(message.goodbye.reconnect_after_ms / 1000, _LONGEST_AWAY)

    def _send(self, message: callback.ShimMessage) -> None:
        self._outgoing.send(message, self._scope)

    def _question(self, message: callback.CoreMessage) -> None:
        """Handles one message of the lane in which order matters."""
        body = message.WhichOneof("body")
        if body == "predicate_batch":
            self._predicates(message.predicate_batch)
        elif body == "preemption_batch":
            self._preemptions(message.preemption_batch)
        elif body == "node_dictionary":
            change = message.node_dictionary
            if change.reset:
                self._names.clear()
            for index in change.remove:
                self._names.pop(index, None)
            self._names.update((entry.index, entry.node_id) for entry in change.add)
        elif body == "cache_sync":
            failures = self._sync(message.cache_sync)
            if self._callbacks.confirm is not None:
                ack = callback.CacheSyncAck(cache_seq=message.cache_sync.cache_seq, failures=failures)
                self._send(callback.ShimMessage(cache_sync_ack=ack))
        elif self._callbacks.members is not None:
            self._callbacks.members(self._bundle(message.bundle_places))

    def _predicates(self, asked: callback.PredicateBatch) -> None:
        """Answers a batch, in several messages if the answers are large; not at all once it is cancelled or late."""
        batch = self._batches.get(asked.batch_id) or _Batch(self._scope, asked.deadline_ms)
        try:
            results = callback.PredicateResults(batch_id=asked.batch_id, cache_seq=self._applied)
            size = 0
            for query in asked.queries:
                result = self._result(batch, query)
                if batch.is_over():
                    return
                bytes_ = result.ByteSize()
                if size and size + bytes_ > BATCH_BYTES:
                    self._send(callback.ShimMessage(predicate_results=results))
                    results = callback.PredicateResults(batch_id=asked.batch_id, cache_seq=self._applied)
                    size = 0
                size += bytes_
                results.results.append(result)
            results.last = True
            self._send(callback.ShimMessage(predicate_results=results))
        finally:
            self._batches.pop(asked.batch_id, None)

    def _judge(self, question: Question) -> Answer:
        """Calls the program's predicate."""
        assert self._callbacks.predicate is not None
        try:
            return self._callbacks.predicate(question)
        except Exception as error:
            LOG.exception("the predicate has failed for %s", question)
            return Answer(False, reason=_text(error), outcome=callback.Outcome.ERROR)

    def _result(self, batch: _Batch, query: callback.PredicateQuery) -> callback.PredicateResult:
        """Evaluates the nodes of a question in order, until as many fit as are wanted."""
        result = callback.PredicateResult(query_id=query.query_id, outcome=callback.Outcome.EVALUATED)
        result.scope = self._callbacks.scope or callback.Scope.SCOPE_UNSPECIFIED
        if self._callbacks.predicate is None:
            result.outcome, result.error = callback.Outcome.ERROR, "no predicates"
            return result
        nodes = [self._names.get(index, "") for index in query.node_index] + list(query.node_ids)
        left = max(query.want, 1) if query.mode == callback.EvalMode.FIRST_FIT else len(nodes)
        passed = bytearray()
        failures = _Failures(result)
        for at, node in enumerate(nodes):
            if not left or batch.is_over():
                break
            question = Question(
                query.application_id,
                query.allocation_key,
                node,
                query.allocate,
                query.bundle_id,
                query.task_group_name,
                batch.is_over,
            )
            answer = self._judge(question)
            result.scope = answer.scope or self._callbacks.scope or callback.Scope.SCOPE_UNSPECIFIED
            if answer.outcome not in (None, callback.Outcome.EVALUATED):
                return callback.PredicateResult(
                    query_id=query.query_id, outcome=answer.outcome, scope=result.scope, error=_cut(answer.reason)
                )
            result.evaluated += 1
            if not answer.fits:
                failures.add(at, answer)
                continue
            left -= 1
            _set(passed, at)
            if answer.elsewhere is not None:
                result.elsewhere.CopyFrom(answer.elsewhere)
            if query.assume and self._callbacks.view is not None and not batch.is_over():
                self._callbacks.view.assume(Placement(question.application, question.allocation, node))
        result.pass_bitmap = bytes(passed)
        failures.close()
        return result

    def _preemptions(self, asked: callback.PreemptionBatch) -> None:
        batch = _Batch(self._scope, asked.deadline_ms)
        results = callback.PreemptionResults(batch_id=asked.batch_id, cache_seq=self._applied, last=True)
        for query in asked.queries:
            results.results.append(self._preemption(batch, query))
            if batch.is_over():
                return
        self._send(callback.ShimMessage(preemption_results=results))

    def _preemption(self, batch: _Batch, query: callback.PreemptionQuery) -> callback.PreemptionResult:
        result = callback.PreemptionResult(query_id=query.query_id, outcome=callback.Outcome.EVALUATED)
        if self._callbacks.preemption is None:
            result.outcome, result.error = callback.Outcome.ERROR, "no preemption predicates"
            return result
        args = query.args
        node = args.nodeID or self._names.get(query.node_index, "")
        question = Preemption(
            args.allocationKey, node, tuple(args.preemptAllocationKeys), args.startIndex, batch.is_over
        )
        try:
            eviction = self._callbacks.preemption(question)
        except Exception as error:
            LOG.exception("the preemption predicate has failed for %s", question)
            result.outcome, result.error = callback.Outcome.ERROR, _text(error)
            return result
        result.response.success = eviction.fits
        result.response.index = max(-1, min(eviction.last, 1 << 30))
        return result

    def _sync(self, sync: callback.CacheSync) -> List[callback.CacheSyncFailure]:
        """Applies a change to the view, and returns the placements that the program does not confirm."""
        assumed: List[Placement] = []
        failures: List[callback.CacheSyncFailure] = []
        for one in sync.args.assumedAllocations:
            placement = Placement(one.applicationID, one.allocationKey, one.nodeID)
            refusal = self._confirm(placement)
            if refusal is None:
                assumed.append(placement)
                continue
            failures.append(
                callback.CacheSyncFailure(
                    application_id=placement.application,
                    allocation_key=placement.allocation,
                    reason=_cut(refusal.reason),
                    retryable=refusal.same_node,
                )
            )
        if self._callbacks.view is not None:
            self._show(sync, assumed)
        self._applied = max(self._applied, sync.cache_seq)
        return failures

    def _confirm(self, placement: Placement) -> Optional[Refusal]:
        if self._callbacks.confirm is None:
            return None
        try:
            return self._callbacks.confirm(placement)
        except Exception as error:
            LOG.exception("the confirmation of %s has failed", placement)
            return Refusal(_text(error))

    def _show(self, sync: callback.CacheSync, assumed: List[Placement]) -> None:
        view = self._callbacks.view
        assert view is not None
        if sync.snapshot:
            self._listed += assumed
            assumed = []
        for placement in assumed:
            view.assume(placement)
        for one in sync.args.forgetAllocations:
            view.forget(Placement(one.applicationID, one.allocationKey))
        if sync.snapshot_end:
            listed, self._listed = self._listed, []
            view.reset(listed)

    def _bundle(self, received: callback.BundlePlaces) -> Bundle:
        places = tuple(
            Place(one.member, one.allocation_key, self._names.get(one.node_index, ""), one.task_group_name)
            for one in received.places
        )
        return Bundle(received.bundle_id, received.application_id, places, received.over)

    def _event(self, message: callback.CoreMessage) -> None:
        """Passes a batch of events to the program, and then gives credit for as many."""
        batch = message.event_batch
        if self._callbacks.events is None:
            return
        self._callbacks.events(batch.events, batch.dropped)
        self._resumption.last_event = batch.last_seq
        credit = callback.EventCredit(add=len(batch.events), ack_seq=batch.last_seq)
        self._send(callback.ShimMessage(event_credit=credit))

    def _state(self, message: callback.CoreMessage) -> None:
        if self._callbacks.container_states is not None:
            self._callbacks.container_states(message.container_states.states)

    def _request(self, message: callback.CoreMessage) -> None:
        """Answers the request of an operator."""
        try:
            if message.WhichOneof("body") == "state_dump":
                if self._callbacks.state_dump is None:
                    self._refuse(message, "the resource manager has no state dump")
                else:
                    self._dump(message.state_dump, self._callbacks.state_dump())
                return
            if self._callbacks.save_config is None:
                self._refuse(message, "the resource manager keeps no configuration")
                return
            asked = message.config_save
            old = self._callbacks.save_config(asked.config, dict(asked.extra_config))
            # An old configuration that is too large for a message is left out of the answer.
            saved = callback.ConfigSaveResult(
                request_id=asked.request_id, success=True, old_config=old if len(old) <= BATCH_BYTES else ""
            )
            self._send(callback.ShimMessage(config_save=saved))
        except Exception as error:
            LOG.exception("a request of an operator has failed")
            self._refuse(message, _text(error))

    def _dump(self, request: callback.StateDumpRequest, state: bytes) -> None:
        """Sends a state dump in parts."""
        most = min(request.max_chunk_bytes or _CHUNK_BYTES, _CHUNK_BYTES)
        parts = [state[at : at + most] for at in range(0, len(state), most)] or [b""]
        for index, part in enumerate(parts):
            chunk = callback.StateDumpChunk(
                request_id=request.request_id,
                index=index,
                last=index + 1 == len(parts),
                data=part,
                content_type="application/json",
            )
            self._send(callback.ShimMessage(state_dump=chunk))

    def _refuse(self, message: callback.CoreMessage, why: str) -> None:
        """Answers an operator's request with an error."""
        why = _cut(why)
        if message.WhichOneof("body") == "state_dump":
            chunk = callback.StateDumpChunk(request_id=message.state_dump.request_id, last=True, error=why)
            self._send(callback.ShimMessage(state_dump=chunk))
        else:
            saved = callback.ConfigSaveResult(request_id=message.config_save.request_id, reason=why)
            self._send(callback.ShimMessage(config_save=saved))


class _Failures:
    """Groups the refusing nodes of a result by reason."""

    def __init__(self, result: callback.PredicateResult) -> None:
        self._result = result
        self._groups: Dict[Tuple[str, str], Tuple[callback.FailureGroup, bytearray]] = {}
        self._last: Optional[Tuple[callback.FailureGroup, bytearray]] = None

    def add(self, at: int, answer: Answer) -> None:
        why = _cut(answer.plugin), _cut(answer.reason)
        known = self._groups.get(why)
        if known is None and len(self._groups) < _REASON_GROUPS:
            known = self._last = self._groups[why] = (
                self._result.failures.add(plugin=why[0], reason=why[1]),
                bytearray(),
            )
        group, nodes = known or self._last or (callback.FailureGroup(), bytearray())
        group.count += 1
        _set(nodes, at)

    def close(self) -> None:
        for group, nodes in self._groups.values():
            group.fail_bitmap = bytes(nodes)


def _set(bits: bytearray, at: int) -> None:
    """Sets a bit, least significant first."""
    bits.extend(bytes(max(0, at // 8 + 1 - len(bits))))
    bits[at // 8] |= 1 << (at % 8)


def _cut(reason: str) -> str:
    """Shortens a reason at a character boundary."""
    encoded = reason.encode("utf-8", "replace")
    return encoded[:_REASON_BYTES].decode("utf-8", "ignore")


def _text(error: Exception) -> str:
    return str(error) or f"the resource manager failed with a {type(error).__name__} without a text"
