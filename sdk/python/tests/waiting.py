"""Waits for a condition instead of a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from selvedge import Client

T = TypeVar("T")
LIMIT = 30.0
"""The seconds after which a condition counts as never satisfied. It only bounds a failure."""


async def eventually(look: Callable[[], Awaitable[T]], holds: Callable[[T], Any], what: str = "the condition") -> T:
    """Looks again and again until what it finds satisfies the condition."""
    deadline = time.monotonic() + LIMIT
    while True:
        found = await look()
        if holds(found):
            return found
        assert time.monotonic() < deadline, f"{what} was not satisfied in {LIMIT} s: {found}"
        await asyncio.sleep(0.01)


async def state_of(client: Client, id: str, *states: str) -> Any:
    """Waits until an execution has one of these states, and returns it."""
    return await eventually(lambda: client.get(id), lambda found: found["state"] in states, f"one of {states}")
