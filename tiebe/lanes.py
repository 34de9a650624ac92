"""Hosts' turns: one request at a time goes to a host, and the next not before a pause."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tiebe.engine import Wait

__all__ = ["Lanes", "Turn"]


@dataclass(slots=True)
class Turn:
    """A host's, for one request."""

    rest: float = 0.0
    """Seconds from its end that the host wants to be left alone; set by whoever has the turn."""


@dataclass(slots=True)
class _Lane:
    free: float = 0.0
    """When the host may be asked next, by the monotonic clock."""
    since: float = 0.0
    """When it was asked last."""
    holder: str | None = None
    """Who asks it now."""


class Lanes:
    """Gives owners' turns, to the threads of this process or, shared by an engine, of many.

    Args:
        longest: Seconds that a request may take; after so long that of a dead holder is over.
        closed: Seconds from now in which no turn is given.
    """

    def __init__(self, longest: float, *, closed: float = 0.0) -> None:
        self.longest = longest
        self._opens = time.monotonic() + closed
        self._lanes: dict[str, _Lane] = {}
        self._lock = threading.Lock()

    def left(self, owner: str) -> float:
        """Returns the seconds until an owner may be asked; while it is being asked, a guess."""
        with self._lock:
            return self._left(self._lanes.setdefault(owner, _Lane()))

    def _left(self, lane: _Lane) -> float:
        left = max(lane.free, self._opens) - time.monotonic()
        return max(left, 0.05 if lane.holder is not None else 0.0)

    def take(self, owner: str, pause: float, holder: str = "") -> float:
        """Takes an owner's turn; its next one does not begin before `pause` seconds from now.

        Returns:
            0, or the seconds to wait, and then the turn is not taken.
        """
        with self._lock:
            lane = self._lanes.setdefault(owner, _Lane())
            if left := self._left(lane):
                return left
            lane.holder, lane.since = holder, time.monotonic()
            lane.free = lane.since + pause
            return 0.0

    def leave(self, owner: str, rest: float = 0.0) -> None:
        """Ends an owner's turn; it is left alone for `rest` seconds from now at least."""
        with self._lock:
            lane = self._lanes.setdefault(owner, _Lane())
            lane.holder = None
            lane.free = max(lane.free, time.monotonic() + rest)

    def lose(self, holder: str) -> None:
        """Ends the turns of a dead holder, once its requests are over on the hosts' side."""
        with self._lock:
            for lane in self._lanes.values():
                if lane.holder == holder:
                    lane.holder = None
                    lane.free = max(lane.free, lane.since + self.longest)

    def check(self, owner: str) -> None:
        """Raises Wait where an owner may not be asked now."""
        if left := self.left(owner):
            raise Wait(left, owner=owner)

    @contextlib.contextmanager
    def turn(self, owner: str, pause: float) -> Iterator[Turn]:
        """Has an owner's turn for the length of the block.

        Raises:
            Wait: It may not be asked now.
        """
        if left := self.take(owner, pause):
            raise Wait(left, owner=owner)
        turn = Turn()
        try:
            yield turn
        finally:
            self.leave(owner, turn.rest)
