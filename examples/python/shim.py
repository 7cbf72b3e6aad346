#!/usr/bin/env python3
"""A resource manager over gRPC in one file; see README.md beside it.

The scheduler keeps nothing on disk, so the shim keeps the state of both: nodes, asks, and the node of
each running task. When a session is lost, the shim registers again after a pause and reports its state
in the order of `Shim.session`. Messages may arrive twice, so handling one twice changes nothing.

Threads read the streams and put messages into one inbox; everything else happens in the main thread.
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
# Tasks that ran before this shim was started. A real program asks its nodes for them.
FOUND_RUNNING = {"found": "n1"}
# One more than the free capacity of untainted nodes.
TASKS = ["task-1", "task-2", "task-3", "task-4", "task-5", "task-6"]

# A new registration cannot help after these: the shim is invalid, not permitted or no longer
# wanted, or another process has taken over.
FINAL_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
}
FINAL_REASONS = {"SESSION_SUPERSEDED", "STREAM_DISPLACED", "DEREGISTERED"}


def make_stubs(build):
    """Generates the stubs in `build`, unless they are newer than the .proto files, and imports them."""
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
    """A signal asked the shim to leave. Raised at any point of the main thread."""


def leave(*_):
    raise Leave


class Session:
    """One session: a stream for each kind of request. Responses go to `inbox`."""

    def __init__(self, arguments, inbox):
        self.inbox = inbox
        self.requests = {}
        self.calls = []
        self.nodes_by_index = {}
        # The node of each placed request, by application and key, and the number of the last
        # change. A predicate about neighbours would read this.
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
        # A restarted scheduler refuses streams that name an earlier session.
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
        """Serves until a retry cannot help."""
        pause = self.arguments.pause
        while True:
            self.unanswered.clear()
            self.stood_since = None
            try:
                self.session()
            except Lost as lost:
                emit("lost", code=lost.code.name, reason=lost.reason)
                if lost.code in FINAL_CODES or lost.reason in FINAL_REASONS:
                    return 1
            if self.stood_since and time.monotonic() - self.stood_since > 60:
                pause = self.arguments.pause
            # Random, because a thousand shims that reconnect at the same moment would keep a
            # scheduler from starting.
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 1.6, 30)

    def session(self):
        """Runs one session. Reports the full state, whatever the scheduler knew before."""
        session = Session(self.arguments, self.inbox)
        try:
            emit("registered", session=session.id)
            self.report(session)
            self.stood_since = time.monotonic()
            while True:
                self.handle_next(session)
        except Leave:
            self.leave(session)
            raise
        finally:
            session.close()

    def report(self, session):
        """Reports the full state to the scheduler."""
        # The callback stream is ready before the scheduler decides anything.
        self.unanswered.add("callback")
        self.await_answers(session)

        # Nodes first, and closed: the allocations on them must be registered before new asks
        # arrive. Every node is answered.
        actions = si.NodeInfo.ActionFromRM
        nodes = [
            si.NodeInfo(nodeID=node, action=actions.CREATE_DRAIN, schedulableResource=cores(4))
            for node in NODES
        ]
        self.unanswered.update(NODES)
        session.send("node", si.NodeRequest(nodes=nodes))
        self.await_answers(session)

        application = si.AddApplicationRequest(
            applicationID=APPLICATION,
            queueName="root.jobs",
            partitionName="default",
            ugi=si.UserGroupInformation(user="ada"),
        )
        self.unanswered.add(APPLICATION)
        session.send("application", si.ApplicationRequest(new=[application]))
        self.await_answers(session)

        # Foreign allocations (an agent on each node) occupy capacity, and are not answered.
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
        self.await_answers(session)

        opened = [si.NodeInfo(nodeID=node, action=actions.DRAIN_TO_SCHEDULABLE) for node in NODES]
        session.send("node", si.NodeRequest(nodes=opened))
        self.allocations(session, tasks=[task for task, node in self.tasks.items() if not node])

    def await_answers(self, session):
        """Handles messages until every item sent before is answered."""
        orders = []
        while self.unanswered:
            self.handle_next(session, orders)
        for order in orders:
            self.inbox.put(order)

    def handle_next(self, session, orders=None):
        """Waits for one item of the inbox and handles it. With `orders`, puts orders aside there."""
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
            emit("alone")  # a scheduler that asks no predicates: every node will do
        elif kind == "node":
            self.handle_nodes(message)
        elif kind == "application":
            self.handle_applications(message)
        elif kind == "allocation":
            self.handle_allocations(session, message)
        elif kind == "callback":
            self.handle_question(session, message)

    def obey(self, session, order, task):
        if order == "end":
            stopped = si.TerminationType.STOPPED_BY_RM
            self.allocations(session, releases=[self.release(task, stopped)])
            if task in self.tasks and not self.tasks[task]:
                # The release of a waiting ask is not answered. If it was placed in the meantime,
                # the release ends the allocation, too.
                del self.tasks[task]
                emit("end", task=task, message="it was still waiting")
        elif task not in self.tasks:
            self.tasks[task] = None
            self.allocations(session, tasks=[task])

    def handle_nodes(self, response):
        for node in response.accepted:
            self.unanswered.discard(node.nodeID)
            emit("node", node=node.nodeID, accepted=True)
        for node in response.rejected:
            self.unanswered.discard(node.nodeID)
            emit("node", node=node.nodeID, accepted=False, reason=node.reason)

    def handle_applications(self, response):
        for application in response.accepted:
            self.unanswered.discard(application.applicationID)
            emit("application", application=application.applicationID, accepted=True)
        for application in response.rejected:
            self.unanswered.discard(application.applicationID)
            emit("application", accepted=False, reason=application.reason)
        for application in response.updated:
            emit("state", application=application.applicationID, state=application.state)

    def handle_allocations(self, session, response):
        for new in response.new:
            task, node = new.allocationKey, new.nodeID
            known = task in self.unanswered
            self.unanswered.discard(task)
            if task not in self.tasks or (self.tasks[task] == node and not known):
                continue  # ended meanwhile, or heard before
            # A real program starts the container here, unless it is running already.
            self.tasks[task] = node
            emit("recovered" if known else "allocation", task=task, node=node)
        for refused in response.rejectedAllocations:
            self.unanswered.discard(refused.allocationKey)
            self.tasks.pop(refused.allocationKey, None)
            emit("refusal", task=refused.allocationKey, reason=refused.reason)
        for gone in response.released:
            if self.tasks.pop(gone.allocationKey, None) is None:
                continue
            emit("end", task=gone.allocationKey, message=gone.message)
            if gone.terminationType != si.TerminationType.STOPPED_BY_RM:
                # The scheduler requested it. A real program stops the container first, because this
                # message frees the capacity.
                confirmed = self.release(gone.allocationKey, gone.terminationType)
                self.allocations(session, releases=[confirmed])

    def handle_question(self, session, message):
        body = message.WhichOneof("body")
        if body == "welcome":
            self.unanswered.discard("callback")
            emit("attached")
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
            # The first syncs of a stream list everything, so the view starts empty.
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
        """Sends asks of waiting tasks, allocations of running ones, and releases."""
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
        """Ends the session in order; the scheduler forgets this resource manager."""
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
    # The channel pings an idle connection to see whether it is alive.
    options = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 20_000)]
    if arguments.ca is None:
        return grpc.insecure_channel(arguments.address, options)
    key, certificate = (path and path.read_bytes() for path in (arguments.key, arguments.cert))
    trust = grpc.ssl_channel_credentials(arguments.ca.read_bytes(), key, certificate)
    return grpc.secure_channel(arguments.address, trust, options)


def evaluate(session, query):
    """Evaluates a task on the nodes of a query. Bit i of the answer is the node at position i."""
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
            emit("predicate", task=query.allocation_key, node=node, passes=False)
        else:
            bitmap[position // 8] |= 1 << (position % 8)
            passed += 1
            if query.assume:
                # The next questions must see the task on this node.
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


def emit(saw, **what):
    """Prints one line for each observation."""
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
        emit("left")
        return 0


if __name__ == "__main__":
    sys.exit(main())
