"""The callback stream against a fake scheduler."""

from __future__ import annotations

import json
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import grpc

import monoceros
from monoceros import Answer, Question
from monoceros.si.v1 import types_pb2 as si
from monoceros.v1 import callback_pb2 as callback

from .fake import PATIENCE, Case, Fake, FakeCallbacks, Listener, Run

Core = callback.CoreMessage


def fits(question: Question) -> Answer:
    return Answer(True)


def names(count: int) -> callback.CoreMessage:
    """Introduces the nodes `n0` and on."""
    entries = [callback.NodeDictEntry(index=at, node_id=f"n{at}") for at in range(count)]
    return Core(node_dictionary=callback.NodeDictionary(reset=True, add=entries))


def batch(number: int, *queries: callback.PredicateQuery, deadline: int = 0) -> callback.CoreMessage:
    return Core(predicate_batch=callback.PredicateBatch(batch_id=number, deadline_ms=deadline, queries=queries))


def query(nodes: int, key: str = "a", **more: Any) -> callback.PredicateQuery:
    fields: Dict[str, Any] = {"mode": callback.EvalMode.FIRST_FIT, "allocate": True, **more}
    return callback.PredicateQuery(
        query_id=7, application_id="app", allocation_key=key, node_index=range(nodes), **fields
    )


class Recording(monoceros.View):
    """Records what the client does to a view."""

    def __init__(self) -> None:
        self.lines: List[str] = []

    def assume(self, placement: monoceros.Placement) -> None:
        self.lines.append(f"assume {placement.allocation} {placement.node}")

    def forget(self, placement: monoceros.Placement) -> None:
        self.lines.append(f"forget {placement.allocation}")

    def reset(self, placements: Sequence[monoceros.Placement]) -> None:
        self.lines.append("reset " + " ".join(one.allocation for one in placements))


class Attached(Case):
    """A client that is attached to a fake scheduler."""

    def attach(self, callbacks: monoceros.Callbacks, **more: Any) -> Tuple[FakeCallbacks, Run]:
        fake = FakeCallbacks()
        run = self.running(self.serve(Fake(), fake), callbacks=callbacks, **more)
        fake.until("a stream", lambda: bool(fake.hellos))
        return fake, run

    def results(self, callbacks: monoceros.Callbacks, *queries: callback.PredicateQuery) -> List[Any]:
        fake, _ = self.attach(callbacks)
        fake.send(names(100), batch(1, *queries))
        (answer,) = fake.answers("predicate_results")
        self.assertTrue(answer.last)
        self.assertEqual(answer.batch_id, 1)
        return list(answer.results)


class Hello(Attached):
    def test_hello_has_a_capability_for_each_function(self) -> None:
        capability = callback.Capability
        function: Any = fits
        for field, value, expected in (
            ("predicate", function, [capability.PREDICATES]),
            ("view", Recording(), [capability.CACHE_SYNC]),
            ("confirm", function, [capability.CACHE_SYNC]),
            ("events", function, [capability.EVENTS]),
            ("container_states", function, [capability.CONTAINER_STATES]),
            ("state_dump", function, [capability.STATE_DUMP]),
            ("save_config", function, [capability.CONFIG_STORE]),
        ):
            fields: Dict[str, Any] = {field: value}
            self.assertEqual(monoceros.Callbacks(**fields).capabilities(), expected, field)
        more = monoceros.Callbacks(predicate=fits, holds=True, preemption=function)
        self.assertEqual(
            more.capabilities(),
            [capability.PREDICATES, capability.HOLD_PREDICATES, capability.PREEMPTION_PREDICATES],
        )

    def test_hello_carries_identity_and_options(self) -> None:
        seen: List[callback.Welcome] = []
        options = callback.Hello(predicate_timeout_ms=70, rm_id="other")
        callbacks = monoceros.Callbacks(predicate=fits, confirm=lambda _: None, hello=options, welcome=seen.append)
        fake, run = self.attach(callbacks, instance="one")
        run.client.wait_registered(PATIENCE)
        (hello,) = fake.hellos
        self.assertEqual((hello.rm_id, hello.session_id, hello.instance_id), ("rm", 1, "one"))
        self.assertEqual((hello.predicate_timeout_ms, hello.initial_event_credit), (70, 256))
        self.assertTrue(hello.confirm_assume)
        run.client.nodes(monoceros.node("n", {}))
        run.client.flush(PATIENCE)
        self.assertEqual([one.session_id for one in seen], [1])

    def test_a_refused_stream_ends_run(self) -> None:
        run = self.running(self.serve(Fake()), callbacks=monoceros.Callbacks(predicate=fits))
        error = run.ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual((error.op, error.code), ("callback stream", grpc.StatusCode.UNIMPLEMENTED))


