#!/usr/bin/env python3
"""A resource manager on the client library, in one file; see README.md beside it.

The scheduler keeps nothing on disk, so the shim keeps the state of both: nodes, asks, and the node of each running
task. The library reports that state whenever a session begins, and sends what changes. Messages may arrive twice, so
handling one twice changes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import pathlib
import signal
import sys
import threading
from typing import Any, Dict, Optional, Set

import grpc

import monoceros
from monoceros.si.v1 import types_pb2 as si
from monoceros.v1 import callback_pb2 as callback

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

CORE = {"vcore": 1_000}
CAPACITY = {"vcore": 4_000}

OUTPUT = threading.Lock()


class Shim(monoceros.Handler):
    def __init__(self) -> None:
        # The node of each task; None while it waits. Guarded by the lock, since orders come from another thread.
        self.tasks: Dict[str, Optional[str]] = {**dict.fromkeys(TASKS), **FOUND_RUNNING}
        # Running tasks that the present session has not confirmed yet.
        self.reported: Set[str] = set()
        self.lock = threading.Lock()
        self.client: monoceros.Client

    def state(self) -> monoceros.State:
        """Returns the full state."""
        with self.lock:
            self.reported = {task for task, node in self.tasks.items() if node}
            tasks = [allocation(task, node) for task, node in self.tasks.items()]
        # An agent on each node occupies capacity, and is not scheduled here.
        agents = [monoceros.allocation("", f"agent-{node}", CORE, node) for node in NODES]
        for agent in agents:
            agent.allocationTags["foreign"] = "static"
        return monoceros.State(
            nodes=[monoceros.node(node, CAPACITY) for node in NODES],
            applications=[monoceros.application(APPLICATION, "ada", "root.jobs")],
            allocations=agents + tasks,
        )

    def nodes(self, message: si.NodeResponse) -> None:
        for accepted in message.accepted:
            emit("node", node=accepted.nodeID, accepted=True)
        for rejected in message.rejected:
            emit("node", node=rejected.nodeID, accepted=False, reason=rejected.reason)

    def applications(self, message: si.ApplicationResponse) -> None:
        for accepted in message.accepted:
            emit("application", application=accepted.applicationID, accepted=True)
        for rejected in message.rejected:
            emit("application", application=rejected.applicationID, accepted=False, reason=rejected.reason)
        for updated in message.updated:
            emit("state", application=updated.applicationID, state=updated.state)

    def allocations(self, message: si.AllocationResponse) -> None:
        ended = []
        with self.lock:
            for new in message.new:
                self.place(new.allocationKey, new.nodeID)
            for refused in message.rejectedAllocations:
                self.tasks.pop(refused.allocationKey, None)
                emit("refusal", task=refused.allocationKey, reason=refused.reason)
            for gone in message.released:
                if self.tasks.pop(gone.allocationKey, None) is None:
                    continue
                emit("end", task=gone.allocationKey, message=gone.message)
                if gone.terminationType != si.TerminationType.STOPPED_BY_RM:
                    # The scheduler requested it. A real program stops the container first, because the confirmation
                    # frees the capacity.
                    ended.append(monoceros.release(APPLICATION, gone.allocationKey, gone.terminationType))
        self.client.release(*ended)

    def place(self, task: str, node: str) -> None:
        if task in self.reported:
            self.reported.discard(task)
            emit("recovered", task=task, node=node)
        elif task in self.tasks and self.tasks[task] != node:
            # A real program starts the container here. A task that has ended meanwhile is not started.
            self.tasks[task] = node
            emit("allocation", task=task, node=node)

    def obey(self, order: str, task: str) -> None:
        """Adds or ends a task: first in the state, and then by a message, which is sent without the lock."""
        if order == "run":
            with self.lock:
                if task in self.tasks:
                    return
                self.tasks[task] = None
            self.client.allocate(allocation(task, None))
            return
        with self.lock:
            # The release of a waiting ask is not answered. If it was placed in the meantime, the release ends the
            # allocation, too.
            if task in self.tasks and self.tasks[task] is None:
                del self.tasks[task]
                emit("end", task=task, message="it was still waiting")
        self.client.release(monoceros.release(APPLICATION, task))


def allocation(task: str, node: Optional[str]) -> si.Allocation:
    return monoceros.allocation(APPLICATION, task, CORE, node or "")


def predicate(question: monoceros.Question) -> monoceros.Answer:
    passes = question.node != TAINTED
    if not passes:
        emit("predicate", task=question.allocation, node=question.node, passes=False)
    return monoceros.Answer(passes, plugin="taints", reason="the node has a taint that the task does not tolerate")


def lost(addresses: str, why: BaseException) -> None:
    """Reports why the shim is not connected. The client goes on, unless `run` has raised the error."""
    print(f"not connected (address {addresses}): {why}", file=sys.stderr, flush=True)
    if isinstance(why, monoceros.CallError):
        emit("lost", code=why.code.name, reason=why.reason or why.code.name)
    else:
        emit("lost", reason=str(why))


def emit(saw: str, **what: Any) -> None:
    """Prints one line for each observation. The lock keeps lines of several threads apart: `print` writes the end of a
    line by itself."""
    with OUTPUT:
        print(json.dumps({"saw": saw, **what}), flush=True)


def read_orders(shim: Shim) -> None:
    for line in sys.stdin:
        words = line.split()
        if len(words) == 2 and words[0] in ("run", "end"):
            shim.obey(*words)
        else:
            print("orders are `run NAME` and `end NAME`", file=sys.stderr)


def credentials(arguments: argparse.Namespace) -> Optional[grpc.ChannelCredentials]:
    if arguments.ca is None:
        return None
    key, certificate = (path and path.read_bytes() for path in (arguments.key, arguments.cert))
    return grpc.ssl_channel_credentials(arguments.ca.read_bytes(), key, certificate)


def main() -> int:
    parser = argparse.ArgumentParser(description="a resource manager over gRPC")
    parser.add_argument(
        "--address",
        action="append",
        help="address of the scheduler, by default 127.0.0.1:50051; may be given for several members of a cluster",
    )
    parser.add_argument("--rm-id", default="python-example", help="as whom to register")
    parser.add_argument("--ca", type=pathlib.Path, help="speak TLS, and trust these certificates")
    parser.add_argument("--cert", type=pathlib.Path, help="the client certificate to show")
    parser.add_argument("--key", type=pathlib.Path, help="its private key")
    parser.add_argument("--token", type=pathlib.Path, help="a file with the bearer token to show")
    parser.add_argument("--pause", type=float, default=1.0, help="first pause, in seconds")
    arguments = parser.parse_args()
    target, *others = addresses = arguments.address or ["127.0.0.1:50051"]
    broken = functools.partial(lost, ", ".join(addresses))

    shim = Shim()
    shim.client = client = monoceros.Client(
        monoceros.Config(
            target,
            arguments.rm_id,
            shim.state,
            shim,
            other_addresses=others,
            # A taint does not depend on what runs where.
            callbacks=monoceros.Callbacks(predicate, scope=callback.Scope.SCOPE_STATIC),
            credentials=credentials(arguments),
            token=arguments.token.read_text().strip() if arguments.token else "",
            policy_group="queues",
            queues=QUEUES,
            version="example",
            registered=lambda registration: emit("registered", session=registration.session),
            broken=broken,
            pause=arguments.pause,
        )
    )

    def deregister() -> None:
        with client, contextlib.suppress(monoceros.Error):
            # If it fails, the scheduler forgets this resource manager a while after its streams have ended.
            client.deregister("done", timeout=10)

    def leave(*_: Any) -> None:
        # In a thread, because it waits for the scheduler. The program waits for it: a thread that is
        # cut off while it closes the channel can leave gRPC locked, and the program hanging.
        threading.Thread(target=deregister).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    threading.Thread(target=read_orders, args=(shim,), daemon=True).start()
    try:
        client.run()
    except monoceros.CallError as why:
        broken(why)
        return 1
    emit("left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
