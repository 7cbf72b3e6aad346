"""The client against the service. `MONOCEROS` names its program."""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional, Set, Tuple

import grpc

import monoceros
from monoceros import Answer, Question
from monoceros.si.v1 import types_pb2 as si
from monoceros.v1 import admin_pb2, admin_pb2_grpc
from monoceros.v1 import callback_pb2 as callback

from .fake import PATIENCE, Case, Listener, Run, State

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
"""
GUARANTEED = QUEUES + """            resources: {guaranteed: {vcore: 4}}
          - name: other
            resources: {guaranteed: {vcore: 4}}
            properties: {preemption.delay: 1s}
"""
README = pathlib.Path(__file__).parent.parent / "README.md"


class Service:
    """A running scheduler."""

    def __init__(self, address: str, settings: Dict[str, str]) -> None:
        program = os.environ["MONOCEROS"]
        self.process = subprocess.Popen(
            [program, "serve", "--grpc", address, "--http", "127.0.0.1:0"],
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"grpc=(\S+)", self.process.stdout.readline())
        assert found is not None, "the service does not say where it listens"
        self.address = found[1]

    def kill(self) -> None:
        """Ends the process at once; its state is lost."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Cluster(Listener):
    """A program that knows its state and records where allocations run."""

    def __init__(self, *nodes: si.NodeInfo) -> None:
        super().__init__()
        self.own_nodes = nodes
        #: The node of each task; empty while it waits.
        self.tasks: Dict[str, str] = {}
        #: Counts the starts of each task.
        self.started: Dict[str, int] = collections.Counter()

    def state(self) -> State:
        with self.condition:
            return State(
                nodes=self.own_nodes,
                applications=[monoceros.application("app", "ada", "root.jobs")],
                allocations=[task(key, node) for key, node in self.tasks.items()],
            )

    def run(self, client: monoceros.Client, *keys: str) -> None:
        """Adds tasks to the state and then sends them."""
        with self.condition:
            self.tasks.update(dict.fromkeys(keys, ""))
        client.allocate(*(task(key) for key in keys))

    def stop(self, client: monoceros.Client, key: str) -> None:
        with self.condition:
            del self.tasks[key]
        client.release(monoceros.release("app", key))

    def allocations(self, message: si.AllocationResponse) -> None:
        with self.condition:
            for one in message.new:
                if self.tasks.get(one.allocationKey) == "":
                    self.tasks[one.allocationKey] = one.nodeID
                    self.started[one.allocationKey] += 1
        super().allocations(message)

    def running(self) -> Dict[str, str]:
        with self.condition:
            return {key: node for key, node in self.tasks.items() if node}

    def until_running(self, count: int) -> Dict[str, str]:
        self.until(f"{count} tasks run", lambda: len(self.running()) == count)
        return self.running()


def task(key: str, node: str = "") -> si.Allocation:
    return monoceros.allocation("app", key, {"vcore": 1000}, node)


def node(name: str, cores: int) -> si.NodeInfo:
    return monoceros.node(name, {"vcore": cores * 1000})


class Cutter:
    """A proxy that cuts connections after some bytes in either direction."""

    def __init__(self, target: str, dice: random.Random) -> None:
        host, port = target.rsplit(":", 1)
        self.target = host, int(port)
        self.dice = dice
        self.cuts = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self.listening.accept()
                ours = socket.create_connection(self.target)
                # Queued answers are joined: the largest has to get through now and then.
                up, down = self.dice.randrange(1000, 21_000), self.dice.randrange(1000, 300_000)
                for pipe in ((theirs, ours, up), (ours, theirs, down)):
                    threading.Thread(target=self.pipe, args=pipe, daemon=True).start()

    def pipe(self, source: socket.socket, to: socket.socket, left: int) -> None:
        with contextlib.suppress(OSError):
            while left > 0:
                part = source.recv(min(left, 65536))
                if not part:
                    break
                to.sendall(part)
                left -= len(part)
        self.cuts += left <= 0
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Served(Case):
    """A test with a service that ends with it."""

    def setUp(self) -> None:
        if "MONOCEROS" not in os.environ:
            self.skipTest("MONOCEROS does not name the program of the service")

    def service(self, address: str = "127.0.0.1:0", **settings: str) -> Service:
        service = Service(address, settings)
        self.addCleanup(service.kill)
        return service

    def member(self, address: str, cluster: Cluster, **more: Any) -> Run:
        return self.running(address, cluster, **{"state": cluster.state, "queues": QUEUES, **more})

    def registered(self, address: str, cluster: Cluster, **more: Any) -> Run:
        run = self.member(address, cluster, **more)
        run.client.wait_registered(PATIENCE)
        return run


