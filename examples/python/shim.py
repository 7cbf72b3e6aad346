#!/usr/bin/env python3
"""A resource manager over gRPC, of one file: see README.md beside it.

The scheduler keeps nothing on disk, so the shim is the memory of both: which machines there are,
what it wants, and what runs where. Whenever a session is lost it registers again after a pause, and
reports all of that in the order of `Shim.session`. What it hears may come twice, so hearing something
twice changes nothing.

Threads read the streams and put what comes into one inbox; everything else happens in the main thread.
"""

import argparse
import json
import pathlib
import queue
import random
import signal
import sys
import threading
import time

import grpc

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: jobs
"""
APPLICATION = "job"
NODES = ["n1", "n2", "n3"]
TAINTED = "n3"
# What ran already when this shim was started, as a real one would find out from its machines.
FOUND_RUNNING = {"found": "n1"}
# One more than there is room for beside what runs and what is tainted.
TASKS = ["task-1", "task-2", "task-3", "task-4", "task-5", "task-6"]

# After these a new registration cannot help: we are wrong, not allowed or not wanted any more, or
# somebody else is us by now.
FINAL_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
}
FINAL_REASONS = {"SESSION_SUPERSEDED", "STREAM_DISPLACED", "DEREGISTERED"}


def make_stubs(build):
    """Makes the stubs in `build`, unless they are newer than the .proto files, and finds them there."""
    protos = sorted(PROTO.rglob("*.proto"))
    stamp = build / "made"
    newest = max(proto.stat().st_mtime for proto in protos)
    if not stamp.exists() or stamp.stat().st_mtime < newest:
        from grpc_tools import protoc

        build.mkdir(parents=True, exist_ok=True)
        outputs = [f"--python_out={build}", f"--grpc_python_out={build}"]
        names = [str(proto.relative_to(PROTO)) for proto in protos]
        if protoc.main(["protoc", f"-I{PROTO}", *outputs, *names]) != 0:
            sys.exit("the stubs cannot be made")
        stamp.touch()
    sys.path.insert(0, str(build))


class Lost(Exception):
    """The session is over; `code` and `reason` say why."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code
        self.reason = reason

    @classmethod
    def by(cls, error):
        trailers = dict(error.trailing_metadata() or ())
        return cls(error.code(), trailers.get("x-si-reason", error.code().name))


class Leave(Exception):
    """The shim was told to leave, by a signal, whatever it was about to do."""


def leave(*_):
    raise Leave


class Session:
    """One session: a stream for each kind of request; what comes back goes to `inbox`."""

    def __init__(self, arguments, inbox):
        self.inbox = inbox
        self.requests = {}
        self.calls = []
        self.nodes_by_index = {}
        # The node of each request that the scheduler has placed, by application and key, and how far
        # that is up to date. A rule about neighbours would look here.
        self.view = {}
        self.cache_seq = 0
        self.channel = channel_to(arguments)
        rm_id = arguments.rm_id
        scheduler = si_service.SchedulerStub(self.channel)
        registration = si.RegisterResourceManagerRequest(
            rmID=rm_id, version="example", policyGroup="queues", config=QUEUES
        )
        try:
            _, call = scheduler.RegisterResourceManager.with_call(
                registration, timeout=30, metadata=arguments.identity
            )
        except grpc.RpcError as error:
            self.channel.close()
            raise Lost.by(error) from error
        # A scheduler that has been restarted refuses streams that name a session of before.
        self.id = dict(call.initial_metadata()).get("x-si-session", "0")
        bound = (("x-si-rm-id", rm_id), ("x-si-session", self.id), *arguments.identity)
        hello = callback.Hello(
            rm_id=rm_id,
            session_id=int(self.id),
            capabilities=[callback.Capability.PREDICATES, callback.Capability.CACHE_SYNC],
        )
        callbacks = callback_service.CallbackServiceStub(self.channel)
        self.open("callback", callbacks.Attach, arguments.identity, callback.ShimMessage(hello=hello))
        self.open("node", scheduler.UpdateNode, bound)
        self.open("application", scheduler.UpdateApplication, bound)
        self.open("allocation", scheduler.UpdateAllocation, bound)

    def open(self, kind, method, metadata, *first):
        requests = self.requests[kind] = queue.SimpleQueue()
        for request in first:
            requests.put(request)
        replies = method(iter(requests.get, None), metadata=metadata)
        self.calls.append(replies)
        threading.Thread(target=self.read, args=(kind, replies), daemon=True).start()

    def read(self, kind, replies):
        try:
            for reply in replies:
                self.inbox.put((self, kind, reply))
            trailers = dict(replies.trailing_metadata() or ())
            lost = Lost(grpc.StatusCode.OK, trailers.get("x-si-reason", "STREAM_ENDED"))
        except grpc.RpcError as error:
            lost = Lost.by(error)
        without_callbacks = kind == "callback" and lost.code == grpc.StatusCode.UNIMPLEMENTED
        self.inbox.put((self, "alone", None) if without_callbacks else (self, "lost", lost))

    def send(self, kind, request):
        self.requests[kind].put(request)

    def close(self):
        for requests in self.requests.values():
            requests.put(None)
        for call in self.calls:
            call.cancel()
        self.channel.close()


