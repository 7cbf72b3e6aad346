"""The settings of a client, and what it reports of its sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence, Tuple, Union

import grpc

from monoceros.callbacks import Callbacks
from monoceros.inbox import Handler
from monoceros.si.v1 import types_pb2 as si
from monoceros.state import State

#: The largest message of the scheduler in bytes, and the largest request unless `Config` has another.
MAX_MESSAGE = 64 << 20


@dataclass(frozen=True)
class Registration:
    """A new session, or one that continues with this instance."""

    #: The number of the session.
    session: int
    #: Identifies the run of the scheduler: another value means that it was restarted, or that another member of its
    #: cluster serves the RM now.
    scheduler: str
    #: `new`, `replaced` (an earlier session of the RM has ended) or `attached` (`Config.attach`: the session of
    #: another instance goes on).
    outcome: str


@dataclass
class Config:
    """The settings of a client. The first four have to be set."""

    #: The address of the scheduler, as `grpc.insecure_channel` takes it.
    target: str
    #: The id to register as.
    rm: str
    #: Returns the full state of the RM. Items sent before the call must be in it and are not sent again, so the program
    #: has to change its own state before it calls `Client.allocate` and the like. Items sent during the call are queued
    #: behind the state. An exception ends `run` with a `StateError`.
    state: Callable[[], State]
    #: Receives the answers.
    handler: Handler
    #: Answers the scheduler's questions. Without it, every node with enough capacity is accepted.
    callbacks: Optional[Callbacks] = None

    #: Further addresses of the scheduler: those of other members of its cluster. One that can be reached when the
    #: client starts is enough, since it names all others.
    other_addresses: Sequence[str] = ()
    #: For a connection with TLS, such as `grpc.ssl_channel_credentials()`. None: without TLS.
    credentials: Optional[grpc.ChannelCredentials] = None
    #: A bearer token, or a function that returns the present one before each call.
    token: Union[str, Callable[[], str]] = field(default="", repr=False)
    #: Channel arguments of gRPC in addition to those of the client.
    options: Sequence[Tuple[str, Union[int, str]]] = ()

    #: Names this process among several of the RM.
    instance: str = ""
    #: Takes over the session of another instance, if there is one. Then `state` is not called, and the messages that
    #: the other instance has not acknowledged are received. It needs an instance, because the scheduler could not
    #: distinguish two without a name. In a cluster the session of the other instance ends, and `state` is called.
    attach: bool = False
    #: The fields of a registration; `queues` is YAML.
    policy_group: str = ""
    queues: str = ""
    version: str = ""
    extra_config: Mapping[str, str] = field(default_factory=dict)
    build_info: Mapping[str, str] = field(default_factory=dict)

    #: Called after each registration, before anything else of the session: at the start, after a restart of the
    #: scheduler, and whenever a session was lost. The state is queued by then. The session continues when it returns.
    registered: Optional[Callable[[Registration], None]] = None
    #: Receives the reason when the streams have ended or could not be opened and the client is going to retry.
    broken: Optional[Callable[[BaseException], None]] = None

    #: The number of items that may be queued before a call blocks.
    waiting: int = 100_000
    #: The largest request in bytes, at most grpc.max_recv_message_bytes of the scheduler and at least 1,024. A larger
    #: item is not sent (`ItemError`). Requests of several items have one mebibyte at most.
    max_message: int = MAX_MESSAGE
    #: The pause after the first break and the longest, in seconds. Each is 1.6 times the one before, a fifth more or
    #: less.
    pause: float = 1.0
    max_pause: float = 30.0

    def check(self) -> None:
        """Raises a ValueError or TypeError that names the invalid field."""
        for name in ("target", "rm", "instance"):
            _check_text(f"Config.{name}", getattr(self, name), is_needed=name != "instance")
        if isinstance(self.other_addresses, str):
            raise TypeError("Config.other_addresses is a text, and no list of texts")
        for at, target in enumerate(self.other_addresses):
            _check_text(f"Config.other_addresses[{at}]", target, is_needed=True)
        if not callable(self.state):
            raise TypeError("Config.state is no function")
        if not isinstance(self.handler, Handler):
            raise TypeError(f"Config.handler is a {type(self.handler).__name__}, and no monoceros.Handler")
        if not isinstance(self.token, str) and not callable(self.token):
            raise TypeError("Config.token is neither a text nor a function")
        if self.attach and not self.instance:
            raise ValueError("Config.attach needs Config.instance: one without a name replaces the session")
        if self.max_message < 1024:
            raise ValueError(f"Config.max_message is {self.max_message}: 1024 bytes at least")
        if self.waiting < 1:
            raise ValueError(f"Config.waiting is {self.waiting}: one item at least")
        if not 0 < self.pause <= self.max_pause:
            raise ValueError(f"Config.pause is {self.pause}: more than 0 and at most Config.max_pause")
        try:
            self.registration()
        except (TypeError, ValueError) as error:
            raise ValueError(f"Config cannot be written as a registration: {error}") from error
        if self.callbacks is not None:
            self.callbacks.check()

    def registration(self) -> si.RegisterResourceManagerRequest:
        return si.RegisterResourceManagerRequest(
            rmID=self.rm,
            version=self.version,
            policyGroup=self.policy_group,
            buildInfo=self.build_info,
            config=self.queues,
            extraConfig=self.extra_config,
        )


def _check_text(name: str, text: object, is_needed: bool) -> None:
    """Rejects what cannot be an address, or be sent in metadata."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is no text: {text!r}")
    if not all(" " <= character <= "~" for character in text):
        raise ValueError(f"{name} is {text[:128]!r}: only printable ASCII can be sent in metadata")
    if is_needed and not text.strip():
        raise ValueError(f"{name} is empty")
