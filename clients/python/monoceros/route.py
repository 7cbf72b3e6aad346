"""The addresses of a scheduler, and which of them is tried next.

# Order
In a cluster another member can serve an RM whose owner is lost. So after a loss all addresses are tried without a
pause: first the owner that the end of the session names, then the other members of the last list, then the configured
addresses, and last those of the lost owner. If none serves the RM, the client pauses before each further round.

# Invariants
* An address named by an answer is tried at once, but an address named by *its* answer is not. So a round has at most
  twice as many attempts as addresses, and one more for a suspicion, also if members name each other in a circle.
* The end of a session may name an address, also if another answer has led to that session. Brief sessions in a row are
  followed by pauses, so that members that name each other this way are called slowly, too.
* With a single address, each attempt but the first follows a pause.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Callable, Iterable, List, Optional, Sequence

#: The most members that are kept, and the most characters of an address.
_MEMBERS, _ADDRESS = 100, 256
#: A session with a shorter life in seconds is brief. After more brief sessions in a row there is a pause.
_BRIEF, _MOST_BRIEF = 1.0, 3


@dataclass(frozen=True)
class End:
    """The end of an attempt, or of the streams to which it has led."""

    #: The seconds for which streams were open; None if they never were.
    lasted: Optional[float] = None
    #: Whether the same address is to be tried next.
    stays: bool = False
    #: Whether the scheduler wants time before that.
    waits: bool = False
    #: Whether the scheduler has ended the session.
    is_over: bool = False
    #: Whether the scheduler has given a reason.
    is_answered: bool = False
    #: The address of the owner, if the answer has named it.
    owner: str = ""
    #: Whether the attempt has named an owner that fell silent. It is repeated without that if the owner is lost indeed.
    is_suspicion: bool = False


class Route:
    """See the head of this module."""

    def __init__(
        self, configured: Sequence[str], shuffle: Callable[[List[str]], None] = random.shuffle
    ) -> None:
        self._configured = _unique(configured)
        #: The members of the last list, the owner first; empty without a cluster.
        self._members: List[str] = []
        #: Brings the members into another order for each client, so that the RMs of a lost one go to different ones.
        self._shuffle = shuffle
        #: The address of the present attempt.
        self.present = self._configured[0]
        #: The addresses that are left of the round.
        self._left = self._configured[1:]
        #: The rounds that were begun since streams were open.
        self.rounds = 0
        #: The brief sessions in a row.
        self._brief = 0
        #: Whether the last attempt was made to continue a session that was over.
        self._was_over = False
        #: Whether the present address was named by an answer.
        self._is_named = False
        #: Set when an address that was named did not answer: the client may be unable to reach it.
        self._redirects_fail = False

    @property
    def is_cluster(self) -> bool:
        return bool(self._members)

    @property
    def has_others(self) -> bool:
        """Whether there are addresses besides those of the present owner."""
        return any(address not in self._owner() for address in self._all())

    @property
    def has_several(self) -> bool:
        """Whether there are addresses besides the present one."""
        return any(address != self.present for address in self._all())

    @property
    def takes_redirects(self) -> bool:
        """Whether members may name the owner. Otherwise they forward calls.

        A member that was named may not: of two that each take the other for the one with less load, one has to serve.
        """
        return not self._redirects_fail and not self._is_named

    def registered(self, members: str) -> None:
        """Keeps the list of members that came with a registration, which may be empty."""
        owner, *others = _unique(members.split(",")) or [""]
        # Before the list is cut, so that no member is left out by all clients.
        self._shuffle(others)
        self._members = [owner, *others][:_MEMBERS] if owner else []

    def after(self, end: End) -> bool:
        """Chooses the next address. Returns False if the client has to pause before."""
        was_named, self._is_named = self._is_named, False
        is_often_brief, may_go_on = False, True
        if end.lasted is not None:
            was_named, self._redirects_fail, self._was_over, self.rounds = False, False, False, 0
            self._brief = self._brief + 1 if end.lasted < _BRIEF else 0
            self._left = self._round(end.stays)
            is_often_brief = self._brief > _MOST_BRIEF
            may_go_on = not is_often_brief and len(self._left) > 1 and not end.waits
        elif end.stays:
            # A scheduler at another address does not know the session, and can be registered at once.
            may_go_on = end.is_over and not self._was_over and self.has_others
            self._was_over = end.is_over
            return may_go_on
        elif was_named and not end.is_answered:
            self._redirects_fail = True
        if end.owner not in ("", self.present) and len(end.owner) <= _ADDRESS and not was_named:
            if end.is_suspicion:
                self._left.insert(0, self.present)
            self._left = [address for address in self._left if address != end.owner]
            self.present, self._is_named = end.owner, True
            return not is_often_brief
        if self._left:
            self.present = self._left.pop(0)
            return may_go_on
        self._left = self._round(False)
        self.rounds += 1
        self.present = self._left.pop(0)
        return False

    def _owner(self) -> List[str]:
        """Returns the addresses of the present owner."""
        return [self.present, *self._members[:1]]

    def _all(self) -> List[str]:
        return _unique([*self._members, *self._configured])

    def _round(self, stays: bool) -> List[str]:
        """Returns all addresses in the order of a round."""
        owner = self._owner()
        others = [address for address in self._all() if address not in owner]
        lost = [address for address in self._all() if address in owner]
        return _unique([self.present, *others, *lost]) if stays else others + lost


def _unique(addresses: Iterable[str]) -> List[str]:
    """Returns the addresses in order, without empty, repeated and too long ones."""
    stripped = (address.strip() for address in addresses)
    return list(dict.fromkeys(address for address in stripped if 0 < len(address) <= _ADDRESS))