class Sessions(Served):
    def test_a_restart_of_the_scheduler_is_invisible(self) -> None:
        first = self.service()
        cluster = Cluster(node("n1", 2), node("n2", 2))
        registrations: List[monoceros.Registration] = []
        client = self.registered(first.address, cluster, registered=registrations.append).client
        cluster.run(client, "a", "b", "c", "d", "waits")
        before = cluster.until_running(4)
        first.kill()
        self.service(first.address)
        # The second scheduler has no free capacity until one of the reported tasks stops.
        gone = next(iter(before))
        cluster.stop(client, gone)
        (late,) = {"a", "b", "c", "d", "waits"} - set(before)
        cluster.until("the fifth runs", lambda: late in cluster.running())
        del before[gone]
        self.assertEqual(cluster.running(), {**before, late: cluster.tasks[late]}, "nothing has moved")
        self.assertEqual(set(cluster.started.values()), {1})
        one, other = registrations
        self.assertEqual((one.outcome, other.outcome), ("new", "new"))
        self.assertNotEqual(one.scheduler, other.scheduler)

    def test_another_address_serves_after_the_loss_of_the_first(self) -> None:
        first, second = self.service(), self.service()
        cluster = Cluster(node("n1", 2))
        registrations: List[monoceros.Registration] = []
        client = self.registered(
            first.address, cluster, registered=registrations.append, other_addresses=[second.address]
        ).client
        cluster.run(client, "a", "waits", "waits too")
        before = cluster.until_running(2)
        first.kill()
        gone, stays = before
        cluster.stop(client, gone)
        cluster.until("the third runs", lambda: len(cluster.running()) == 2 and gone not in cluster.tasks)
        self.assertIn(stays, cluster.running())
        self.assertEqual(set(cluster.started.values()), {1})
        self.assertEqual(len(registrations), 2)

    def test_cut_connections_neither_lose_nor_repeat_requests(self) -> None:
        cutter = Cutter(self.service().address, random.Random(34))
        self.addCleanup(cutter.listening.close)
        cluster = Cluster(node("n1", 1_000_000))
        sessions: List[monoceros.Registration] = []
        client = self.registered(cutter.address, cluster, registered=sessions.append).client
        keys = [f"t{at}" for at in range(1000)]
        for at, key in enumerate(keys):
            cluster.run(client, key)
            if at % 10 == 0:
                # Small messages, on all streams.
                client.nodes(node(f"n{at + 2}", 1))
                client.flush(PATIENCE)
        cluster.until_running(1000)
        for key in keys:
            cluster.stop(client, key)
        released = {f"release {key}" for key in keys}
        cluster.until("all is released", lambda: released <= set(cluster.lines))
        self.assertEqual({line for line, times in collections.Counter(cluster.lines).items() if times > 1}, set())
        self.assertEqual([line for line in cluster.lines if line.startswith("no ")], [])
        self.assertEqual(len(sessions), 1)
        self.assertGreaterEqual(cutter.cuts, 5)

    def test_a_second_instance_continues_the_numbers(self) -> None:
        service = self.service()
        cluster = Cluster(node("n1", 9))
        old = self.registered(service.address, cluster, instance="old")
        cluster.run(old.client, "a")
        cluster.until_running(1)

        def state() -> State:
            raise AssertionError("the state must not be requested")

        new = self.client(
            service.address, cluster, queues=QUEUES, instance="new", attach=True, state=state
        )
        # The item is queued before the client has a session.
        cluster.run(new, "b")
        run = Run(new)
        self.addCleanup(run.ended)
        self.addCleanup(new.close)
        cluster.until_running(2)
        error = old.ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual(error.reason, "STREAM_DISPLACED")
        cluster.stop(new, "a")
        cluster.until_line("release a")

    def test_a_superseded_session_ends_run(self) -> None:
        service = self.service()
        cluster = Cluster(node("n1", 2))
        first = self.registered(service.address, cluster, instance="first")
        first.client.nodes(node("n2", 1))
        first.client.flush(PATIENCE)
        self.registered(service.address, Cluster(node("n1", 2)), instance="second")
        error = first.ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual((error.code, error.reason), (grpc.StatusCode.ABORTED, "SESSION_SUPERSEDED"))

    def test_a_refused_registration_names_its_reason(self) -> None:
        run = self.member(self.service().address, Cluster(), queues="partitions: 7")
        error = run.ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual((error.op, error.reason), ("register", "CONFIG_INVALID"))
        self.assertIn("partitions", error.details)

    def test_a_smaller_message_limit_ends_run(self) -> None:
        service = self.service(MONOCEROS__GRPC__MAX_RECV_MESSAGE_BYTES="65536")
        large = monoceros.node("n1", {"vcore": 1}, {"rack": "x" * 100_000})
        cluster = Cluster(large, node("n2", 2))
        error = self.member(service.address, cluster).ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual(error.code, grpc.StatusCode.OUT_OF_RANGE)
        self.member(service.address, cluster, max_message=65536)
        cluster.until_line("node n2")
        cluster.until_line("no node n1: node `n1`: too large")


