"""The client against a fake scheduler: breaks, lost sessions, its ends and its errors."""

from __future__ import annotations

import collections
import dataclasses
import gc
import random
import socket
import threading
from typing import Any, Dict, List, Set

import grpc

import monoceros
from monoceros.si.v1 import types_pb2 as si

from .fake import PATIENCE, Case, Fake, FakeCallbacks, Listener, State, ask, empty

CODE = grpc.StatusCode


def valid() -> monoceros.Config:
    return monoceros.Config("127.0.0.1:1", "rm", empty, Listener())


class Settings(Case):
    def test_an_invalid_setting_is_named(self) -> None:
        callbacks = monoceros.Callbacks
        cases: List[Any] = [
            ({"target": " "}, "target is empty"),
            ({"rm": ""}, "rm is empty"),
            ({"rm": "a\nb"}, "rm is 'a"),
            ({"rm": 7}, "rm is no text"),
            ({"instance": "ä"}, "instance is 'ä'"),
            ({"other_addresses": "host:1"}, "other_addresses is a text"),
            ({"other_addresses": ["host:1", ""]}, "other_addresses[1] is empty"),
            ({"state": None}, "state is no function"),
            ({"handler": object()}, "handler is a object"),
            ({"token": b"t0k3n"}, "token is neither"),
            ({"attach": True}, "attach needs Config.instance"),
            ({"max_message": 1000}, "max_message is 1000"),
            ({"waiting": 0}, "waiting is 0"),
            ({"pause": 31.0}, "pause is 31.0"),
            ({"queues": 7}, "written as a registration"),
            ({"callbacks": callbacks(holds=True)}, "holds has no effect"),
            ({"callbacks": callbacks(members=print)}, "members has no effect"),
            ({"callbacks": callbacks(preemption=lambda _: monoceros.Eviction(True))}, "preemption has no effect"),
        ]
        for change, text in cases:
            with self.assertRaises((TypeError, ValueError), msg=text) as raised:
                monoceros.Client(dataclasses.replace(valid(), **change))
            self.assertIn(text, str(raised.exception))

    def test_a_token_is_not_shown(self) -> None:
        self.assertNotIn("s3cret", repr(dataclasses.replace(valid(), token="s3cret")))


