"""The full state of a resource manager, and the items that report it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, List, Sequence, Tuple, Type, TypeVar

from monoceros.errors import Refused
from monoceros.items import AnyReply, Item, Kind
from monoceros.si.v1 import types_pb2 as si

T = TypeVar("T")


@dataclass
class State:
    """The full state of an RM.

    The scheduler keeps nothing on disk, so all of it is reported whenever a session begins: at the start, and after a
    restart of the scheduler.
    """

    #: The nodes of the RM. Those with the action CREATE_DRAIN or DRAIN_NODE stay closed.
    nodes: Sequence[si.NodeInfo] = field(default_factory=list)
    #: The applications that have not ended.
    applications: Sequence[si.AddApplicationRequest] = field(default_factory=list)
    #: Allocations with a node are running; those that also have the tag `foreign` occupy capacity of the node; those
    #: without a node are asks.
    allocations: Sequence[si.Allocation] = field(default_factory=list)


def report(state: State, most: int) -> Tuple[List[Item], List[Tuple[Kind, AnyReply]]]:
    """Returns the items of a state in order, and the rejections of those larger than a message of `most` bytes.

    Nodes come first and closed, then applications, running allocations, the opening of the nodes, and asks. So
    nothing gets capacity that a running allocation has.
    """
    items: List[Item] = []
    opening: List[Item] = []
    asks: List[Item] = []
    nodes = si.NodeResponse()
    applications = si.ApplicationResponse()
    allocations = si.AllocationResponse()
    for node in _all(si.NodeInfo, state.nodes, "node"):
        closed = si.NodeInfo()
        closed.CopyFrom(node)
        closed.action = si.NodeInfo.CREATE_DRAIN
        item = Item.of(closed)
        refused = item.refused(most)
        if refused:
            nodes.rejected.add(nodeID=node.nodeID, reason=_reason(refused))
            continue
        items.append(item)
        if node.action not in (si.NodeInfo.CREATE_DRAIN, si.NodeInfo.DRAIN_NODE):
            # The attributes name the partition of the node.
            opened = si.NodeInfo(
                nodeID=node.nodeID, action=si.NodeInfo.DRAIN_TO_SCHEDULABLE, attributes=node.attributes
            )
            opening.append(Item.of(opened))
    for application in _all(si.AddApplicationRequest, state.applications, "application"):
        item = Item.of(application)
        refused = item.refused(most)
        if refused:
            applications.rejected.add(applicationID=application.applicationID, reason=_reason(refused))
        else:
            items.append(item)
    for allocation in _all(si.Allocation, state.allocations, "allocation"):
        item = Item.of(allocation)
        refused = item.refused(most)
        if refused:
            allocations.rejectedAllocations.add(
                applicationID=allocation.applicationID,
                allocationKey=allocation.allocationKey,
                reason=_reason(refused),
            )
        else:
            (items if allocation.nodeID else asks).append(item)
    replies: List[Tuple[Kind, AnyReply]] = []
    if nodes.rejected:
        replies.append((Kind.NODE, nodes))
    if applications.rejected:
        replies.append((Kind.APPLICATION, applications))
    if allocations.rejectedAllocations:
        replies.append((Kind.ALLOCATION, allocations))
    return items + opening + asks, replies


def _all(wanted: Type[T], items: Sequence[T], name: str) -> Iterator[T]:
    """Returns the items, each of which has to be of one type."""
    for at, item in enumerate(items):
        if not isinstance(item, wanted):
            raise TypeError(f"{name} {at + 1} of {len(items)} is a {type(item).__name__}, and no {wanted.__name__}")
        yield item


def _reason(refused: Refused) -> str:
    """Returns the reason of a rejection, with a code like those of the scheduler, which begin with R."""
    return f"{refused.item}: {refused.why} [C_TOO_LARGE]"
