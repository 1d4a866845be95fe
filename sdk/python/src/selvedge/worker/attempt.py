"""One attempt of an execution: its claim, its lease, and how it ends.

An attempt ends once. The first of these decides: its handler returns or raises, its handler is suspended, its lease is
lost, or the worker stops. Whatever comes later is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from .. import types
from ..client import Client
from ..errors import AttemptOver, Conflict, NotFound, Problem, StaleLease
from ..values import dumps
from .cancellation import Flag
from .leases import Fence, Lease, Leases, fence_fields
from .middleware import Middleware
from .reporter import Reporter, Result
from .tracker import Stopped, Tracker

log = logging.getLogger("selvedge.worker")

STOP_TIMEOUT = 5.0
"""The longest time in seconds to wait for a handler to end after it was told to."""


class Attempt:
    """An attempt that this worker runs."""

    def __init__(
        self,
        claim: types.Claim,
        client: Client,
        reporter: Reporter,
        leases: Leases,
        on_end: Callable[[Attempt, bytes | None], None],
    ) -> None:
        lease = claim["lease"]
        assert lease is not None, "a claim has a lease"
        self.claim = claim
        self.client = client
        self.fence: Fence = (claim["execution"]["id"], claim["attempt"], lease["id"], lease["epoch"])
        self._prefix = dumps(fence_fields(self.fence))[:-1]
        self._reporter = reporter
        self._leases = leases
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        execution = claim["execution"]
        fields = {"kind": execution["kind"], "lane": execution["lane"]}
        self.log = logging.LoggerAdapter(log, {**fields, "execution": execution["id"], "attempt": claim["attempt"]})
        """The log of the worker, whose records have the kind, lane, execution and attempt as attributes."""
        self.middleware: Sequence[Middleware] = ()
        self.state: Any = None
        """What the lifespan of the worker has made."""
        self.suspended = False
        self.tracker = Tracker(claim["steps"], self._suspend)
        self.cancelled = Flag()
        self.task: asyncio.Task[None] | None = None
        """The task of the handler. None for an item of a batch, which shares its handler with others."""
        self.cancel_grace = 0.0
        self.cancel_requested = False
        self.lost: str | None = None
        self.ended = False
        self.paused = False
        """True once a budget has suspended the execution. The result still counts."""
        self._end_of_stop: bytes | None = None
        self.stopping = False
        self._stop_timer: asyncio.TimerHandle | None = None
        self._number = 0
        leases.add(Lease(self.fence, self._on_lost, self._on_cancel))

    @property
    def execution_id(self) -> str:
        """The id of the execution."""
        return self.fence[0]

    def __str__(self) -> str:
        execution = self.claim["execution"]
        return f"{execution['kind']} in {execution['lane']}: execution {self.execution_id} attempt {self.fence[1]}"

    def encode(self, op: str, fields: dict[str, Any], raw: tuple[str, bytes] | None = None) -> bytes:
        """Serialises an operation of this attempt; `raw` is a field that is JSON already."""
        encoded = self._prefix + b',"op":"' + op.encode() + b'"'
        if fields:
            encoded += b"," + dumps(fields)[1:-1]
        if raw is not None:
            encoded += b',"' + raw[0].encode() + b'":' + raw[1]
        return encoded + b"}"

    def op_id(self) -> str:
        """Returns a name for an operation that is unique in this attempt."""
        self._number += 1
        return str(self._number)

    def check(self) -> None:
        """Raises if the attempt can do nothing more."""
        if self.lost is not None or self.paused or self.stopping:
            raise Stopped
        if self.ended or self.tracker.closed:
            raise AttemptOver("this attempt is over; the next attempt continues its work")

    async def report(self, *ops: bytes) -> list[Result]:
        """Reports operations together and returns their results. The attempt is not suspended meanwhile."""
        self.check()
        with self.tracker.busy():
            futures = self._reporter.add_all(ops)
            for future in futures:
                future.add_done_callback(_mark_retrieved)
            return [await self._answer(future) for future in futures]

    async def _answer(self, future: asyncio.Future[Result]) -> Result:
        try:
            result = await future
        except (StaleLease, NotFound) as refusal:
            self.lose(str(refusal))
            raise
        except Conflict as refusal:
            if refusal.code == "wrong_state":
                self.lose(str(refusal))
            raise
        if result.get("breached") and result["state"] not in (None, "active"):
            self._pause(result["state"])
        return result

    def _pause(self, state: str) -> None:
        """Processes the end of the lease by a budget. The result of a suspended execution still counts."""
        if state == "suspended":
            self.paused = True
            self._leases.stop_renewing(self.fence)
            self.cancelled.set()
        else:
            self._loop.call_soon(self.lose, f"a budget is used up, and the execution ended as {state}")

    def end(self, op: bytes | None) -> None:
        """Ends the attempt with this operation, or without one if nothing is to be reported."""
        if not self.ended:
            self.ended = True
            self.tracker.closed = True
            if self._stop_timer is not None:
                self._stop_timer.cancel()
            self._on_end(self, op)

    def end_from_any_thread(self, op: bytes) -> None:
        """Ends the attempt, from a thread or from the event loop."""
        self._loop.call_soon_threadsafe(self.end, op)

    def stop_with(self, op: str) -> None:
        """Tells the handler to end, and ends the attempt with an operation without fields."""
        self.stop(self.encode(op, {}))

    def stop(self, op: bytes | None) -> None:
        """Tells the handler to end, and ends the attempt with this operation when it has."""
        if self.ended or self.stopping:
            return
        self.stopping = True
        self._end_of_stop = op
        self.cancelled.set()
        if self.task is None:
            self.end(op)
            return
        self.task.cancel()
        self._stop_timer = self._loop.call_later(STOP_TIMEOUT, self._end_without_handler)

    def end_of_stop(self) -> None:
        """Ends an attempt that was stopped, when its handler has ended."""
        self.end(self._end_of_stop)

    def on_task_end(self, task: asyncio.Task[None]) -> None:
        """Ends an attempt whose task was cancelled before its handler began."""
        if task.cancelled():
            self.end_of_stop()

    def _end_without_handler(self) -> None:
        if not self.ended:
            self.log.warning("%s: the handler ignores its cancellation; it keeps a slot of this worker", self)
            self.end_of_stop()

    def _suspend(self, waits: list[dict[str, Any]]) -> None:
        self.suspended = True
        self.stop(self.encode("suspend", {"waits": waits}))

    def lose(self, reason: str) -> None:
        """Processes the loss of the lease: the handler is cancelled and its result dropped."""
        if self.ended or self.lost is not None:
            return
        self.lost = reason
        self.log.warning("%s: the lease was lost, so the handler is cancelled and its result dropped: %s", self, reason)
        self._leases.remove(self.fence)
        self.stop(None)

    def request_cancel(self) -> None:
        """Asks the handler to end. After the grace period of the worker its task is cancelled."""
        if self.ended:
            return
        self.cancel_requested = True
        self.cancelled.set()
        if self.task is not None:
            self._loop.call_later(self.cancel_grace, self._cancel_task)

    def _cancel_task(self) -> None:
        if not self.ended and self.task is not None:
            self.task.cancel()

    def _on_lost(self, reason: str) -> None:
        """Called by the thread of the heartbeats."""
        self.cancelled.in_thread.set()
        self._loop.call_soon_threadsafe(self.lose, reason)

    def _on_cancel(self) -> None:
        """Called by the thread of the heartbeats."""
        self.cancelled.in_thread.set()
        self._loop.call_soon_threadsafe(self.request_cancel)


def _mark_retrieved(future: asyncio.Future[Result]) -> None:
    """Reads the exception of an operation behind a refused one, whose result nobody awaits."""
    if not future.cancelled():
        future.exception()


def refuses_content(refusal: Problem) -> bool:
    """Returns true if the refusal concerns the content of an operation, so that a retry would be refused again."""
    return refusal.code in (
        "invalid_field",
        "unknown_field",
        "payload_too_large",
        "idempotency_mismatch",
        "id_taken",
        "limit_reached",
    )
