"""Claims executions, starts their handlers, reports how they ended, and drains.

At any time at most one waiting claim, one report and one heartbeat are outstanding. A report includes a claim unless
one is waiting, so that under load a worker makes one request for many executions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import types
from ..client import Client
from ..errors import ConnectionFailed, Problem, SelvedgeError, Superseded, Unavailable, problem
from ..task import Task
from .attempt import Attempt, refuses_content
from .heartbeat import Heartbeat
from .leases import Leases
from .middleware import Middleware
from .reporter import Reporter, Result, retry_delay
from .runner import run, run_batch

log = logging.getLogger("selvedge.worker")

CLAIM_WAIT = 20.0
"""The longest time in seconds for which one claim waits for work."""
CLAIM_MAX = 1000
RELIABLE_CALLS = 20
"""The number of calls in a row that must have been answered before claims travel with reports."""
RELEASE_TIMEOUT = 5.0
"""The longest time in seconds for the last reports of a drain."""


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker. Times are in seconds."""

    name: str
    instance: str
    lanes: Sequence[str]
    capabilities: Sequence[str]
    concurrency: int
    lease_ttl: float
    drain_timeout: float
    cancel_grace: float
    middleware: Sequence[Middleware] = ()


class Driver:
    """A running worker."""

    def __init__(
        self, client: Client, settings: WorkerSettings, tasks: Mapping[str, Task[Any, Any]], state: Any = None
    ) -> None:
        self._state = state
        self._client = client
        self._settings = settings
        self._tasks = tasks
        self._incarnation = str(uuid.uuid4())
        self._loop = asyncio.get_running_loop()
        self._leases = Leases()
        instance = quote(settings.instance, safe="")
        self._path = f"/v1/workers/{instance}"
        self._reporter = Reporter(client, instance, self._next_claim, self._on_claims)
        self._heartbeat = Heartbeat(
            client,
            instance,
            self._incarnation,
            settings.lease_ttl,
            self._leases,
            on_drain=lambda: self._call_soon(self.drain),
            on_superseded=lambda error: self._call_soon(self._fail, error),
        )
        self._attempts: set[Attempt] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._occupied = 0
        """The slots that running handlers occupy."""
        self._claiming = False
        self._wants_claim = asyncio.Event()
        self._wants_claim.set()
        self._draining = asyncio.Event()
        self._all_ended = asyncio.Event()
        self.error: SelvedgeError | None = None

    async def run(self) -> None:
        """Works until `drain` is called or the server asks for it, then finishes what it holds and departs."""
        kinds, lanes = ", ".join(self._tasks), ", ".join(self._settings.lanes)
        log.info("worker %s starts; kinds: %s; lanes: %s", self._settings.instance, kinds, lanes)
        self._heartbeat.start()
        reporting = self._loop.create_task(self._reporter.run())
        claiming = self._loop.create_task(self._claim_until_drained())
        reporting.add_done_callback(self._on_service_end)
        claiming.add_done_callback(self._on_service_end)
        try:
            await self._draining.wait()
            log.info("worker %s drains", self._settings.instance)
            claiming.cancel()
            await self._finish()
        finally:
            claiming.cancel()
            reporting.cancel()
            self._heartbeat.stop()
            await self._depart()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(claiming, reporting, return_exceptions=True)

    def drain(self) -> None:
        """Stops claiming. Running handlers may finish."""
        self._draining.set()

    def _on_service_end(self, task: asyncio.Task[None]) -> None:
        """Stops the worker if its claims or reports have ended by a defect, instead of leaving it silent."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of worker %s has failed", self._settings.instance, exc_info=error)
            self._fail(SelvedgeError(f"the worker has failed: {error!r}"))

    def _call_soon(self, function: Any, *arguments: Any) -> None:
        """Calls a function in the event loop, from the thread of the heartbeats."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _fail(self, error: SelvedgeError) -> None:
        """Stops the worker because the server refuses it."""
        if self.error is None:
            log.error("worker %s stops: %s", self._settings.instance, error)
            self.error = error
            for attempt in list(self._attempts):
                attempt.lose(str(error))
            self.drain()

    # Claims

    def _free(self) -> int:
        return min(CLAIM_MAX, self._settings.concurrency - self._occupied)

    def _claim_request(self, wait: float) -> dict[str, Any]:
        request: dict[str, Any] = {
            "worker": self._settings.name,
            "lanes": list(self._settings.lanes),
            "kinds": list(self._tasks),
            "max": self._free(),
            "lease_ttl_ms": round(self._settings.lease_ttl * 1000),
            "incarnation": self._incarnation,
        }
        if self._settings.capabilities:
            request["capabilities"] = list(self._settings.capabilities)
        if wait:
            request["wait_ms"] = round(wait * 1000)
        return request

    def _next_claim(self) -> dict[str, Any] | None:
        """Returns the claim to send with a report, or None if a claim is waiting or no slot is free."""
        if self._draining.is_set() or self._claiming or self._free() <= 0:
            return None
        # Only a separate claim has a key, with which the leases of a lost answer are found again.
        if self._reporter.successes < RELIABLE_CALLS:
            return None
        return self._claim_request(0)

    async def _claim_until_drained(self) -> None:
        while True:
            await self._wants_claim.wait()
            self._wants_claim.clear()
            # A report that is under way claims, and its answer sets the event again.
            claims_with_report = self._reporter.is_busy and self._reporter.successes >= RELIABLE_CALLS
            if claims_with_report or self._free() <= 0:
                continue
            self._claiming = True
            try:
                answer = await self._claim(self._claim_request(CLAIM_WAIT))
            except Problem as refusal:
                self._fail(refusal)
                return
            finally:
                self._claiming = False
            self._on_claims(answer)
            self._wants_claim.set()

    async def _claim(self, request: dict[str, Any]) -> Any:
        """Claims until the server answers. The key of the call returns the leases of an answer that was lost."""
        key = str(uuid.uuid4())
        failures = 0
        while True:
            try:
                headers = {"Idempotency-Key": key}
                path = f"{self._path}/claim"
                answer = await self._client._transport.call(
                    "POST", path, request, headers=headers, wait=CLAIM_WAIT, retry_for=0
                )
                self._reporter.successes += 1
                return answer
            except (ConnectionFailed, Problem) as error:
                delay = retry_delay(error, failures)
                log.warning("a claim failed and is repeated: %s", error)
                failures += 1
                self._reporter.successes = 0
                await asyncio.sleep(delay)

    def _on_claims(self, answer: Any) -> None:
        """Starts the handlers of claimed executions."""
        refusal = answer.get("claim_error")
        if refusal is not None:
            self._fail(problem(refusal))
        batches: dict[str, list[types.Claim]] = {}
        for claim in answer["claims"]:
            kind = claim["execution"]["kind"]
            task = self._tasks.get(kind)
            if task is None or self._draining.is_set():
                self._attempt(claim).stop_with("release")
            elif task._batch_max is not None:
                batches.setdefault(kind, []).append(claim)
            else:
                attempt = self._attempt(claim)
                attempt.task = self._start(run(attempt, task), 1)
                attempt.task.add_done_callback(attempt.on_task_end)
        for kind, claims in batches.items():
            task = self._tasks[kind]
            size = task._batch_max or 1
            for start in range(0, len(claims), size):
                attempts = [self._attempt(claim) for claim in claims[start : start + size]]
                self._start(run_batch(attempts, task), len(attempts))
        if answer.get("drain"):
            self.drain()

    def _attempt(self, claim: types.Claim) -> Attempt:
        attempt = Attempt(claim, self._client, self._reporter, self._leases, self._on_end)
        attempt.cancel_grace = self._settings.cancel_grace
        attempt.middleware = self._settings.middleware
        attempt.state = self._state
        self._attempts.add(attempt)
        self._all_ended.clear()
        return attempt

    def _start(self, handler: Any, slots: int) -> asyncio.Task[None]:
        self._occupied += slots
        task: asyncio.Task[None] = self._loop.create_task(handler)
        self._running.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            self._occupied -= slots
            self._wants_claim.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("a handler ended the worker", exc_info=error)
                self.drain()

        task.add_done_callback(ended)
        return task

    # Ends

    def _on_end(self, attempt: Attempt, op: bytes | None) -> None:
        """Reports the end of an attempt."""
        if op is None:
            self._settled(attempt)
            return
        (future,) = self._reporter.add_all([op])
        future.add_done_callback(lambda future: self._on_end_answer(attempt, op, future))

    def _on_end_answer(self, attempt: Attempt, op: bytes, future: asyncio.Future[Result]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Problem) and refuses_content(error) and b'"op":"fail"' not in op:
            # The lease is still held and a retry would be refused again, so the attempt fails instead.
            fields = {"message": f"the return value of the handler was refused: {error}", "class": "permanent"}
            self._on_end(attempt, attempt.encode("fail", fields))
            return
        if error is not None and attempt.lost is None:
            attempt.log.warning("%s: its end was not accepted and is dropped: %s", attempt, error)
        self._settled(attempt)

    def _settled(self, attempt: Attempt) -> None:
        self._leases.remove(attempt.fence)
        self._attempts.discard(attempt)
        self._wants_claim.set()
        if not self._attempts:
            self._all_ended.set()

    # Drain

    async def _finish(self) -> None:
        """Waits for the handlers; stops those that take longer than the drain timeout."""
        if self._attempts and not await self._ends_within(self._settings.drain_timeout):
            for attempt in list(self._attempts):
                attempt.stop_with("release")
            if not await self._ends_within(RELEASE_TIMEOUT + 5.0):
                log.warning(
                    "worker %s departs with %d attempts unreported", self._settings.instance, len(self._attempts)
                )

    async def _ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._all_ended.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def _depart(self) -> None:
        """Reports the departure, so that remaining leases are put back at once instead of expiring."""
        if isinstance(self.error, Superseded):
            return
        params = {"incarnation": self._incarnation}
        try:
            await self._client._transport.call("DELETE", self._path, params=params, retry_for=RELEASE_TIMEOUT)
        except (ConnectionFailed, Unavailable) as error:
            log.warning("the departure was not reported; remaining leases will expire: %s", error)
        except Problem:
            # The server does not know a worker that never claimed.
            log.debug("worker %s was not known", self._settings.instance)