class Breaks(Case):
    def test_requests_take_effect_once_and_in_order_over_breaks(self) -> None:
        dice, breaks = random.Random(12), random.Random(34)
        fake = Fake(lambda: breaks.randrange(60) == 0)
        handler = Listener()
        began = threading.Event()

        def state() -> State:
            self.assertFalse(began.is_set(), "one session")
            began.set()
            return State()

        client = self.running(self.serve(fake), handler, state=state).client
        self.assertTrue(began.wait(PATIENCE))
        expected = []
        for at in range(3000):
            name, roll = str(at), dice.randrange(6)
            if roll == 0:
                client.nodes(monoceros.node(name, {}))
                expected.append(f"node {name}")
            elif roll == 1:
                client.add_applications(monoceros.application(name, "ada"))
                expected.append(f"application {name}")
            elif roll == 2:
                client.release(monoceros.release("app", name))
                expected.append(f"release {name}")
            else:
                client.allocate(ask(name))
                expected.append(f"allocation {name}")
        client.flush(PATIENCE)
        self.assertEqual(fake.effects, expected)
        handler.until("all is received", lambda: len(handler.lines) >= len(expected))
        self.assertEqual(collections.Counter(handler.lines), collections.Counter(expected))
        fake.until("all is acknowledged", fake.all_acknowledged)
        self.assertGreater(len(fake.ends), 10, "breaks")

    def test_a_lost_session_is_restored_from_the_state(self) -> None:
        fake, handler = Fake(), Listener()
        sessions: List[str] = []

        def state() -> State:
            sessions.append(f"n{len(sessions) + 1}")
            return State(nodes=[monoceros.node(sessions[-1], {})])

        client = self.running(self.serve(fake), handler, state=state).client
        handler.until("the first session", lambda: len(handler.lines) == 2)
        fake.lose()
        handler.until("the second session", lambda: len(handler.lines) == 4)
        client.nodes(monoceros.node("later", {}))
        client.flush(PATIENCE)
        self.assertEqual(fake.effects, ["node n2", "node n2", "node later"])

    def test_streams_continue_after_the_last_message(self) -> None:
        fake, handler = Fake(), Listener()
        client = self.running(self.serve(fake), handler).client
        client.wait_registered(PATIENCE)
        client.nodes(monoceros.node("n", {}))
        handler.until_line("node n")
        fake.end(CODE.UNAVAILABLE)
        fake.until("six streams", lambda: len(fake.streams) == 6)
        self.assertEqual(sorted(one["x-si-resume"] for one in fake.streams[3:]), ["0", "0", "1"])
        self.assertEqual({one["x-si-client-seq"] for one in fake.streams[3:]}, {"1"})

    def test_items_sent_before_the_call_of_state_are_not_sent_again(self) -> None:
        entered, go = threading.Event(), threading.Event()

        class Slow(Listener):
            def nodes(self, message: si.NodeResponse) -> None:
                entered.set()
                go.wait(PATIENCE)
                super().nodes(message)

        fake, handler, sessions = Fake(), Slow(), Listener()
        client = self.running(
            self.serve(fake), handler, registered=lambda one: sessions.note(str(one.session))
        ).client
        self.addCleanup(go.set)
        client.wait_registered(PATIENCE)
        client.nodes(monoceros.node("slow", {}))
        self.assertTrue(entered.wait(PATIENCE))
        fake.lose()
        outbox = client._outbox
        with outbox._condition:
            # The new session waits for the handler, and calls the state then.
            self.assertTrue(outbox._condition.wait_for(lambda: outbox._is_open, PATIENCE))
        client.nodes(monoceros.node("early", {}))
        go.set()
        sessions.until_line("12")
        client.nodes(monoceros.node("later", {}))
        handler.until_line("node later")
        self.assertEqual(fake.effects, ["node later"])

    def test_requests_lost_by_the_scheduler_void_the_session(self) -> None:
        fake, handler = Fake(), Listener()
        client = self.running(self.serve(fake), handler).client
        client.wait_registered(PATIENCE)
        client.nodes(monoceros.node("n", {}))
        handler.until_line("node n")
        with fake.condition:
            fake.taken = 0
        fake.end(CODE.UNAVAILABLE)
        fake.until("the second registration", lambda: fake.session == 2)

    def test_each_registration_is_reported(self) -> None:
        fake, seen = Fake(), Listener()
        self.running(
            self.serve(fake),
            registered=lambda one: seen.note(f"{one.session} {one.outcome}"),
            broken=lambda why: seen.note(f"broken: {why}"),
        )
        seen.until_line("1 new")
        fake.lose()
        seen.until_line("12 new")
        self.assertIn("SESSION_STALE", seen.lines[-2])

    def test_messages_that_were_not_handled_come_again_to_another_client(self) -> None:
        fake = Fake()

        class Failing(Listener):
            def nodes(self, message: si.NodeResponse) -> None:
                raise KeyError("the disk is full")

        address = self.serve(fake)
        run = self.running(address, Failing(), state=lambda: State(nodes=[monoceros.node("n", {})]))
        error = run.ended()
        self.assertIsInstance(error, KeyError)
        self.assertEqual(fake.acked, dict.fromkeys(fake.acked, 0))
        for _ in range(2):
            with self.assertRaises(monoceros.EndedError) as ended:
                run.client.nodes(monoceros.node("m", {}))
            self.assertIs(ended.exception.__cause__, error)
            self.assertIsNone(ended.exception.__context__, "errors are not chained to each other")


