"""Requests: how items join, their numbers, their bounds, and the report of the state."""

from __future__ import annotations

import threading
import unittest
from typing import List

import grpc

import monoceros
from monoceros import outbox
from monoceros.errors import (
    CallError,
    EndedError,
    OldSchedulerError,
    Verdict,
    VoidSessionError,
    WaitError,
    judge,
)
from monoceros.inbox import Inbox
from monoceros.items import AnyItem, Item, Kind
from monoceros.outbox import BATCH_BYTES, Outbox, Request
from monoceros.scope import Scope
from monoceros.si.v1 import types_pb2 as si
from monoceros.state import State, report

from .fake import PATIENCE, Listener, ask

LATER = float("inf")


def of(*messages: AnyItem, limit: int = 1000, batch: int = BATCH_BYTES) -> Outbox:
    box = Outbox(limit, batch)
    for message in messages:
        box.add(Item.of(message))
    return box


def polled(box: Outbox) -> List[Request]:
    """Returns the requests that the outbox would send now."""
    requests: List[Request] = []
    while True:
        request = box.poll(requests[-1].number if requests else 0, LATER)
        if request is None:
            return requests
        requests.append(request)


def sizes(box: Outbox) -> List[int]:
    return [request.items for request in polled(box)]


NODE = monoceros.node("n", {"vcore": 1})
APPLICATION = monoceros.application("app", "ada")
REMOVAL = si.RemoveApplicationRequest(applicationID="app")
RUNNING = monoceros.allocation("app", "r", {"vcore": 1}, "n")
RELEASE = monoceros.release("app", "a")


class Joining(unittest.TestCase):
    def test_items_join_if_their_order_allows_it(self) -> None:
        for expected, messages in (
            ([2], [NODE, NODE]),
            ([1, 1], [NODE, APPLICATION]),
            ([3], [APPLICATION, APPLICATION, REMOVAL]),
            ([1, 1], [REMOVAL, APPLICATION]),
            ([3], [ask("a"), ask("b"), RELEASE]),
            ([1, 1], [RELEASE, ask("a")]),
            # An ask could get the capacity of the running allocation.
            ([2, 1], [RUNNING, RUNNING, ask("a")]),
            ([1, 1], [RUNNING, RELEASE]),
            ([1, 1], [ask("a"), RUNNING]),
        ):
            self.assertEqual(sizes(of(*messages)), expected, messages)

    def test_requests_have_bounded_items_and_bytes(self) -> None:
        self.assertEqual(sizes(of(*(ask(str(at)) for at in range(2500)), limit=9999)), [1000, 1000, 500])
        large = monoceros.node("n", {"vcore": 1}, {"rack": "x" * 400})
        requests = polled(of(*[large] * 10, batch=1024))
        self.assertEqual([one.items for one in requests], [2] * 5)
        self.assertTrue(all(one.message.ByteSize() <= 1024 for one in requests))

    def test_allocations_of_a_node_count_as_items(self) -> None:
        node = si.NodeInfo(nodeID="n", existingAllocations=[RUNNING] * 600)
        self.assertEqual(sizes(of(node, node)), [601, 601])

    def test_a_request_waits_until_it_is_due_or_full(self) -> None:
        box = of(ask("a"))
        self.assertIsNone(box.poll(0, 0.0))
        for at in range(999):
            box.add(Item.of(ask(str(at))))
        full = box.poll(0, 0.0)
        assert full is not None
        self.assertEqual(full.items, 1000)


class Numbers(unittest.TestCase):
    def test_unacknowledged_requests_are_sent_again_with_their_number(self) -> None:
        box = of(NODE, APPLICATION, ask("a"))
        self.assertEqual([one.message.clientSeq for one in polled(box)], [1, 2, 3])
        self.assertTrue(box.took(1))
        again = box.poll(box.known(), LATER)
        assert again is not None
        self.assertEqual((again.number, again.message.clientSeq), (2, 2))
        self.assertFalse(box.took(4), "a number that was never used")
        self.assertTrue(box.took(3))
        self.assertIsNone(box.poll(0, LATER))

    def test_unacknowledged_items_and_bytes_are_bounded(self) -> None:
        for name in ("AHEAD_ITEMS", "AHEAD_BYTES"):
            before = getattr(outbox, name)
            setattr(outbox, name, 1)
            try:
                box = of(NODE, APPLICATION)
                self.assertEqual(sizes(box), [1])
                box.took(1)
                self.assertIsNotNone(box.poll(1, LATER))
            finally:
                setattr(outbox, name, before)

    def test_calls_block_while_the_outbox_is_full(self) -> None:
        box = of(ask("a"), limit=1)
        with self.assertRaises(WaitError):
            box.add(Item.of(ask("b")), until=0.0)
        adding = threading.Thread(target=box.add, args=(Item.of(ask("b")),), daemon=True)
        adding.start()
        self.assertIsNotNone(box.poll(0, LATER))
        adding.join(PATIENCE)
        self.assertFalse(adding.is_alive())

    def test_no_call_blocks_after_the_end(self) -> None:
        box = of(ask("a"), limit=1)
        errors: List[BaseException] = []

        def add() -> None:
            try:
                box.add(Item.of(ask("b")))
            except EndedError as error:
                errors.append(error)

        adding = threading.Thread(target=add, daemon=True)
        adding.start()
        box.end(EndedError("over"))
        adding.join(PATIENCE)
        self.assertEqual([str(error) for error in errors], ["over"])
        with self.assertRaises(EndedError):
            box.flush()

    def test_a_new_session_reports_the_state_first(self) -> None:
        box = of(ask("old"))
        old = polled(box)
        box.begin()
        self.assertTrue(old[0].is_over)
        box.add(Item.of(ask("later")))
        box.proceed([Item.of(NODE), Item.of(APPLICATION)])
        self.assertEqual([(one.number, type(one.message).__name__) for one in polled(box)], [
            (1, "NodeRequest"),
            (2, "ApplicationRequest"),
            (3, "AllocationRequest"),
        ])