class Shim:
    def __init__(self, arguments):
        self.arguments = arguments
        self.tasks = dict.fromkeys(TASKS) | FOUND_RUNNING  # the node of each; None while it waits
        self.inbox = queue.SimpleQueue()
        self.unanswered = set()
        self.stood_since = None

    def run(self):
        """Serves until trying again cannot help."""
        pause = self.arguments.pause
        while True:
            self.unanswered.clear()
            self.stood_since = None
            try:
                self.session()
            except Lost as lost:
                say("lost", code=lost.code.name, reason=lost.reason)
                if lost.code in FINAL_CODES or lost.reason in FINAL_REASONS:
                    return 1
            if self.stood_since and time.monotonic() - self.stood_since > 60:
                pause = self.arguments.pause
            # A thousand shims that come back at one moment would keep a scheduler from starting.
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 1.6, 30)

    def session(self):
        """One session. Whatever the scheduler may have known before, this tells it all."""
        session = Session(self.arguments, self.inbox)
        try:
            say("registered", session=session.id)
            self.report(session)
            self.stood_since = time.monotonic()
            while True:
                self.hear(session)
        except Leave:
            self.leave(session)
            raise
        finally:
            session.close()

    def report(self, session):
        """Brings a scheduler that knows nothing up to date."""
        # Once the scheduler knows whom to ask, it asks before it decides.
        self.unanswered.add("callback")
        self.hear_answers(session)

        # Machines first, and closed: what runs on them already is to be on the books before anything
        # new comes. Every one is answered.
        actions = si.NodeInfo.ActionFromRM
        nodes = [
            si.NodeInfo(nodeID=node, action=actions.CREATE_DRAIN, schedulableResource=cores(4))
            for node in NODES
        ]
        self.unanswered.update(NODES)
        session.send("node", si.NodeRequest(nodes=nodes))
        self.hear_answers(session)

        application = si.AddApplicationRequest(
            applicationID=APPLICATION,
            queueName="root.jobs",
            partitionName="default",
            ugi=si.UserGroupInformation(user="ada"),
        )
        self.unanswered.add(APPLICATION)
        session.send("application", si.ApplicationRequest(new=[application]))
        self.hear_answers(session)

        # What belongs to nobody here (an agent on each machine) takes room, and is not answered.
        agents = [
            si.Allocation(
                allocationKey=f"agent-{node}",
                nodeID=node,
                resourcePerAlloc=cores(1),
                allocationTags={"foreign": "static"},
            )
            for node in NODES
        ]
        session.send("allocation", si.AllocationRequest(allocations=agents))
        running = [task for task, node in self.tasks.items() if node]
        self.unanswered.update(running)
        self.allocations(session, tasks=running)
        self.hear_answers(session)

        opened = [si.NodeInfo(nodeID=node, action=actions.DRAIN_TO_SCHEDULABLE) for node in NODES]
        session.send("node", si.NodeRequest(nodes=opened))
        self.allocations(session, tasks=[task for task, node in self.tasks.items() if not node])

    def hear_answers(self, session):
        """Goes on until everything that was sent is answered."""
        orders = []
        while self.unanswered:
            self.hear(session, orders)
        for order in orders:
            self.inbox.put(order)

    def hear(self, session, orders=None):
        """Waits for one thing and deals with it; with `orders`, puts those aside."""
        item = source, kind, message = self.inbox.get()
        if source is None and orders is not None:
            orders.append(item)
        elif source is None:
            self.obey(session, kind, message)
        elif source is not session:
            return  # the last words of an earlier session
        elif kind == "lost":
            raise message
        elif kind == "alone":
            self.unanswered.discard("callback")
            say("alone")  # a scheduler that asks no predicates: every node will do
        elif kind == "node":
            self.hear_nodes(message)
        elif kind == "application":
            self.hear_applications(message)
        elif kind == "allocation":
            self.hear_allocations(session, message)
        elif kind == "callback":
            self.hear_question(session, message)

    def obey(self, session, order, task):
        if order == "end":
            stopped = si.TerminationType.STOPPED_BY_RM
            self.allocations(session, releases=[self.release(task, stopped)])
            if task in self.tasks and not self.tasks[task]:
                # The release of what still waits is not answered. If it was placed just now, the
                # release ends that, too.
                del self.tasks[task]
                say("end", task=task, message="it was still waiting")
        elif task not in self.tasks:
            self.tasks[task] = None
            self.allocations(session, tasks=[task])

    def hear_nodes(self, response):
        for node in response.accepted:
            self.unanswered.discard(node.nodeID)
            say("node", node=node.nodeID, accepted=True)
        for node in response.rejected:
            self.unanswered.discard(node.nodeID)
            say("node", node=node.nodeID, accepted=False, reason=node.reason)

    def hear_applications(self, response):
        for application in response.accepted:
            self.unanswered.discard(application.applicationID)
            say("application", application=application.applicationID, accepted=True)
        for application in response.rejected:
            self.unanswered.discard(application.applicationID)
            say("application", accepted=False, reason=application.reason)
        for application in response.updated:
            say("state", application=application.applicationID, state=application.state)

    def hear_allocations(self, session, response):
        for new in response.new:
            task, node = new.allocationKey, new.nodeID
            known = task in self.unanswered
            self.unanswered.discard(task)
            if task not in self.tasks or (self.tasks[task] == node and not known):
                continue  # ended meanwhile, or heard before
            # A real one starts the container here, unless it runs already.
            self.tasks[task] = node
            say("recovered" if known else "allocation", task=task, node=node)
        for refused in response.rejectedAllocations:
            self.unanswered.discard(refused.allocationKey)
            self.tasks.pop(refused.allocationKey, None)
            say("refusal", task=refused.allocationKey, reason=refused.reason)
        for gone in response.released:
            if self.tasks.pop(gone.allocationKey, None) is None:
                continue
            say("end", task=gone.allocationKey, message=gone.message)
            if gone.terminationType != si.TerminationType.STOPPED_BY_RM:
                # The scheduler's wish. A real one stops the container first: the room is free from
                # this message on.
                confirmed = self.release(gone.allocationKey, gone.terminationType)
                self.allocations(session, releases=[confirmed])

    def hear_question(self, session, message):
        body = message.WhichOneof("body")
        if body == "welcome":
            self.unanswered.discard("callback")
            say("attached")
        elif body == "node_dictionary":
            change = message.node_dictionary
            if change.reset:
                session.nodes_by_index.clear()
            session.nodes_by_index.update({node.index: node.node_id for node in change.add})
            for index in change.remove:
                session.nodes_by_index.pop(index, None)
        elif body == "predicate_batch":
            batch = message.predicate_batch
            results = callback.PredicateResults(
                batch_id=batch.batch_id,
                cache_seq=session.cache_seq,
                last=True,
                results=[evaluate(session, query) for query in batch.queries],
            )
            session.send("callback", callback.ShimMessage(predicate_results=results))
        elif body == "cache_sync":
            # The first ones of a stream list everything, and our view of it begins empty.
            sync = message.cache_sync
            for placed in sync.args.assumedAllocations:
                session.view[placed.applicationID, placed.allocationKey] = placed.nodeID
            for gone in sync.args.forgetAllocations:
                session.view.pop((gone.applicationID, gone.allocationKey), None)
            session.cache_seq = sync.cache_seq
        elif body == "heartbeat" and message.heartbeat.reply:
            echo = callback.Heartbeat()
            echo.CopyFrom(message.heartbeat)
            echo.reply = False
            session.send("callback", callback.ShimMessage(heartbeat=echo))

    def allocations(self, session, tasks=(), releases=()):
        """Requests tasks that wait, reports those that run, and releases."""
        allocations = [
            si.Allocation(
                allocationKey=task,
                applicationID=APPLICATION,
                partitionName="default",
                nodeID=self.tasks[task] or "",
                resourcePerAlloc=cores(1),
            )
            for task in tasks
        ]
        released = si.AllocationReleasesRequest(allocationsToRelease=releases)
        request = si.AllocationRequest(allocations=allocations, releases=released)
        session.send("allocation", request)

    def release(self, task, why):
        return si.AllocationRelease(
            allocationKey=task,
            applicationID=APPLICATION,
            partitionName="default",
            terminationType=why,
        )

    def leave(self, session):
        """Ends the session in order; the scheduler forgets what it knew of us."""
        admin = admin_service.AdminServiceStub(session.channel)
        goodbye = admin_messages.DeregisterResourceManagerRequest(
            rm_id=self.arguments.rm_id, reason="done"
        )
        try:
            admin.DeregisterResourceManager(
                goodbye, timeout=10, metadata=self.arguments.identity
            )
        except grpc.RpcError:
            pass  # then it forgets us a while after our streams have ended


