"""Items of requests: their kinds and sizes, and functions that make the usual ones."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Mapping, Optional, Union

from google.protobuf.message import Message

from monoceros.errors import Refused, short
from monoceros.si.v1 import types_pb2 as si


class Kind(enum.IntEnum):
    """A stream of a session: that of nodes, applications or allocations."""

    NODE = 0
    APPLICATION = 1
    ALLOCATION = 2

    @property
    def stream(self) -> str:
        return f"{self.name.lower()} stream"


class Stage(enum.IntEnum):
    """The order in which the scheduler applies the items of one request."""

    NODE = 0
    NEW_APPLICATION = 0
    REMOVAL = 1
    EXISTING = 0
    ASK = 1
    RELEASE = 2


AnyItem = Union[
    si.NodeInfo, si.AddApplicationRequest, si.RemoveApplicationRequest, si.Allocation, si.AllocationRelease
]
AnyRequest = Union[si.NodeRequest, si.ApplicationRequest, si.AllocationRequest]
AnyReply = Union[si.NodeResponse, si.ApplicationResponse, si.AllocationResponse]

#: Bounds of the bytes of an item in a request beyond its own, and of the request itself.
_ITEM_OVERHEAD = 24
_REQUEST_OVERHEAD = 64


@dataclass(frozen=True)
class Item:
    """A unit to send."""

    kind: Kind
    stage: Stage
    message: AnyItem
    #: Size in a request, in bytes.
    size: int
    #: One, plus one for each allocation of a node, since the scheduler counts those, too.
    count: int

    @classmethod
    def of(cls, message: AnyItem) -> Item:
        kind, stage, count = Kind.ALLOCATION, Stage.RELEASE, 1
        if isinstance(message, si.NodeInfo):
            kind, stage, count = Kind.NODE, Stage.NODE, 1 + len(message.existingAllocations)
        elif isinstance(message, si.AddApplicationRequest):
            kind, stage = Kind.APPLICATION, Stage.NEW_APPLICATION
        elif isinstance(message, si.RemoveApplicationRequest):
            kind, stage = Kind.APPLICATION, Stage.REMOVAL
        elif isinstance(message, si.Allocation):
            stage = Stage.EXISTING if message.nodeID else Stage.ASK
        return cls(kind, stage, message, message.ByteSize() + _ITEM_OVERHEAD, count)

    def refused(self, most: int) -> Optional[Refused]:
        """Returns why the item cannot be sent in a message of at most `most` bytes; None if it can."""
        size = self.size + _REQUEST_OVERHEAD
        if size <= most:
            return None
        why = f"too large: a request with it has {size} bytes, and may have {most} (Config.max_message)"
        return Refused(name_of(self.message), why)


def new_request(kind: Kind) -> AnyRequest:
    if kind is Kind.NODE:
        return si.NodeRequest()
    if kind is Kind.APPLICATION:
        return si.ApplicationRequest()
    return si.AllocationRequest()


def add(request: AnyRequest, item: AnyItem) -> None:
    """Copies an item into a request of its kind."""
    if isinstance(request, si.NodeRequest) and isinstance(item, si.NodeInfo):
        request.nodes.append(item)
    elif isinstance(request, si.ApplicationRequest) and isinstance(item, si.AddApplicationRequest):
        request.new.append(item)
    elif isinstance(request, si.ApplicationRequest) and isinstance(item, si.RemoveApplicationRequest):
        request.remove.append(item)
    elif isinstance(request, si.AllocationRequest) and isinstance(item, si.Allocation):
        request.allocations.append(item)
    elif isinstance(request, si.AllocationRequest) and isinstance(item, si.AllocationRelease):
        request.releases.allocationsToRelease.append(item)
    else:
        raise AssertionError(f"a {type(item).__name__} in a {type(request).__name__}")


def name_of(item: Message) -> str:
    """Names an item in an error."""
    if isinstance(item, si.NodeInfo):
        return f"node `{short(item.nodeID)}`"
    if isinstance(item, si.AddApplicationRequest):
        return f"application `{short(item.applicationID)}`"
    if isinstance(item, si.RemoveApplicationRequest):
        return f"removal of application `{short(item.applicationID)}`"
    if isinstance(item, si.Allocation):
        return f"allocation `{short(item.allocationKey)}` of application `{short(item.applicationID)}`"
    if isinstance(item, si.AllocationRelease):
        return f"release of `{short(item.allocationKey)}` of application `{short(item.applicationID)}`"
    return f"an item of the type {type(item).__name__}"


Amounts = Mapping[str, int]


def resource(amounts: Amounts) -> si.Resource:
    """Makes an amount of each resource: `vcore` in thousandths of a core, `memory` in bytes, others in units."""
    return si.Resource(resources={name: si.Quantity(value=value) for name, value in amounts.items()})


def node(node_id: str, capacity: Amounts, attributes: Optional[Mapping[str, str]] = None) -> si.NodeInfo:
    """Makes a new node."""
    return si.NodeInfo(
        nodeID=node_id,
        action=si.NodeInfo.CREATE,
        schedulableResource=resource(capacity),
        attributes=attributes or {},
    )


def application(
    application_id: str, user: str, queue: str = "", tags: Optional[Mapping[str, str]] = None
) -> si.AddApplicationRequest:
    """Makes an application. Without a queue, the placement rules choose one."""
    return si.AddApplicationRequest(
        applicationID=application_id,
        queueName=queue,
        ugi=si.UserGroupInformation(user=user),
        tags=tags or {},
    )


def allocation(application_id: str, key: str, amounts: Amounts, node_id: str = "") -> si.Allocation:
    """Makes an ask; with a node, an allocation that runs there."""
    return si.Allocation(
        allocationKey=key, applicationID=application_id, nodeID=node_id, resourcePerAlloc=resource(amounts)
    )


def release(
    application_id: str, key: str, why: si.TerminationType = si.TerminationType.STOPPED_BY_RM
) -> si.AllocationRelease:
    """Makes the release of an allocation, or the withdrawal of an ask."""
    return si.AllocationRelease(applicationID=application_id, allocationKey=key, terminationType=why)
