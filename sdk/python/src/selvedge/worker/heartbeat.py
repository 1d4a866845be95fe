"""Heartbeats, from a thread of their own, so that a handler that blocks the event loop keeps its lease.

One long-polling call is outstanding at a time; it returns at once when a lease is lost or a cancel is requested. A call
names the leases that were held when it began. A lease that is older than a moment and not named replaces the call.
Work that is shorter than that moment costs no heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from ..client import Client
from ..errors import ConnectionFailed, Problem, Superseded
from ..http import backoff
from .leases import Fence, Leases, fence_fields

log = logging.getLogger("selvedge.worker")

NEW_LEASE_DELAY = 0.25
"""The longest time in seconds until a heartbeat names a new lease."""
POLL_INTERVAL = 1.0
"""The longest interval in seconds between calls while the server answers each at once."""


class Heartbeat:
    """Renews the leases of a worker until it is stopped."""

    def __init__(
        self,
        client: Client,
        instance: str,
        incarnation: str,
        ttl: float,
        leases: Leases,
        on_drain: Callable[[], None],
        on_superseded: Callable[[Superseded], None],
    ) -> None:
        self._client = client
        self._path = f"/v1/workers/{instance}/heartbeat"
        self._incarnation = incarnation
        self._ttl = ttl
        self._leases = leases
        self._on_drain = on_drain
        self._on_superseded = on_superseded
        self._tick = min(NEW_LEASE_DELAY, ttl / 6)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"selvedge-heartbeat-{instance}", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end. It ends within a quarter of a second."""
        self._stopped.set()

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        call: asyncio.Task[Any] | None = None
        named: set[Fence] = set()
        next_at = 0.0
        failures = 0
        polling = False
        loop = asyncio.get_running_loop()
        while not self._stopped.is_set():
            if call is None:
                if loop.time() >= next_at and self._leases.any_older_than(self._tick, set()):
                    named = self._leases.named()
                    call = loop.create_task(self._call(named, 0.0 if polling else self._ttl / 3))
            elif self._leases.any_older_than(self._tick, named):
                call.cancel()
                call = None
                continue
            if call is None:
                await asyncio.sleep(self._tick)
                continue
            await asyncio.wait([call], timeout=self._tick)
            if not call.done():
                continue
            answered, call = call, None
            error = answered.exception()
            if error is None:
                failures = 0
                drain = self._process(answered.result())
                # Each answer repeats a pending request to drain or cancel, so a long poll would return at once.
                polling = drain or self._leases.any_cancel_requested()
                next_at = loop.time() + (min(POLL_INTERVAL, self._ttl / 6) if polling else 0.0)
            elif isinstance(error, Superseded):
                self._on_superseded(error)
                return
            else:
                expected = isinstance(error, (Problem, ConnectionFailed))
                log.warning("a heartbeat failed and is repeated: %s", error, exc_info=None if expected else error)
                failures += 1
                next_at = loop.time() + backoff(failures)
        if call is not None:
            call.cancel()
        await self._client.aclose()

    async def _call(self, named: set[Fence], wait: float) -> Any:
        body = {
            "leases": [fence_fields(fence) for fence in named],
            "wait_ms": int(min(wait, 60.0) * 1000),
            "incarnation": self._incarnation,
        }
        return await self._client._transport.call("POST", self._path, body, wait=wait, retry_for=0)

    def _process(self, answer: Any) -> bool:
        for lost in answer["lost"]:
            self._leases.lose(fence_of(lost), lost["reason"])
        for fence in answer["cancel_requested"]:
            self._leases.request_cancel(fence_of(fence))
        if answer["drain"]:
            self._on_drain()
        return bool(answer["drain"])


def fence_of(fields: Any) -> Fence:
    """Reads a fence."""
    return fields["execution"], fields["attempt"], fields["lease_id"], fields["epoch"]