class Predicates(Attached):
    def test_nodes_are_evaluated_until_one_fits(self) -> None:
        asked: List[Question] = []

        def predicate(question: Question) -> Answer:
            asked.append(question)
            return Answer(question.node == "n9", reason="too small", plugin="size")

        view = Recording()
        (result,) = self.results(
            monoceros.Callbacks(predicate=predicate, view=view, scope=callback.Scope.SCOPE_NODE),
            query(12, assume=True, bundle_id=3, task_group_name="workers"),
        )
        self.assertEqual([one.node for one in asked], [f"n{at}" for at in range(10)])
        self.assertEqual(asked[0], Question("app", "a", "n0", True, 3, "workers"))
        self.assertEqual((result.query_id, result.outcome), (7, callback.Outcome.EVALUATED))
        self.assertEqual((result.evaluated, result.pass_bitmap), (10, b"\x00\x02"))
        self.assertEqual(result.scope, callback.Scope.SCOPE_NODE)
        (failure,) = result.failures
        self.assertEqual((failure.plugin, failure.reason, failure.count), ("size", "too small", 9))
        self.assertEqual(failure.fail_bitmap, b"\xff\x01")
        self.assertEqual(view.lines, ["assume a n9"])

    def test_every_field_of_an_answer_is_sent(self) -> None:
        elsewhere = callback.Elsewhere(depends_on=[1], affects=[2])

        def predicate(question: Question) -> Answer:
            if question.allocation == "unknown":
                return Answer(False, reason="who?", outcome=callback.Outcome.UNKNOWN_ALLOCATION)
            if question.allocation == "fails":
                raise KeyError
            return Answer(True, scope=callback.Scope.SCOPE_STATIC, elsewhere=elsewhere)

        with self.assertLogs("monoceros", "ERROR"):
            one, unknown, failed = self.results(
                monoceros.Callbacks(predicate=predicate), query(1), query(1, "unknown"), query(1, "fails")
            )
        self.assertEqual((one.scope, one.elsewhere), (callback.Scope.SCOPE_STATIC, elsewhere))
        self.assertEqual((unknown.outcome, unknown.error), (callback.Outcome.UNKNOWN_ALLOCATION, "who?"))
        self.assertEqual(failed.outcome, callback.Outcome.ERROR)
        self.assertIn("KeyError without a text", failed.error)

    def test_reasons_are_bounded(self) -> None:
        (result,) = self.results(
            monoceros.Callbacks(predicate=lambda question: Answer(False, reason=question.node + "ä" * 2000)),
            query(100),
        )
        self.assertEqual(len(result.failures), 64)
        self.assertEqual(sum(one.count for one in result.failures), 100)
        self.assertTrue(all(len(one.reason.encode()) <= 1024 for one in result.failures))
        self.assertEqual(result.failures[63].count, 37)

    def test_large_results_come_in_parts(self) -> None:
        fake, _ = self.attach(
            monoceros.Callbacks(predicate=lambda question: Answer(False, reason=question.node + "x" * 1000))
        )
        fake.send(names(64), batch(1, *[query(64)] * 40))
        parts = fake.answers("predicate_results", 3)
        self.assertEqual([one.last for one in parts], [False, False, True])
        self.assertEqual(sum(len(one.results) for one in parts), 40)
        self.assertTrue(all(one.ByteSize() < 1_200_000 for one in parts))

    def test_a_cancelled_batch_is_not_answered(self) -> None:
        entered, go = threading.Event(), threading.Event()
        over: List[bool] = []

        def predicate(question: Question) -> Answer:
            if question.allocation == "slow":
                entered.set()
                go.wait(PATIENCE)
                over.append(question.is_over())
            return Answer(True)

        fake, _ = self.attach(monoceros.Callbacks(predicate=predicate))
        fake.send(names(1), batch(1, query(1, "slow")), batch(2, query(1)))
        self.assertTrue(entered.wait(PATIENCE))
        fake.send(Core(cancel=callback.CancelBatch(batch_ids=[1])), Core(heartbeat=callback.Heartbeat(reply=True)))
        # The reader has seen the cancellation by then.
        fake.answers("heartbeat")
        go.set()
        self.assertEqual([one.batch_id for one in fake.answers("predicate_results")], [2])
        self.assertEqual(over, [True])

    def test_preemption_is_asked_and_answered(self) -> None:
        asked: List[monoceros.Preemption] = []

        def preemption(question: monoceros.Preemption) -> monoceros.Eviction:
            asked.append(question)
            return monoceros.Eviction(True, last=1)

        fake, _ = self.attach(monoceros.Callbacks(predicate=fits, preemption=preemption))
        args = si.PreemptionPredicatesArgs(
            allocationKey="a", nodeID="n0", preemptAllocationKeys=["x", "y"], startIndex=1
        )
        queries = [callback.PreemptionQuery(query_id=3, args=args)]
        fake.send(Core(preemption_batch=callback.PreemptionBatch(batch_id=5, queries=queries)))
        (answer,) = fake.answers("preemption_results")
        self.assertEqual(asked, [monoceros.Preemption("a", "n0", ("x", "y"), 1)])
        (result,) = answer.results
        self.assertEqual((result.query_id, result.response.success, result.response.index), (3, True, 1))