class Deregistrations(Served):
    def sessions(self, client: monoceros.Client) -> Set[str]:
        with client.new_channel() as channel:
            answer = admin_pb2_grpc.AdminServiceStub(channel).ListSessions(admin_pb2.ListSessionsRequest())
        return {one.rm_id for one in answer.sessions}

    def test_a_deregistration_ends_the_session_and_run(self) -> None:
        run = self.registered(self.service().address, Cluster(node("n1", 2)))
        self.assertEqual(self.sessions(run.client), {"rm"})
        run.client.deregister("moved away", PATIENCE)
        self.assertIsNone(run.ended())
        self.assertEqual(self.sessions(run.client), set())
        self.assertRaises(monoceros.EndedError, run.client.allocate, task("b"))

    def test_a_closed_client_keeps_its_session(self) -> None:
        run = self.registered(self.service().address, Cluster())
        run.client.close()
        self.assertIsNone(run.ended())
        self.assertEqual(self.sessions(run.client), {"rm"})

    def test_a_deregistration_by_an_operator_is_an_error(self) -> None:
        run = self.registered(self.service().address, Cluster(node("n1", 2)))
        # The streams must be open: before that, the client would register again when the session ends.
        run.client.nodes(node("n2", 1))
        run.client.flush(PATIENCE)
        with run.client.new_channel() as channel:
            request = admin_pb2.DeregisterResourceManagerRequest(rm_id="rm")
            admin_pb2_grpc.AdminServiceStub(channel).DeregisterResourceManager(request)
        error = run.ended()
        assert isinstance(error, monoceros.CallError)
        self.assertEqual(error.reason, "DEREGISTERED")
        self.assertEqual(self.sessions(run.client), set(), "it does not register again")


class Alone(monoceros.View):
    """Accepts a node only if no allocation is on it."""

    def __init__(self) -> None:
        self.nodes: Dict[Tuple[str, str], str] = {}

    def assume(self, placement: monoceros.Placement) -> None:
        self.nodes[placement.application, placement.allocation] = placement.node

    def forget(self, placement: monoceros.Placement) -> None:
        self.nodes.pop((placement.application, placement.allocation), None)

    def reset(self, placements: Any) -> None:
        self.nodes.clear()
        for placement in placements:
            self.assume(placement)

    def predicate(self, question: Question) -> Answer:
        for (application, allocation), name in self.nodes.items():
            if name == question.node and (application, allocation) != (question.application, question.allocation):
                return Answer(False, reason=f"{allocation} is there")
        return Answer(True)


