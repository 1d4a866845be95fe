"""Waiting for conditions. Nothing in the harness sleeps for a time and hopes."""

import asyncio
import time

# Longest wait for a condition, in seconds. It only bounds a failure: a wait ends as soon as its condition holds.
LIMIT = 30
# Interval between two looks at something that cannot notify, in seconds.
LOOK = 0.02


class Late(Exception):
    """A condition did not hold in time."""


class Changes:
    """Wakes those who wait for a condition whenever something has changed."""

    def __init__(self):
        self._waiters = set()

    def notify(self):
        """Makes every waiting condition look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, condition, what):
        """Waits until the condition returns something true, and returns that."""
        deadline = time.monotonic() + LIMIT
        while not (found := condition()):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait({waiter}, timeout=deadline - time.monotonic())
            finally:
                self._waiters.discard(waiter)
            if not waiter.done():
                raise Late(f"waited {LIMIT} s for {what()}")
        return found
