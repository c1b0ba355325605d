"""Whose turn is it? A bounded line before a few places, where clients take turns.

Each client has its own line, first come first served; a place that becomes free goes to the next client in turn. Who
asks fifty questions at once waits for the fifty, and whoever asks one beside that waits for one of them.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tonnage.web.records import Busy

FIRST_GUESS_S: Final = 2.0
"""Of one turn, before any has ended. [s]"""
WEIGHT: Final = 0.2
"""Of the newest turn in the mean that Retry-After is taken from."""


class Line:
    """
    Places, and who waits for them.

    Parameters
    ----------
    places : int
        Turns at once.
    waiting, waiting_each : int
        Most that wait, of all clients and of one.
    wait_s : float
        Longest wait. [s]
    """

    def __init__(self, places: int, *, waiting: int, waiting_each: int, wait_s: float) -> None:
        self._places, self._free = places, places
        self._waiting, self._waiting_each, self._wait_s = waiting, waiting_each, wait_s
        self._clients: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._mean_s = FIRST_GUESS_S

    @property
    def length(self) -> int:
        """How many wait."""
        return sum(map(len, self._clients.values()))

    @property
    def taken(self) -> int:
        """Places in use."""
        return self._places - self._free

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """
        A place, once it is this client's turn.

        Raises
        ------
        Busy
            Too many wait, or the wait was too long.
        """
        if self._free and not self._clients:
            self._free -= 1
        else:
            await self._wait(client)
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._mean_s += WEIGHT * (asyncio.get_running_loop().time() - began - self._mean_s)
            self._give_on()

    async def _wait(self, client: str) -> None:
        """Wait in the client's own line for a place; `Busy` where the line is full or it takes too long."""
        own = self._clients.get(client, ())
        if self.length >= self._waiting or len(own) >= self._waiting_each:
            whose = "of yours " if len(own) >= self._waiting_each else ""
            raise Busy(f"{self.length} questions {whose}wait already; ask again in a while", retry_s=self._retry_s())
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clients.setdefault(client, deque()).append(called)
        try:
            async with asyncio.timeout(self._wait_s):
                await asyncio.shield(called)
        except BaseException as left:
            if called.done():  # called up and gone in the same moment
                self._give_on()
            else:
                self._forget(client, called)
            if isinstance(left, TimeoutError):
                told = f"no worker became free for {self._wait_s:g} s; ask again in a while"
                raise Busy(told, retry_s=self._retry_s()) from None
            raise

    def _forget(self, client: str, called: asyncio.Future[None]) -> None:
        self._clients[client].remove(called)
        if not self._clients[client]:
            del self._clients[client]

    def _give_on(self) -> None:
        """Hand the place to the client whose turn it is; that client's next question goes behind the others'."""
        if not self._clients:
            self._free += 1
            return
        client, own = self._clients.popitem(last=False)
        own.popleft().set_result(None)
        if own:
            self._clients[client] = own

    def _retry_s(self) -> float:
        """When the line should have become shorter."""
        return max(1.0, math.ceil(self._mean_s * self.length / self._places))