class Received(unittest.TestCase):
    def test_a_repeated_message_is_queued_once(self) -> None:
        handler, scope = Listener(), Scope()
        inbox = Inbox(handler)
        scope.on_end(inbox.wake)
        for seq, name in ((1, "a"), (2, "b"), (1, "a"), (2, "b"), (3, "c")):
            message = si.NodeResponse(seq=seq)
            message.accepted.add(nodeID=name)
            inbox.put(Kind.NODE, seq, message, scope)
        passing = threading.Thread(target=inbox.run, args=(scope,), daemon=True)
        passing.start()
        handler.until_line("node c")
        scope.end()
        passing.join(PATIENCE)
        self.assertEqual(handler.lines, ["node a", "node b", "node c"])
        self.assertEqual((inbox.resume(Kind.NODE), inbox.resume(Kind.ALLOCATION)), (3, 0))


class Report(unittest.TestCase):
    def test_nodes_are_closed_until_running_allocations_are_reported(self) -> None:
        closed = si.NodeInfo(nodeID="closed", action=si.NodeInfo.DRAIN_NODE)
        items, refused = report(
            State(nodes=[NODE, closed], applications=[APPLICATION], allocations=[ask("a"), RUNNING]), 1 << 20
        )
        self.assertEqual(refused, [])
        seen = [
            (type(one.message).__name__, si.NodeInfo.ActionFromRM.Name(one.message.action))
            if isinstance(one.message, si.NodeInfo)
            else getattr(one.message, "allocationKey", "")
            for one in items
        ]
        self.assertEqual(seen, [
            ("NodeInfo", "CREATE_DRAIN"),
            ("NodeInfo", "CREATE_DRAIN"),
            "",
            "r",
            ("NodeInfo", "DRAIN_TO_SCHEDULABLE"),
            "a",
        ])
        self.assertEqual(NODE.action, si.NodeInfo.CREATE, "the program's own node is unchanged")

    def test_large_items_of_the_state_are_rejected(self) -> None:
        text = "x" * 2000
        state = State(
            nodes=[monoceros.node("n", {}, {"rack": text}), monoceros.node("m", {})],
            applications=[monoceros.application("app", "ada", tags={"t": text})],
            allocations=[monoceros.allocation("app", text, {})],
        )
        items, refused = report(state, 1024)
        self.assertEqual(len(items), 2, "the node `m` twice")
        reasons = [
            one.reason
            for _, reply in refused
            for one in (getattr(reply, "rejected", None) or getattr(reply, "rejectedAllocations"))
        ]
        self.assertEqual(len(reasons), 3)
        for reason in reasons:
            self.assertLess(len(reason), 400, "the name is cut")
            self.assertTrue(reason.endswith("(Config.max_message) [C_TOO_LARGE]"), reason)


class Verdicts(unittest.TestCase):
    def test_each_end_has_its_verdict(self) -> None:
        code = grpc.StatusCode
        for status, reason, verdict in (
            (code.UNAVAILABLE, "", Verdict.REOPEN),
            (code.UNAVAILABLE, "SHUTTING_DOWN", Verdict.REOPEN),
            (code.ABORTED, "SEQUENCE_GAP", Verdict.REOPEN),
            (code.DEADLINE_EXCEEDED, "REGISTRATION_TIMEOUT", Verdict.REOPEN),
            (code.RESOURCE_EXHAUSTED, "LIMIT_SESSIONS", Verdict.REOPEN),
            (code.OK, "", Verdict.REOPEN),
            (code.FAILED_PRECONDITION, "SESSION_STALE", Verdict.REGISTER),
            (code.FAILED_PRECONDITION, "RM_NOT_REGISTERED", Verdict.REGISTER),
            (code.FAILED_PRECONDITION, "RESYNC_REQUIRED", Verdict.REGISTER),
            (code.FAILED_PRECONDITION, "POLICY_GROUP_CONFLICT", Verdict.STOP),
            (code.ABORTED, "SESSION_SUPERSEDED", Verdict.STOP),
            (code.ABORTED, "STREAM_DISPLACED", Verdict.STOP),
            (code.OUT_OF_RANGE, "MESSAGE_UNREADABLE", Verdict.STOP),
            (code.DATA_LOSS, "MESSAGE_UNREADABLE", Verdict.REGISTER),
            (code.OK, "DEREGISTERED", Verdict.STOP),
            (code.ABORTED, "DEREGISTERED", Verdict.STOP),
            (code.INVALID_ARGUMENT, "CONFIG_INVALID", Verdict.STOP),
            (code.PERMISSION_DENIED, "RM_DENIED", Verdict.STOP),
        ):
            self.assertEqual(judge(CallError("node stream", status, "text", reason)), verdict, (status, reason))
        self.assertEqual(judge(VoidSessionError()), Verdict.REGISTER)
        self.assertEqual(judge(OldSchedulerError()), Verdict.STOP)
        self.assertEqual(judge(KeyError("of the program")), Verdict.STOP)