def channel_to(arguments):
    # A connection that says nothing for long is asked whether it is still there.
    options = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 20_000)]
    if arguments.ca is None:
        return grpc.insecure_channel(arguments.address, options)
    key, certificate = (path and path.read_bytes() for path in (arguments.key, arguments.cert))
    trust = grpc.ssl_channel_credentials(arguments.ca.read_bytes(), key, certificate)
    return grpc.secure_channel(arguments.address, trust, options)


def evaluate(session, query):
    """On which of these nodes may this task run? Bit i of the answer is the node at position i."""
    nodes = [session.nodes_by_index.get(index) for index in query.node_index] + list(query.node_ids)
    first_fit = query.mode == callback.EvalMode.FIRST_FIT
    wanted = max(query.want, 1) if first_fit else len(nodes)
    passed, evaluated = 0, 0
    bitmap = bytearray((len(nodes) + 7) // 8)
    refused = bytearray(len(bitmap))
    for position, node in enumerate(nodes):
        if passed == wanted:
            break
        evaluated += 1
        if node is None or node == TAINTED:
            refused[position // 8] |= 1 << (position % 8)
            say("predicate", task=query.allocation_key, node=node, passes=False)
        else:
            bitmap[position // 8] |= 1 << (position % 8)
            passed += 1
            if query.assume:
                # The questions after this one are to see it there.
                session.view[query.application_id, query.allocation_key] = node
    failures = []
    if evaluated > passed:
        failure = callback.FailureGroup(
            plugin="taints",
            reason="the node has a taint that the task does not tolerate",
            fail_bitmap=bytes(refused),
            count=evaluated - passed,
        )
        failures.append(failure)
    return callback.PredicateResult(
        query_id=query.query_id,
        outcome=callback.Outcome.EVALUATED,
        evaluated=evaluated,
        pass_bitmap=bytes(bitmap),
        failures=failures,
        scope=callback.Scope.SCOPE_STATIC,  # a taint does not depend on what runs where
    )


def cores(count):
    return si.Resource(resources={"vcore": si.Quantity(value=count * 1000)})


def say(saw, **what):
    """One line for each thing that is seen."""
    print(json.dumps({"saw": saw, **what}), flush=True)


def read_orders(inbox):
    for line in sys.stdin:
        words = line.split()
        if len(words) == 2 and words[0] in ("run", "end"):
            inbox.put((None, *words))
        else:
            print("orders are `run NAME` and `end NAME`", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description="a resource manager over gRPC")
    parser.add_argument("--address", default="127.0.0.1:50051", help="where the scheduler listens")
    parser.add_argument("--rm-id", default="python-example", help="as whom to register")
    parser.add_argument("--build", type=pathlib.Path, default=HERE / "build", help="for the stubs")
    parser.add_argument("--ca", type=pathlib.Path, help="speak TLS, and trust these certificates")
    parser.add_argument("--cert", type=pathlib.Path, help="the client certificate to show")
    parser.add_argument("--key", type=pathlib.Path, help="its private key")
    parser.add_argument("--token", type=pathlib.Path, help="a file with the bearer token to show")
    parser.add_argument("--pause", type=float, default=1.0, help="first pause, in seconds")
    arguments = parser.parse_args()
    token = arguments.token and arguments.token.read_text().strip()
    arguments.identity = (("authorization", f"Bearer {token}"),) if token else ()

    make_stubs(arguments.build)
    global si, admin_messages, si_service, admin_service, callback, callback_service
    from monoceros.si.v1 import scheduler_pb2_grpc as si_service
    from monoceros.si.v1 import types_pb2 as si
    from monoceros.v1 import admin_pb2 as admin_messages
    from monoceros.v1 import admin_pb2_grpc as admin_service
    from monoceros.v1 import callback_pb2 as callback
    from monoceros.v1 import callback_pb2_grpc as callback_service

    shim = Shim(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    threading.Thread(target=read_orders, args=(shim.inbox,), daemon=True).start()
    try:
        return shim.run()
    except Leave:
        say("left")
        return 0


if __name__ == "__main__":
    sys.exit(main())
