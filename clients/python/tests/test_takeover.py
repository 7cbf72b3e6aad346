"""The client against fake members of a cluster: an owner that ends, falls silent or moves the RM, and redirects."""

from __future__ import annotations

import socket
import threading
from typing import Any, Callable, Dict, List, Tuple

import grpc

import monoceros
from monoceros.silence import TICK
from monoceros.si.v1 import types_pb2 as si
from monoceros.v1 import callback_pb2 as callback

from .fake import PATIENCE, Case, Fake, FakeCallbacks, FakeClock, Listener, Run, State

CODE = grpc.StatusCode
GONE = CODE.UNAVAILABLE, ""


class Members(Case):
    """Three members, and a client that knows the first."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.fakes = [Fake() for _ in range(3)]
        self.addresses = [self.serve(fake) for fake in self.fakes]
        for at, fake in enumerate(self.fakes):
            # The owner comes first.
            others = self.addresses[:at] + self.addresses[at + 1 :]
            fake.members = ",".join([self.addresses[at], *others])
            fake.scheduler = f"s{at}"
            fake.session = 100 * at
            fake.distance = 100

    def owned(self, at: int = 0, **more: Any) -> Tuple[Run, Listener]:
        """Returns a client, and what it observes. It calls the first member first and others in order, and the member
        `at` serves it."""
        seen, nodes = Listener(), [monoceros.node("n", {})]
        more = {
            "state": lambda: State(nodes=nodes),
            "registered": lambda one: seen.note(f"registered {one.session} at {one.scheduler}"),
            "broken": lambda why: seen.note(f"broken {getattr(why, 'reason', '') or why}"),
            **more,
        }
        client = self.client(self.addresses[0], more.pop("handler", None), self.clock, **more)
        client._route._shuffle = lambda _: None
        run = Run(client)
        self.addCleanup(run.ended)
        self.addCleanup(run.client.close)
        client.wait_registered(PATIENCE)
        self.connected(at)
        return run, seen

    def connected(self, at: int) -> None:
        """Waits until the client has reported its state to a member."""
        fake = self.fakes[at]
        fake.until("the state is reported", lambda: "node n" in fake.effects)

    def silent(self, so: Callable[[], bool]) -> None:
        """Lets the owner say nothing until something is so."""
        self.clock.steps(TICK, "the owner is given up", so)


class Losses(Members):
    def test_another_member_serves_after_the_end_of_the_owner(self) -> None:
        run, seen = self.owned()
        first, second, _ = self.fakes
        first.end(*GONE)
        self.connected(1)
        self.assertEqual(self.clock.pauses, [])
        seen.until_line("registered 101 at s1")
        self.assertEqual([line.split()[0] for line in seen.lines], ["registered", "broken", "registered"])
        (known,), (before,) = second.registrations, first.registrations
        self.assertRegex(known["x-si-proof"], "^[0-9a-f]{32}$")
        self.assertEqual(known["x-si-proof"], before["x-si-proof"])
        self.assertEqual((known["x-si-session"], known["x-si-redirect"]), ("1", "yes"))
        self.assertNotIn("x-si-session", before)
        self.assertNotIn("x-si-suspects", known)
        self.assertRegex(known["x-si-attempt"], "[.]2$")
        run.client.nodes(monoceros.node("later", {}))
        run.client.flush(PATIENCE)
        self.assertEqual(second.effects, ["node n", "node n", "node later"])
        with run.client.new_channel() as channel:
            self.assertIn(self.addresses[1], str(channel._channel.target()))  # type: ignore[attr-defined]

    def test_each_stream_asks_for_redirects_and_one_for_beats(self) -> None:
        self.owned()
        streams = self.fakes[0].streams
        self.assertEqual([one.get("x-si-redirect") for one in streams], ["yes"] * 3)
        self.assertEqual(sum("x-si-beat" in one for one in streams), 1)
        self.assertFalse(any("x-si-proof" in one for one in streams))

    def test_all_other_addresses_are_tried_before_a_pause(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            dead = f"127.0.0.1:{free.getsockname()[1]}"
        first, second, third = self.fakes
        first.members = ",".join([self.addresses[0], dead, self.addresses[1]])
        run, seen = self.owned(other_addresses=[self.addresses[2]])
        second.refuses = (CODE.UNAVAILABLE, "MEMBER_FENCED")
        first.end(*GONE)
        self.connected(2)
        self.assertEqual(self.clock.pauses, [])
        self.assertEqual(len(second.registrations), 1)

    def test_all_members_go_and_come_back(self) -> None:
        run, seen = self.owned()
        for fake in self.fakes:
            fake.set(refuses=(CODE.UNAVAILABLE, "MEMBER_FENCED"))
        self.fakes[0].end(*GONE)
        for fake in self.fakes:
            fake.until("three rounds", lambda fake=fake: len(fake.registrations) >= 3)  # type: ignore[misc]
        self.assertGreater(len(self.clock.pauses), 0)
        # These answers pass soon: the pauses do not grow.
        self.assertLess(max(self.clock.pauses), 0.0013)
        self.fakes[2].set(refuses=None)
        self.connected(2)

    def test_a_moved_session_goes_to_the_named_owner(self) -> None:
        self.owned()
        self.fakes[0].end(CODE.UNAVAILABLE, "SESSION_MOVED", self.addresses[2])
        self.connected(2)
        self.assertEqual(self.fakes[1].registrations, [])
        self.assertEqual(self.clock.pauses, [])

    def test_an_owner_that_wants_a_report_keeps_the_rm(self) -> None:
        run, _ = self.owned()
        for count, reason in enumerate(("RESYNC_REQUIRED", "MESSAGE_UNREADABLE"), 2):
            self.fakes[0].end(CODE.FAILED_PRECONDITION, reason)
            self.soon("streams again", lambda: run.client._session == count and run.client._life._last is None)
            self.connected(0)
        self.assertEqual([len(fake.registrations) for fake in self.fakes], [3, 0, 0])
        self.assertEqual(self.clock.pauses, [])

    def test_an_owner_that_ends_after_it_wanted_a_report_is_left(self) -> None:
        self.owned()
        self.fakes[0].refuses = (CODE.UNAVAILABLE, "MEMBER_FENCED")
        self.fakes[0].end(CODE.FAILED_PRECONDITION, "RESYNC_REQUIRED")
        self.connected(1)
        self.assertEqual([len(fake.registrations) for fake in self.fakes], [2, 1, 0])
        self.assertEqual(self.clock.pauses, [])

    def test_a_stale_session_registers_at_another_member(self) -> None:
        self.owned()
        self.fakes[0].end(CODE.FAILED_PRECONDITION, "SESSION_STALE")
        self.connected(1)
        self.assertEqual(self.clock.pauses, [])

    def test_a_slow_program_keeps_its_session(self) -> None:
        self.owned()
        self.fakes[0].end(CODE.UNAVAILABLE, "STREAM_STALLED")
        self.fakes[0].until("streams again", lambda: len(self.fakes[0].streams) == 6)
        self.assertEqual(len(self.fakes[0].registrations), 1)
        self.assertEqual(len(self.clock.pauses), 1)

    def test_a_superseded_session_ends_run(self) -> None:
        run, _ = self.owned()
        self.fakes[0].end(CODE.ABORTED, "SESSION_SUPERSEDED", self.addresses[1])
        error = run.ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual((error.reason, error.owner), ("SESSION_SUPERSEDED", self.addresses[1]))
        self.assertEqual(self.fakes[1].registrations, [])

    def leaving(self, run: Run) -> Tuple[threading.Thread, List[grpc.StatusCode]]:
        """Deregisters in another thread. Returns also the error, once there is one."""
        ends: List[grpc.StatusCode] = []

        def leave() -> None:
            try:
                run.client.deregister()
            except monoceros.CallError as why:
                ends.append(why.code)

        thread = threading.Thread(target=leave)
        thread.start()
        return thread, ends

    def test_a_deregistration_follows_the_loss_of_the_owner(self) -> None:
        run, _ = self.owned()
        first, second, _ = self.fakes
        first.set(answers=False, refusals=[GONE])
        self.addCleanup(first.set, answers=True)
        thread, ends = self.leaving(run)
        first.until("the call", lambda: first.deregistrations == 1)
        first.end(*GONE)
        self.connected(1)
        first.set(answers=True)
        self.assertIsNone(run.ended())
        thread.join(PATIENCE)
        self.assertEqual((ends, second.deregistrations), ([], 1))
        self.assertEqual([len(fake.registrations) for fake in self.fakes], [1, 1, 0])

    def test_a_deregistration_is_tried_again_while_a_member_cannot_decide(self) -> None:
        run, _ = self.owned()
        reasons = ["CLAIM_CONTENDED", "OWNER_UNREACHABLE", "ARBITER_UNAVAILABLE", "NOT_OWNER", "SESSION_MOVED"]
        self.fakes[0].set(refusals=[(CODE.UNAVAILABLE, reason) for reason in reasons])
        thread, ends = self.leaving(run)
        thread.join(PATIENCE)
        self.assertIsNone(run.ended())
        self.assertEqual((ends, self.fakes[0].deregistrations), ([], 6))
        self.assertEqual([len(fake.registrations) for fake in self.fakes], [1, 0, 0])

    def test_a_deregistration_that_gave_up_is_not_undone_when_the_owner_is_lost(self) -> None:
        run, _ = self.owned()
        first = self.fakes[0]
        first.set(answers=False)
        self.addCleanup(first.set, answers=True)
        with self.assertRaises(monoceros.CallError) as raised:
            run.client.deregister(timeout=0.3)
        # Nobody knows whether the owner has forgotten the RM.
        self.assertEqual(raised.exception.code, CODE.DEADLINE_EXCEEDED)
        first.end(*GONE)
        self.assertIsNone(run.ended())
        self.assertEqual([len(fake.registrations) for fake in self.fakes], [1, 0, 0])

    def test_the_only_member_keeps_the_session_over_a_break(self) -> None:
        self.fakes[0].members = self.addresses[0]
        self.owned()
        self.fakes[0].end(*GONE)
        self.fakes[0].until("streams again", lambda: len(self.fakes[0].streams) == 6)
        self.assertEqual(len(self.fakes[0].registrations), 1)
        self.assertEqual(len(self.clock.pauses), 1)

    def test_what_the_program_was_not_given_is_dropped(self) -> None:
        entered, go = threading.Event(), threading.Event()

        class Slow(Listener):
            def nodes(self, message: si.NodeResponse) -> None:
                super().nodes(message)
                if any(one.nodeID == "slow" for one in message.accepted):
                    entered.set()
                    go.wait(PATIENCE)

        handler = Slow()
        run, seen = self.owned(handler=handler)
        self.addCleanup(go.set)
        run.client.nodes(monoceros.node("slow", {}))
        self.assertTrue(entered.wait(PATIENCE))
        run.client.nodes(monoceros.node("dropped", {}))
        run.client.flush(PATIENCE)
        inbox = run.client._inbox
        with inbox._condition:
            self.assertTrue(inbox._condition.wait_for(lambda: bool(inbox._queue), PATIENCE))
        self.fakes[0].end(*GONE)
        seen.until_line("broken")
        go.set()
        self.connected(1)
        run.client.nodes(monoceros.node("later", {}))
        handler.until_line("node later")
        self.assertNotIn("node dropped", handler.lines)

    def test_the_proof_is_not_shown(self) -> None:
        run, seen = self.owned()
        proof = self.fakes[0].registrations[0]["x-si-proof"]
        self.fakes[0].end(*GONE)
        self.connected(1)
        shown = " ".join([repr(run.client), repr(run.client._config), str(run.client._route), *seen.lines])
        self.assertNotIn(proof, shown)

    def test_the_callback_stream_follows(self) -> None:
        callbacks = [FakeCallbacks() for _ in self.fakes]
        self.addresses = [self.serve(fake, one) for fake, one in zip(self.fakes, callbacks)]
        for at, fake in enumerate(self.fakes):
            fake.members = ",".join([self.addresses[at], *self.addresses[:at], *self.addresses[at + 1 :]])
        sizes = Listener()
        options = monoceros.Callbacks(events=lambda events, dropped: sizes.note(str(len(events))))
        self.owned(callbacks=options)
        batch = callback.EventBatch(first_seq=4, last_seq=4, events=[si.EventRecord()])
        callbacks[0].send(callback.CoreMessage(event_batch=batch))
        sizes.until_line("1")
        callbacks[0].answers("event_credit")
        callbacks[0].break_stream()
        callbacks[1].until("a stream", lambda: bool(callbacks[1].hellos))
        (hello,) = callbacks[1].hellos
        self.assertEqual((hello.session_id, hello.last_event_seq), (101, 0))
        self.connected(1)


class Redirects(Members):
    def test_a_redirected_registration_goes_to_the_owner(self) -> None:
        self.fakes[0].refuses = (CODE.UNAVAILABLE, "NOT_OWNER", self.addresses[2])
        run = self.running(self.addresses[0], clock=self.clock)
        run.client.wait_registered(PATIENCE)
        self.assertEqual((self.fakes[2].session, self.clock.pauses), (201, []))

    def test_a_redirected_session_that_moves_goes_to_the_named_owner(self) -> None:
        first, second, third = self.fakes
        first.refusals = [(CODE.UNAVAILABLE, "NOT_OWNER", self.addresses[1])]
        self.owned(at=1)
        second.end(CODE.UNAVAILABLE, "SESSION_MOVED", self.addresses[2])
        self.connected(2)
        self.assertEqual([len(fake.registrations) for fake in self.fakes], [1, 1, 1])
        self.assertEqual(self.clock.pauses, [])

    def test_members_that_name_each_other_are_asked_a_bounded_number_of_times(self) -> None:
        asked: List[str] = []

        def broken(why: BaseException) -> None:
            if not self.clock.pauses:
                asked.append(str(why))

        for at, fake in enumerate(self.fakes):
            fake.refuses = (CODE.UNAVAILABLE, "NOT_OWNER", self.addresses[(at + 1) % 3])
        run = self.running(self.addresses[0], clock=self.clock, other_addresses=self.addresses[1:], broken=broken)
        self.fakes[0].until("several rounds", lambda: len(self.fakes[0].registrations) > 5)
        self.assertLessEqual(len(asked), 6)
        self.fakes[1].set(refuses=None)
        run.client.wait_registered(PATIENCE)

    def test_members_forward_to_an_address_that_the_client_cannot_reach(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.fakes[0].refusals = [(CODE.UNAVAILABLE, "NOT_OWNER", f"127.0.0.1:{free.getsockname()[1]}")]
        run = self.running(self.addresses[0], clock=self.clock)
        run.client.wait_registered(PATIENCE)
        wishes = [one.get("x-si-redirect") for one in self.fakes[0].registrations]
        self.assertEqual(wishes, ["yes", None])


class Silences(Members):
    def test_a_silent_owner_is_suspected_once(self) -> None:
        _, seen = self.owned()
        first, second, third = self.fakes
        second.refusals = [(CODE.UNAVAILABLE, "CLAIM_CONTENDED")]
        self.silent(lambda: bool(second.registrations))
        self.connected(2)
        self.assertEqual(second.registrations[0]["x-si-suspects"], "s0")
        self.assertNotIn("x-si-suspects", third.registrations[0])
        self.assertIn("broken C_SILENT", seen.lines)
        self.assertEqual(self.clock.pauses, [])
        # The owner is given up for the time of some beats.
        self.assertLess(self.clock.time - 1000.0, 1.0)

    def test_the_only_member_is_registered_at_again_when_it_is_silent(self) -> None:
        first = self.fakes[0]
        first.members = self.addresses[0]
        _, seen = self.owned()
        self.silent(lambda: "broken C_SILENT" in seen.lines)
        first.until("the second registration", lambda: len(first.registrations) == 2)

    def test_beats_are_signs_of_life(self) -> None:
        run, _ = self.owned()
        for _ in range(40):
            self.clock.step(TICK)
            self.fakes[0].beat()
            # The client has received the beat.
            self.soon("the silence has ended", lambda: run.client._watch._silence._silent == 0)
        self.assertEqual(len(self.fakes[0].registrations), 1)
        self.assertEqual(self.fakes[1].registrations, [])

    def test_an_owner_that_another_member_hears_is_tried_once_more(self) -> None:
        self.owned()
        first, second, third = self.fakes
        second.refusals = [(CODE.UNAVAILABLE, "NOT_OWNER", self.addresses[0])]
        self.silent(lambda: len(first.registrations) > 1)
        self.assertNotIn("x-si-suspects", first.registrations[1])
        self.assertEqual((len(second.registrations), len(third.registrations)), (1, 0))
        self.assertEqual(self.clock.pauses, [])

    def test_if_that_fails_the_member_serves(self) -> None:
        self.owned()
        first, second, third = self.fakes
        second.refusals = [(CODE.UNAVAILABLE, "NOT_OWNER", self.addresses[0])]
        first.refuses = GONE
        self.silent(lambda: bool(second.registrations))
        self.connected(1)
        self.assertEqual(["x-si-suspects" in one for one in second.registrations], [True, False])
        self.assertEqual((third.registrations, self.clock.pauses), ([], []))

    def test_streams_that_never_open_are_given_up(self) -> None:
        self.fakes[0].opens = False
        self.addCleanup(self.fakes[0].set, opens=True)
        run = self.running(self.addresses[0], clock=self.clock, state=lambda: State(nodes=[monoceros.node("n", {})]))
        self.fakes[0].until("a stream", lambda: bool(self.fakes[0].streams))
        run.client._route._shuffle = lambda _: None
        self.clock.steps(TICK, "another member is asked", lambda: any(one.registrations for one in self.fakes[1:]))
        self.assertGreater(self.clock.time - 1000.0, 4.9)

    def test_a_registration_that_is_not_answered_is_given_up(self) -> None:
        self.fakes[0].answers = False
        self.addCleanup(self.fakes[0].set, answers=True)
        seen = Listener()
        run = self.running(
            self.addresses[0], clock=self.clock, other_addresses=[self.addresses[1]],
            broken=lambda why: seen.note(str(why)),
        )
        self.fakes[0].until("a registration", lambda: bool(self.fakes[0].registrations))
        self.clock.step(5.0)
        run.client.wait_registered(PATIENCE)
        self.assertEqual(seen.lines, ["register: DEADLINE_EXCEEDED: no answer within 5 s"])
        self.assertEqual(len(self.fakes[1].registrations), 1)

    def test_of_two_members_the_lost_one_is_tried_after_one_that_does_not_answer(self) -> None:
        first, second, _ = self.fakes
        first.members = ",".join(self.addresses[:2])
        self.owned()
        second.answers = False
        self.addCleanup(second.set, answers=True)
        first.end(*GONE)
        second.until("a registration", lambda: bool(second.registrations))
        self.clock.step(5.0)
        first.until("a registration", lambda: len(first.registrations) == 2)
        self.assertEqual(self.clock.pauses, [])

    def test_an_address_that_never_answers_is_given_up(self) -> None:
        mute = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(mute.close)
        # gRPC itself limits the attempt to connect, by the clock of the machine.
        options: Dict[str, Any] = {
            "grpc.min_reconnect_backoff_ms": 100,
            "grpc.initial_reconnect_backoff_ms": 100,
        }
        run = self.running(
            f"127.0.0.1:{mute.getsockname()[1]}", clock=self.clock, other_addresses=[self.addresses[1]],
            options=tuple(options.items()),
        )
        run.client.wait_registered(PATIENCE)
        self.assertEqual((self.fakes[1].session, self.clock.pauses), (101, []))


class Alone(Case):
    """Several addresses without a cluster."""

    def test_a_session_is_continued_at_its_address(self) -> None:
        fake, other, clock = Fake(), Fake(), FakeClock()
        run = self.running(self.serve(fake), clock=clock, other_addresses=[self.serve(other)])
        run.client.wait_registered(PATIENCE)
        fake.until("streams", lambda: len(fake.streams) == 3)
        run.client.flush(PATIENCE)
        fake.end(*GONE)
        fake.until("streams again", lambda: len(fake.streams) == 6)
        self.assertEqual((len(fake.registrations), other.registrations), (1, []))

    def test_a_restarted_scheduler_is_registered_at_again(self) -> None:
        fake, other, clock = Fake(), Fake(), FakeClock()
        run = self.running(self.serve(fake), clock=clock, other_addresses=[self.serve(other)])
        run.client.wait_registered(PATIENCE)
        fake.until("streams", lambda: len(fake.streams) == 3)
        fake.lose()
        fake.until("a registration", lambda: len(fake.registrations) == 2)
        self.assertEqual(other.registrations, [])