class Placements(Attached):
    def test_an_unconfirmed_placement_is_not_assumed(self) -> None:
        view = Recording()

        def confirm(placement: monoceros.Placement) -> Optional[monoceros.Refusal]:
            if placement.node == "full":
                return monoceros.Refusal("no room", same_node=True)
            if placement.node == "broken":
                raise OSError("no disk")
            return None

        fake, _ = self.attach(monoceros.Callbacks(view=view, confirm=confirm))
        assumed = [
            callback.AssumedAllocation(applicationID="app", allocationKey=key, nodeID=node)
            for key, node in (("a", "n"), ("b", "full"), ("c", "broken"))
        ]
        forgotten = [callback.ForgotAllocation(applicationID="app", allocationKey="z")]
        with self.assertLogs("monoceros", "ERROR"):
            fake.send(
                Core(cache_sync=callback.CacheSync(
                    cache_seq=1, snapshot=True, snapshot_end=True,
                    args=callback.CacheSyncArgs(assumedAllocations=assumed[:1]),
                )),
                Core(cache_sync=callback.CacheSync(
                    cache_seq=2, args=callback.CacheSyncArgs(assumedAllocations=assumed, forgetAllocations=forgotten),
                )),
            )
            first, second = fake.answers("cache_sync_ack", 2)
        self.assertEqual((first.cache_seq, len(first.failures), second.cache_seq), (1, 0, 2))
        self.assertEqual(
            [(one.allocation_key, one.reason, one.retryable) for one in second.failures],
            [("b", "no room", True), ("c", "no disk", False)],
        )
        self.assertEqual(view.lines, ["reset a", "assume a n", "forget z"])
        fake.send(Core(heartbeat=callback.Heartbeat(nonce=9, reply=True)))
        (beat,) = fake.answers("heartbeat")
        self.assertEqual((beat.nonce, beat.cache_seq), (9, 2))

    def test_members_of_a_gang_are_named(self) -> None:
        seen: List[monoceros.Bundle] = []
        fake, _ = self.attach(monoceros.Callbacks(predicate=fits, members=seen.append))
        places = [callback.BundlePlace(member=2, allocation_key="a", node_index=1, task_group_name="g")]
        bundle = callback.BundlePlaces(bundle_id=4, application_id="app", over=3, places=places)
        fake.send(names(2), Core(bundle_places=bundle), batch(1, query(1)))
        fake.answers("predicate_results")
        self.assertEqual(seen, [monoceros.Bundle(4, "app", (monoceros.Place(2, "a", "n1", "g"),), 3)])