class Ends(Case):
    def test_a_client_runs_once(self) -> None:
        run = self.running(self.serve(Fake()))
        run.client.wait_registered(PATIENCE)
        with self.assertRaises(monoceros.RunningError):
            run.client.run()

    def test_calls_after_close_say_that_the_client_has_ended(self) -> None:
        client = self.client("127.0.0.1:1")
        client.close()
        client.close()
        for call in (client.run, lambda: client.nodes(monoceros.node("n", {})), client.wait_registered,
                     client.deregister):
            self.assertRaises(monoceros.EndedError, call)
        run = self.running(self.serve(Fake()))
        run.client.wait_registered(PATIENCE)
        run.client.close()
        self.assertIsNone(run.ended())
        self.assertRaises(monoceros.EndedError, run.client.flush)

    def test_with_closes_the_client(self) -> None:
        with self.client(self.serve(Fake())) as client:
            thread = threading.Thread(target=client.run, daemon=True)
            thread.start()
            client.wait_registered(PATIENCE)
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())

    def test_a_handler_may_close_the_client(self) -> None:
        class Closing(Listener):
            def nodes(self, message: si.NodeResponse) -> None:
                run.client.close()

        run = self.running(self.serve(Fake()), Closing())
        run.client.wait_registered(PATIENCE)
        run.client.nodes(monoceros.node("n", {}))
        self.assertIsNone(run.ended())

    def test_streams_that_end_for_good_end_run(self) -> None:
        for code, reason in (
            (CODE.ABORTED, "SESSION_SUPERSEDED"),
            (CODE.ABORTED, "STREAM_DISPLACED"),
            (CODE.OK, "DEREGISTERED"),
            (CODE.ABORTED, "DEREGISTERED"),
            (CODE.INVALID_ARGUMENT, "RM_ID_MISMATCH"),
        ):
            fake, handler = Fake(), Listener()
            run = self.running(self.serve(fake), handler)
            run.client.wait_registered(PATIENCE)
            run.client.nodes(monoceros.node("n", {}))
            handler.until_line("node n")
            fake.end(code, reason)
            error = run.ended()
            assert isinstance(error, monoceros.CallError), error
            self.assertEqual((error.code, error.reason), (code, reason))
            self.assertEqual(fake.session, 1, "it does not register again")

    def test_a_refused_registration_ends_run(self) -> None:
        fake = Fake()
        fake.refusals = [(CODE.RESOURCE_EXHAUSTED, "LIMIT_SESSIONS"), (CODE.INVALID_ARGUMENT, "CONFIG_INVALID")]
        seen = Listener()
        run = self.running(self.serve(fake), broken=lambda why: seen.note(str(why)))
        error = run.ended()
        self.assertEqual(
            str(error), "register: INVALID_ARGUMENT: the text of CONFIG_INVALID [CONFIG_INVALID]"
        )
        self.assertEqual(seen.lines, ["register: RESOURCE_EXHAUSTED: the text of LIMIT_SESSIONS [LIMIT_SESSIONS]"])
        with self.assertRaises(monoceros.EndedError) as ended:
            run.client.wait_registered()
        self.assertIn("CONFIG_INVALID", str(ended.exception))

    def test_a_refused_deregistration_ends_nothing(self) -> None:
        fake = Fake()
        run = self.running(self.serve(fake))
        run.client.wait_registered(PATIENCE)
        fake.refusals = [(CODE.PERMISSION_DENIED, "ADMIN_DENIED")]
        with self.assertRaises(monoceros.CallError) as refused:
            run.client.deregister()
        self.assertEqual(refused.exception.reason, "ADMIN_DENIED")
        run.client.nodes(monoceros.node("n", {}))
        run.client.flush(PATIENCE)
        run.client.deregister("done")
        self.assertIsNone(run.ended())

    def test_a_client_that_has_ended_keeps_no_call(self) -> None:
        def calls() -> List[object]:
            return [one for one in gc.get_objects() if isinstance(one, grpc.Call) and id(one) not in before]

        before: Set[int] = set()
        earlier = calls()
        before.update(id(one) for one in earlier)
        # Only then is a call gone before the end of the program for sure.
        gc.disable()
        self.addCleanup(gc.enable)
        fake, callbacks = Fake(), monoceros.Callbacks(events=lambda events, dropped: None)
        run = self.running(self.serve(fake, FakeCallbacks()), callbacks=callbacks)
        run.client.wait_registered(PATIENCE)
        run.client.nodes(monoceros.node("n", {}))
        run.client.flush(PATIENCE)
        fake.lose()
        fake.until("the second session", lambda: len(fake.registrations) == 2)
        run.client.wait_registered(PATIENCE)
        run.client.deregister("done")
        self.assertIsNone(run.ended())
        self.soon("no call is left", lambda: not calls())

    def test_a_client_that_leaves_does_not_register_again(self) -> None:
        fake = Fake()
        run = self.running(self.serve(fake))
        run.client.wait_registered(PATIENCE)
        run.client.nodes(monoceros.node("n", {}))
        run.client.flush(PATIENCE)
        fake.refusals = [(CODE.UNAVAILABLE, "")]
        self.assertRaises(monoceros.CallError, run.client.deregister)
        fake.lose()
        self.assertIsNone(run.ended())
        self.assertEqual(len(fake.registrations), 1)

    def test_without_a_scheduler_the_reason_is_named(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        client = self.client(address)
        with self.assertRaises(monoceros.WaitError) as waited:
            client.wait_registered(0)
        self.assertIn("run was not called yet", str(waited.exception))
        seen = Listener()
        run = self.running(address, broken=lambda why: seen.note(str(why)))
        seen.until_line("register: UNAVAILABLE")
        self.assertIn("refused", seen.lines[0].lower())
        with self.assertRaises(TimeoutError) as late:
            run.client.wait_registered(0)
        self.assertIn("register: UNAVAILABLE", str(late.exception))

    def test_an_older_scheduler_is_named(self) -> None:
        fake = Fake()
        fake.numbers = False
        self.assertIsInstance(self.running(self.serve(fake)).ended(), monoceros.OldSchedulerError)


class Items(Case):
    def test_a_state_that_cannot_be_sent_ends_run(self) -> None:
        def fails() -> State:
            raise KeyError("the database is away")

        states: List[Any] = [
            fails,
            lambda: None,
            lambda: State(nodes=[None]),  # type: ignore[list-item]
            lambda: State(allocations=[si.NodeInfo()]),  # type: ignore[list-item]
        ]
        for state in states:
            error = self.running(self.serve(Fake()), state=state).ended()
            self.assertIsInstance(error, monoceros.StateError)
            self.assertIsNotNone(error and error.__cause__)

    def test_an_unsendable_item_does_not_block_others(self) -> None:
        fake, handler = Fake(), Listener()
        state = State(nodes=[monoceros.node("large", {}, {"rack": "x" * 2000}), monoceros.node("n", {})])
        client = self.running(self.serve(fake), handler, state=lambda: state, max_message=1024).client
        handler.until_line("no node large: node `large`: too large")
        handler.until_line("node n")
        with self.assertRaises(monoceros.ItemError) as raised:
            client.allocate(ask("a"), ask("x" * 2000), ask("b"))
        (refused,) = raised.exception.refused
        self.assertIn("allocation `xxx", refused.item)
        self.assertIn("may have 1024", refused.why)
        client.flush(PATIENCE)
        self.assertEqual(fake.effects[-2:], ["allocation a", "allocation b"])
        with self.assertRaises(TypeError) as wrong:
            client.allocate(ask("c"), None)  # type: ignore[arg-type]
        self.assertIn("item 2 of 2 is a NoneType, and no Allocation", str(wrong.exception))
        client.flush(PATIENCE)
        self.assertNotIn("allocation c", fake.effects)

    def test_a_full_queue_names_the_first_item_that_was_not_queued(self) -> None:
        client = self.client("127.0.0.1:1", waiting=2)
        with self.assertRaises(monoceros.WaitError) as late:
            client.allocate(ask("a"), ask("b"), ask("c"), timeout=0)
        self.assertIn("2 of 3 items of the call are dealt with, before allocation `c`", str(late.exception))

    def test_identity_is_shown_with_each_call(self) -> None:
        fake = Fake()
        tokens = iter(["first", "second"])
        run = self.running(self.serve(fake), token=lambda: next(tokens, "third"), instance="one", attach=True)
        run.client.wait_registered(PATIENCE)
        known: Dict[str, Any] = fake.registrations[0]
        self.assertEqual(known["authorization"], "Bearer first")
        self.assertEqual(known["x-si-instance"], "one")
        self.assertEqual(known["x-si-register-mode"], "attach")
        self.assertRegex(known["x-si-attempt"], "^[0-9a-f]{16}[.]1$")
