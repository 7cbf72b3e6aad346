"""Errors, and how the client continues after the end of a call or stream."""

from __future__ import annotations

import enum
from typing import NamedTuple, Sequence, Tuple

import grpc


class Error(Exception):
    """Base of the errors of this package."""


def bare(error: BaseException) -> BaseException:
    """Removes the traceback of an error of this package, whose frames hold calls (see `calls.ends`)."""
    return error.with_traceback(None) if isinstance(error, Error) else error


class CallError(Error):
    """The end of a call or stream."""

    def __init__(self, op: str, code: grpc.StatusCode, details: str, reason: str, owner: str = "") -> None:
        super().__init__(op, code, details, reason)
        #: The call or stream, such as `register` or `node stream`.
        self.op = op
        self.code = code
        #: The sentence of the status, for people.
        self.details = details
        #: The machine-readable reason, such as SESSION_STALE; empty if the scheduler gave none. C_SILENT is given by the
        #: client itself: the scheduler has sent nothing for a while.
        self.reason = reason
        #: The address of the member of a cluster that serves the RM, if the end names it.
        self.owner = owner

    def __str__(self) -> str:
        text = f"{self.op}: {self.code.name}: {self.details}"
        return f"{text} [{self.reason}]" if self.reason else text


class Refused(NamedTuple):
    """An item that was not sent."""

    #: Names the item, such as "allocation `a` of application `x`".
    item: str
    why: str


class ItemError(Error):
    """Items of a call were not sent. The other items of the call were."""

    def __init__(self, refused: Sequence[Refused]) -> None:
        super().__init__("; ".join(f"{one.item}: {one.why}" for one in refused))
        self.refused: Tuple[Refused, ...] = tuple(refused)


class StateError(Error):
    """`Config.state` has failed, which is the cause, or has returned a state that cannot be sent."""


class RunningError(Error):
    """`run` was called before. A client runs once."""


class EndedError(Error):
    """The client has ended. The cause is the error of `run`, if there was one."""

    def again(self) -> EndedError:
        """Returns a copy to be raised: an error that is raised many times gathers the traces of all."""
        copy = EndedError(*self.args)
        copy.__cause__ = self.__cause__
        return copy


class WaitError(Error, TimeoutError):
    """The time limit of a call has passed. The cause is the last reason why the client could not connect."""


class OldSchedulerError(Error):
    """The scheduler does not number requests: it is older than this client."""

    def __init__(self) -> None:
        super().__init__("the scheduler does not number requests; it is older than this client")


class VoidSessionError(Error):
    """The client has found its session to be inconsistent, and registers again."""

    def __init__(self) -> None:
        super().__init__("the scheduler and the client do not know of the same requests")


#: The reason of streams whose session was ended by a deregistration, whatever the code of their status.
DEREGISTERED = "DEREGISTERED"
#: The reason that the client itself gives to the silence of the scheduler.
SILENT = "C_SILENT"


def short(name: str) -> str:
    """Cuts a name, which may be the part of an item that is too large."""
    return name if len(name) <= 128 else name[:128] + "…"


class Verdict(enum.Enum):
    """The way in which the client continues when a stream or the registration has ended."""

    #: Opens the streams of the session again.
    REOPEN = enum.auto()
    #: Registers again and reports the full state.
    REGISTER = enum.auto()
    #: Ends: a retry cannot help, or another instance has taken over the RM.
    STOP = enum.auto()


#: Reasons of members of a cluster that may serve the RM soon.
_PASSING = frozenset({"OWNER_UNREACHABLE", "ARBITER_UNAVAILABLE", "CLAIM_CONTENDED", "MEMBER_FENCED"})
#: Reasons of an owner that goes on, and wants a report.
_KEEPS_OWNER = frozenset({"RESYNC_REQUIRED", "MESSAGE_UNREADABLE"})
_REGISTER = _PASSING | _KEEPS_OWNER | {
    "SESSION_STALE",
    "RM_NOT_REGISTERED",
    "INTERNAL_ERROR",
    "NOT_OWNER",
    "SESSION_MOVED",
    SILENT,
}
_STOP = frozenset(
    {"SESSION_SUPERSEDED", "STREAM_DISPLACED", DEREGISTERED, "LIMIT_ITEMS", "LIMIT_BYTES", "LIMIT_ID"}
)
_STOP_CODES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


def judge(error: BaseException, has_others: bool = False) -> Verdict:
    """Decides by reason first, and else by code.

    If other members of a cluster can serve the RM (`has_others`), the client registers at one of them when the
    connection is lost.
    """
    if isinstance(error, VoidSessionError):
        return Verdict.REGISTER
    if not isinstance(error, CallError):
        return Verdict.STOP
    if error.code == grpc.StatusCode.OUT_OF_RANGE:
        # A message is larger than the scheduler accepts (grpc.max_recv_message_bytes), and would be again.
        return Verdict.STOP
    if error.reason in _REGISTER:
        return Verdict.REGISTER
    if error.reason in _STOP or error.code in _STOP_CODES:
        return Verdict.STOP
    if has_others and error.reason in ("", "SHUTTING_DOWN"):
        return Verdict.REGISTER
    return Verdict.REOPEN


def is_passing(error: BaseException) -> bool:
    """Returns whether a member of a cluster may serve the RM soon, so that long pauses make no sense."""
    return isinstance(error, CallError) and error.reason in _PASSING


def may_leave_later(error: CallError, is_owner_lost: bool) -> bool:
    """Returns whether a deregistration that was refused is tried again.

    A member could not decide, or the owner in a cluster was lost.
    """
    if error.reason in ("NOT_OWNER", "SESSION_MOVED"):
        return True
    return is_owner_lost if error.reason in ("", "SHUTTING_DOWN") else is_passing(error)


def keeps_owner(error: BaseException) -> bool:
    """Returns whether the owner in a cluster has ended the session, and wants the RM to register there again."""
    return isinstance(error, CallError) and error.reason in _KEEPS_OWNER