class Reports(Attached):
    def test_events_continue_after_a_break(self) -> None:
        seen: List[Tuple[int, int]] = []
        fake, run = self.attach(
            monoceros.Callbacks(events=lambda events, dropped: seen.append((len(events), dropped)))
        )
        events = [si.EventRecord(message="one"), si.EventRecord(message="two")]
        fake.send(Core(event_batch=callback.EventBatch(first_seq=4, last_seq=5, dropped=3, events=events)))
        (credit,) = fake.answers("event_credit")
        self.assertEqual((credit.add, credit.ack_seq, seen), (2, 5, [(2, 3)]))
        fake.break_stream()
        fake.until("the second stream", lambda: len(fake.hellos) == 2)
        self.assertEqual(fake.hellos[1].last_event_seq, 5)

    def test_container_states_are_reported(self) -> None:
        seen = Listener()
        fake, _ = self.attach(
            monoceros.Callbacks(
                container_states=lambda states: seen.note(*(one.allocationKey for one in states))
            )
        )
        states = [si.UpdateContainerSchedulingStateRequest(allocationKey="a")]
        fake.send(Core(container_states=callback.ContainerStateBatch(states=states)))
        seen.until_line("a")

    def test_an_exception_of_a_report_ends_run(self) -> None:
        def events(*_: Any) -> None:
            raise KeyError("the log is full")

        fake, run = self.attach(monoceros.Callbacks(events=events))
        fake.send(Core(event_batch=callback.EventBatch(events=[si.EventRecord()])))
        self.assertIsInstance(run.ended(), KeyError)

    def test_a_dump_comes_in_parts_or_with_its_error(self) -> None:
        states = [json.dumps({"a": "x" * 20}).encode(), b""]

        def dump() -> bytes:
            if not states:
                raise OSError("no disk")
            return states.pop(0)

        fake, _ = self.attach(monoceros.Callbacks(state_dump=dump))
        expected = states[0]
        for number in (1, 2, 3):
            fake.send(Core(state_dump=callback.StateDumpRequest(request_id=number, max_chunk_bytes=10)))
        with self.assertLogs("monoceros", "ERROR"):
            chunks = fake.answers("state_dump", 5)
        self.assertEqual(b"".join(one.data for one in chunks if one.request_id == 1), expected)
        self.assertEqual([one.last for one in chunks if one.request_id == 1], [False, False, True])
        self.assertEqual([(one.last, one.data) for one in chunks if one.request_id == 2], [(True, b"")])
        self.assertEqual(chunks[-1].error, "no disk")

    def test_too_many_requests_of_operators_are_refused(self) -> None:
        entered, go = threading.Event(), threading.Event()

        def dump() -> bytes:
            entered.set()
            go.wait(PATIENCE)
            return b"{}"

        fake, _ = self.attach(monoceros.Callbacks(state_dump=dump))
        self.addCleanup(go.set)
        fake.send(Core(state_dump=callback.StateDumpRequest(request_id=1)))
        self.assertTrue(entered.wait(PATIENCE))
        fake.send(*(Core(state_dump=callback.StateDumpRequest(request_id=at)) for at in range(2, 19)))
        (refused,) = fake.answers("state_dump")
        self.assertEqual((refused.request_id, refused.last), (18, True))
        self.assertIn("too many requests", refused.error)

    def test_configurations_are_kept_or_refused(self) -> None:
        kept: List[Any] = []

        def save(config: str, extra: Any) -> str:
            if config == "bad":
                raise ValueError("not allowed")
            kept.append((config, extra))
            return "old"

        fake, _ = self.attach(monoceros.Callbacks(save_config=save))
        for number, config in ((1, "new"), (2, "bad")):
            request = callback.ConfigSaveRequest(request_id=number, config=config, extra_config={"a": "b"})
            fake.send(Core(config_save=request))
        with self.assertLogs("monoceros", "ERROR"):
            saved, refused = fake.answers("config_save", 2)
        self.assertEqual((saved.success, saved.old_config), (True, "old"))
        self.assertEqual((refused.success, refused.reason), (False, "not allowed"))
        self.assertEqual(kept, [("new", {"a": "b"})])


class Invalidations(Attached):
    def test_invalidations_are_sent_and_repeated_after_a_break(self) -> None:
        fake, run = self.attach(monoceros.Callbacks(predicate=fits))
        run.client.invalidate(monoceros.Invalidation(nodes=["n"], allocations=["a"]))
        (sent,) = fake.answers("invalidate")
        self.assertEqual((list(sent.node_ids), list(sent.allocation_keys), sent.all), (["n"], ["a"], False))
        fake.break_stream()
        (again,) = fake.answers("invalidate")
        self.assertTrue(again.all)

    def test_unsent_invalidations_are_joined_and_bounded(self) -> None:
        client = self.client("127.0.0.1:1", callbacks=monoceros.Callbacks(predicate=fits))
        for name in ("n1", "n2"):
            client.invalidate(monoceros.Invalidation(nodes=[name]))
        joined = client._outgoing._invalidate
        assert joined is not None
        self.assertEqual(list(joined.node_ids), ["n1", "n2"])
        client.invalidate(monoceros.Invalidation(nodes=["x" * 1000] * 1100))
        self.assertEqual(client._outgoing._invalidate, callback.Invalidate(all=True))
        self.assertRaises(ValueError, client.invalidate, monoceros.Invalidation())
        self.assertRaises(ValueError, self.client("127.0.0.1:1").invalidate, monoceros.Invalidation(all=True))

    def test_the_client_pauses_as_long_as_requested(self) -> None:
        seen = Listener()
        fake, run = self.attach(
            monoceros.Callbacks(predicate=fits), broken=lambda why: seen.note(str(run_away()))
        )

        def run_away() -> float:
            return run.client._resumption.away

        fake.send(Core(goodbye=callback.Goodbye(reconnect_after_ms=3_600_000)))
        fake.break_stream()
        seen.until_line("600.0")
        run.client.close()
        self.assertIsNone(run.ended())
        self.assertEqual(len(fake.hellos), 1)
