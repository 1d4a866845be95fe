"""Whether an execution should stop, as its handler sees it: `ctx.cancelled`."""

from __future__ import annotations

import asyncio
import threading

from ..errors import Cancelled
from ..values import Seconds, milliseconds


class Flag:
    """Set once when the execution should stop: its cancel was requested, or its lease is lost. Set by the event loop or
    by the thread of the heartbeats; seen by handlers of both kinds."""

    def __init__(self) -> None:
        self.in_loop = asyncio.Event()
        self.in_thread = threading.Event()

    def set(self) -> None:
        """Sets it. Only for the event loop."""
        self.in_thread.set()
        self.in_loop.set()


class Cancellation:
    """True once the execution should stop: its cancel was requested, or its lease is lost."""

    def __init__(self, flag: Flag) -> None:
        self._flag = flag

    def __bool__(self) -> bool:
        return self.is_set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self else 'not set'}>"

    def is_set(self) -> bool:
        """Returns true once the execution should stop."""
        return self._flag.in_thread.is_set()

    def raise_if_set(self) -> None:
        """Raises `Cancelled` if the execution should stop. The execution then ends as cancelled."""
        if self.is_set():
            raise Cancelled

    async def wait(self) -> None:
        """Waits until the execution should stop."""
        await self._flag.in_loop.wait()


class SyncCancellation(Cancellation):
    """The same in a plain function, whose `wait` blocks the thread."""

    def wait(self, timeout: Seconds | None = None) -> bool:  # type: ignore[override]  # pyright: ignore
        """Waits until the execution should stop, or until the timeout. Returns false after the timeout."""
        return self._flag.in_thread.wait(None if timeout is None else milliseconds(timeout) / 1000)
