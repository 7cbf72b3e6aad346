"""Calls of grpc: their types, which have no public names there, their metadata, and their end."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional, Protocol, Sequence, Tuple, TypeVar, Union

import grpc

from monoceros.errors import CallError

T_co = TypeVar("T_co", covariant=True)

Metadata = Tuple[Tuple[str, str], ...]
#: Received metadata: pairs of a key and a value, which are bytes if the key ends in `-bin`.
Received = Optional[Sequence[Tuple[str, Union[str, bytes]]]]

#: The trailer with the machine-readable reason of a status.
REASON_TRAILER = "x-si-reason"
#: The trailer with the address of the member of a cluster that serves the RM.
OWNER_TRAILER = "x-si-owner"


class Ended(Protocol):
    """A call or stream that has ended, with or without an error."""

    def code(self) -> grpc.StatusCode:
        """Waits for the end."""

    def details(self) -> Optional[str]: ...

    def trailing_metadata(self) -> Received: ...


class Stream(Ended, Protocol[T_co]):
    """A stream of replies."""

    def __iter__(self) -> Iterator[T_co]: ...

    def __next__(self) -> T_co: ...

    def initial_metadata(self) -> Received: ...

    def cancel(self) -> bool: ...


def call_error(op: str, call: Ended) -> CallError:
    """Makes the error of a call or stream that has ended."""
    trailers = call.trailing_metadata()
    reason, owner = first(trailers, REASON_TRAILER), first(trailers, OWNER_TRAILER)
    return CallError(op, call.code(), call.details() or "", reason, owner)


@contextlib.contextmanager
def ends() -> Iterator[None]:
    """Suppresses the end of a call or stream in the block.

    It is raised as the call itself, which its traceback would then keep. A call that is left until the end of the
    program takes a lock there, which a thread of gRPC may hold that does not run any more.
    """
    try:
        yield
    except (grpc.RpcError, grpc.FutureCancelledError, StopIteration) as end:
        end.__traceback__ = None


def first(metadata: Received, key: str) -> str:
    """Returns the first value of a key; empty if there is none."""
    for known, value in metadata or ():
        if known == key:
            return value.decode("latin-1") if isinstance(value, bytes) else value
    return ""
