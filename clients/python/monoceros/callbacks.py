"""The program's functions for the callback stream, and the data that they receive and return (docs/callback.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, List, Mapping, Optional, Sequence

from monoceros.si.v1 import types_pb2 as si
from monoceros.v1 import callback_pb2 as callback


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Question:
    """A question about one request and one node."""

    application: str
    allocation: str
    node: str
    #: False if allocations must leave the node first; such a question must not be counted.
    allocate: bool = True
    #: The number of the gang that is decided as a whole with the request, or zero.
    bundle: int = 0
    #: The task group of a member whose request has not arrived (`Callbacks.holds`); `allocation` is empty then.
    task_group: str = ""
    #: Returns True once the scheduler wants no answer any more: the question is cancelled or late, or the stream has
    #: ended.
    is_over: Callable[[], bool] = field(default=_never, repr=False, compare=False)


@dataclass(frozen=True)
class Answer:
    """Whether a request may run on a node."""

    fits: bool
    #: The reason of a refusal, shown to users, and the part of the program that has it.
    reason: str = ""
    plugin: str = ""
    #: The dependencies of the answer; None means `Callbacks.scope`. Of several answers about one request, that of the
    #: fitting node counts, or of the last.
    scope: Optional[callback.Scope] = None
    #: The topics, numbers of the program's own choice, that the answer depends on besides its own node, and those
    #: that the request affects on other nodes. Used if the scope is the topology; None means all. Needs
    #: `Callbacks.view` or `Callbacks.confirm`.
    elsewhere: Optional[callback.Elsewhere] = None
    #: None for an answer. Any other value ends the questions about this request, and no node fits: UNKNOWN_ALLOCATION
    #: (the program does not know the request), ERROR (the program failed; `reason` has details), SHED (the program is
    #: overloaded and wants to be asked later) or STALE (its view is too old).
    outcome: Optional[callback.Outcome] = None


@dataclass(frozen=True)
class Placement:
    """An allocation on a node. Two applications may use the same name for an allocation."""

    application: str
    allocation: str
    #: Empty in `View.forget`.
    node: str = ""


class View:
    """The program's model of the allocations on nodes."""

    def assume(self, placement: Placement) -> None:
        """Counts an allocation as running on its node."""
        raise NotImplementedError

    def forget(self, placement: Placement) -> None:
        """Removes an allocation from its node."""
        raise NotImplementedError

    def reset(self, placements: Sequence[Placement]) -> None:
        """Receives all placements of the scheduler that the program itself has not reported.

        Any other assumed placement does not exist.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Refusal:
    """The reason why a placement is not confirmed."""

    reason: str
    #: Allows the scheduler to place the request on this node again. Otherwise it excludes the node for five minutes.
    same_node: bool = False


@dataclass(frozen=True)
class Place:
    """The place of one member of a gang."""

    member: int
    allocation: str
    node: str
    #: The task group of a member whose request has not arrived; `allocation` is empty then.
    task_group: str = ""


@dataclass(frozen=True)
class Bundle:
    """Lists the intended places of members of a gang. A member that was reported before has moved."""

    id: int
    application: str
    places: Sequence[Place]
    #: The number of a bundle whose places are void, or zero.
    over: int = 0


@dataclass(frozen=True)
class Preemption:
    """A question whether a request fits on a node once victims have left it."""

    allocation: str
    node: str
    victims: Sequence[str]
    #: At least the victims up to this index leave.
    start: int
    #: The same as `Question.is_over`.
    is_over: Callable[[], bool] = field(default=_never, repr=False, compare=False)


@dataclass(frozen=True)
class Eviction:
    """The answer to a `Preemption`."""

    #: False if the request does not fit even without all victims.
    fits: bool
    #: The index of the last victim that has to leave, in the order of the question; -1 if none has to.
    last: int = -1


@dataclass(frozen=True)
class Invalidation:
    """Names requests and nodes whose earlier refusals may be outdated."""

    #: Nodes on which requests may fit now.
    nodes: Sequence[str] = ()
    #: Keys of requests that may fit now.
    allocations: Sequence[str] = ()
    #: Every request on every node.
    all: bool = False


@dataclass
class Callbacks:
    """Functions in addition to `Handler`. The scheduler sends only messages for which a function is set.

    `predicate`, `preemption`, `view`, `confirm` and `members` are called one at a time, in the order of the
    scheduler's messages. `events`, `container_states`, and `save_config` with `state_dump` are each called one at a
    time, too, while others run.

    An exception of `predicate`, `preemption`, `confirm`, `state_dump` or `save_config` is logged and answered as an
    error or a refusal. An exception of any other function ends `Client.run`, which raises it.
    """

    #: Returns whether a request may run on a node.
    predicate: Optional[Callable[[Question], Answer]] = None
    #: Enables questions about places held for members of a gang whose requests have not arrived: such a question has
    #: a task group and no allocation. Without it, such members may use every node with enough capacity.
    holds: bool = False
    #: The dependencies of answers: nothing that changes (SCOPE_STATIC), allocations on the node (SCOPE_NODE), or
    #: allocations on any node (SCOPE_TOPOLOGY, the default). The scheduler repeats a question whose answer is
    #: outdated when it arrives. Without `view` and `confirm`, an answer of SCOPE_STATIC is valid as usual, one of
    #: SCOPE_NODE until an allocation is added to or removed from that node, and each placement invalidates all
    #: answers of SCOPE_TOPOLOGY in flight.
    scope: Optional[callback.Scope] = None
    #: Follows the placements of the scheduler, so that answers include them.
    view: Optional[View] = None
    #: Returns None if the program can accept a placement. The scheduler waits for the result before it sends the
    #: allocation to `Handler`, for callback.cache_sync_timeout at most. A refused placement is withdrawn, its request
    #: is placed again, and `View.assume` is not called for it. When a stream begins, existing placements of the
    #: scheduler are confirmed again.
    confirm: Optional[Callable[[Placement], Optional[Refusal]]] = None
    #: Receives the places of the other members of a gang before the first question about one of them, and again when
    #: members have moved.
    members: Optional[Callable[[Bundle], None]] = None
    #: Returns whether a request would fit on a node after allocations have left, before any of them is preempted.
    #: Without it, every proposal of the scheduler is accepted. It needs `predicate`.
    preemption: Optional[Callable[[Preemption], Eviction]] = None
    #: Receives events in order, and the number of events lost before these because the program was too slow.
    #: `hello.event_types` selects the types.
    events: Optional[Callable[[Sequence[si.EventRecord], int], None]] = None
    #: Receives the latest scheduling state of requests. The only state is FAILED: the quota allows the request but no
    #: node has the capacity.
    container_states: Optional[Callable[[Sequence[si.UpdateContainerSchedulingStateRequest]], None]] = None
    #: Returns the program's own state for the state dump of the scheduler: JSON in UTF-8.
    state_dump: Optional[Callable[[], bytes]] = None
    #: Stores a configuration set by an operator: the queues in YAML, and the other settings. Returns the queues that
    #: it replaces.
    save_config: Optional[Callable[[str, Mapping[str, str]], str]] = None
    #: Options of the stream: the size and number of batches, the time limit of an answer, the behaviour while no
    #: stream is attached, types and credit of events. Zero leaves an option to the scheduler. The client fills in the
    #: identity, the capabilities, the event number to continue at, and confirm_assume.
    hello: Optional[callback.Hello] = None
    #: Receives the agreed options each time the stream is opened.
    welcome: Optional[Callable[[callback.Welcome], None]] = None

    @property
    def follows(self) -> bool:
        """Whether the scheduler sends its placements."""
        return self.view is not None or self.confirm is not None

    def check(self) -> None:
        """Rejects combinations that would have no effect."""
        if self.predicate is None:
            for name in ("holds", "members", "preemption", "scope"):
                if getattr(self, name) not in (None, False):
                    raise ValueError(f"Callbacks.{name} has no effect without Callbacks.predicate")

    def capabilities(self) -> List[callback.Capability]:
        """Lists what the functions can do, for `Hello`."""
        return [
            capability
            for able, capability in (
                (self.predicate is not None, callback.Capability.PREDICATES),
                (self.holds, callback.Capability.HOLD_PREDICATES),
                (self.preemption is not None, callback.Capability.PREEMPTION_PREDICATES),
                (self.follows, callback.Capability.CACHE_SYNC),
                (self.events is not None, callback.Capability.EVENTS),
                (self.container_states is not None, callback.Capability.CONTAINER_STATES),
                (self.state_dump is not None, callback.Capability.STATE_DUMP),
                (self.save_config is not None, callback.Capability.CONFIG_STORE),
            )
            if able
        ]
