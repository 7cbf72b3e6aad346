"""A client of the scheduler for resource managers (RMs).

An RM reports its nodes and applications, asks for allocations, and receives their nodes. Requests are numbered and kept
until the scheduler acknowledges them; answers are acknowledged. So a broken connection neither loses nor repeats any.
After a restart of the scheduler the client registers again and reports the state, which it gets from the program
(`Config.state`). In a cluster it does so at another member when the one that serves it ends or falls silent.

    client = monoceros.Client(monoceros.Config("127.0.0.1:50051", "cluster-1", state, handler))
    client.run()

# Modules
`config` has the settings; `client` the calls and the loop that reconnects; `route` the addresses of a cluster and the
next one to try; `silence` the decision that a member has fallen silent; `life` the phases of a client; `session` the
streams of a session; `outbox` the queued requests and their numbers; `inbox` the received messages; `state` the report
of the full state; `items` the items of requests; `callbacks` the program's functions for the callback stream, `attach`
that stream, `lane` its queues, `outgoing` its answers and invalidations; `calls` the types and ends of gRPC calls;
`errors` the errors, and how the client continues after the end of a stream; `scope` the end of a run; `clock` the time.
The packages below (`monoceros.si.v1`, `monoceros.v1`) hold the stubs, which a program may use by themselves.
"""

from monoceros.callbacks import (
    Answer,
    Bundle,
    Callbacks,
    Eviction,
    Invalidation,
    Place,
    Placement,
    Preemption,
    Question,
    Refusal,
    View,
)
from monoceros.client import Client
from monoceros.config import Config, Registration
from monoceros.errors import (
    CallError,
    EndedError,
    Error,
    ItemError,
    OldSchedulerError,
    Refused,
    RunningError,
    StateError,
    WaitError,
)
from monoceros.inbox import Handler
from monoceros.items import allocation, application, node, release, resource
from monoceros.state import State

__all__ = [
    "Answer",
    "Bundle",
    "CallError",
    "Callbacks",
    "Client",
    "Config",
    "EndedError",
    "Error",
    "Eviction",
    "Handler",
    "Invalidation",
    "ItemError",
    "OldSchedulerError",
    "Place",
    "Placement",
    "Preemption",
    "Question",
    "Refusal",
    "Refused",
    "Registration",
    "RunningError",
    "State",
    "StateError",
    "View",
    "WaitError",
    "allocation",
    "application",
    "node",
    "release",
    "resource",
]