class Callbacks(Served):
    def test_predicates_see_assumed_allocations(self) -> None:
        cluster, view = Cluster(node("n1", 9), node("n2", 9), node("n3", 9)), Alone()
        callbacks = monoceros.Callbacks(predicate=view.predicate, view=view)
        client = self.registered(self.service().address, cluster, callbacks=callbacks).client
        cluster.run(client, "a", "b", "c", "d")
        running = cluster.until_running(3)
        self.assertEqual(set(running.values()), {"n1", "n2", "n3"})
        cluster.stop(client, next(iter(running)))
        cluster.until_running(3)

    def test_an_invalidated_refusal_is_asked_again(self) -> None:
        cluster, asked = Cluster(node("n1", 9)), Listener()
        is_open = threading.Event()

        def predicate(question: Question) -> Answer:
            asked.note(question.node)
            return Answer(is_open.is_set(), reason="closed")

        callbacks = monoceros.Callbacks(predicate=predicate, scope=callback.Scope.SCOPE_STATIC)
        client = self.registered(self.service().address, cluster, callbacks=callbacks).client
        cluster.run(client, "a")
        asked.until_line("n1")
        is_open.set()
        client.invalidate(monoceros.Invalidation(nodes=["n1"]))
        cluster.until_running(1)

    def test_a_refused_placement_moves_to_another_node(self) -> None:
        cluster, refused = Cluster(node("n1", 9), node("n2", 9)), Listener()

        def confirm(placement: monoceros.Placement) -> Optional[monoceros.Refusal]:
            if refused.lines and refused.lines[0] != placement.node:
                return None
            refused.note(placement.node)
            return monoceros.Refusal("the disk is full")

        callbacks = monoceros.Callbacks(confirm=confirm)
        client = self.registered(self.service().address, cluster, callbacks=callbacks).client
        cluster.run(client, "a")
        running = cluster.until_running(1)
        self.assertNotEqual(running["a"], refused.lines[0])

    def test_events_reach_the_program(self) -> None:
        cluster, seen = Cluster(node("n1", 9)), Listener()
        callbacks = monoceros.Callbacks(
            events=lambda events, dropped: seen.note(*(f"{one.objectID} {one.referenceID}" for one in events))
        )
        client = self.registered(self.service().address, cluster, callbacks=callbacks).client
        cluster.run(client, "a")
        seen.until_line("app a")

    def test_the_service_gets_dumps_and_keeps_configurations(self) -> None:
        def save(config: str, extra: Any) -> str:
            if "kept" not in config:
                raise OSError("the disk is full")
            return QUEUES

        callbacks = monoceros.Callbacks(state_dump=lambda: b'{"pods": 3}', save_config=save)
        attached = Listener()
        callbacks.welcome = lambda _: attached.note("attached")
        client = self.registered(self.service().address, Cluster(), callbacks=callbacks).client
        attached.until_line("attached")
        with client.new_channel() as channel:
            wanted = admin_pb2.StateDumpParameters(rm_id="rm", sections=["rmDiagnostics"], include_rm=True)
            parts = admin_pb2_grpc.MetricsServiceStub(channel).GetStateDump(wanted)
            dump = b"".join(part.data for part in parts)
            self.assertIn(b'"pods":3', dump.replace(b" ", b""))
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            with self.assertLogs("monoceros", "ERROR"):
                for queue in ("kept", "lost"):
                    request = si.UpdateConfigurationRequest(rmID="rm", config=f"{QUEUES}          - name: {queue}\n")
                    answer = admin.UpdateConfig(request, metadata=(("x-si-persist", "true"),))
                    self.assertEqual(answer.success, queue == "kept", answer)
                    self.assertEqual("the disk is full" in answer.reason, queue == "lost", answer)

    def test_preemption_and_the_scale_up_signal_reach_the_program(self) -> None:
        cluster, failed = Cluster(node("n1", 4), node("n2", 4)), Listener()
        questions: List[monoceros.Preemption] = []

        def preemption(question: monoceros.Preemption) -> monoceros.Eviction:
            questions.append(question)
            return monoceros.Eviction(question.node == "n2", question.start)

        callbacks = monoceros.Callbacks(
            predicate=lambda _: Answer(True),
            preemption=preemption,
            container_states=lambda states: failed.note(*(one.allocationKey for one in states)),
        )
        service = self.service()
        client = self.registered(service.address, cluster, callbacks=callbacks, queues=GUARANTEED).client
        cluster.run(client, *(f"k{at}" for at in range(8)))
        cluster.until_running(8)
        urgent = monoceros.allocation("second", "urgent", {"vcore": 1000})
        urgent.preemptionPolicy.allowPreemptSelf = urgent.preemptionPolicy.allowPreemptOther = True
        client.add_applications(monoceros.application("second", "ada", "root.other"))
        client.allocate(urgent)
        failed.until_line("urgent")
        cluster.until_line("release k")
        self.assertEqual(questions[0].allocation, "urgent")
        self.assertTrue(questions[0].victims)


class Manual(Served):
    def test_the_first_example_starts_a_task(self) -> None:
        (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)[:1]
        self.assertLessEqual(code.count("\n"), 30)
        self.assertIn('"127.0.0.1:50051"', code)
        code = code.replace("127.0.0.1:50051", self.service().address)
        folder = str(pathlib.Path(monoceros.__file__).parent.parent)
        paths = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        program = subprocess.Popen(
            [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert program.stdout is not None
        try:
            self.assertEqual(program.stdout.readline(), "start task-1 on n1\n")
        finally:
            program.kill()
            program.wait()
            program.stdout.close()
