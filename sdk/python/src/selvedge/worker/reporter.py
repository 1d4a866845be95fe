"""Reports operations: many operations of many attempts in one request, and the next claim with them.

One report is outstanding at a time, so operations keep their order, and those that come meanwhile form the next one.
A report without an answer is repeated; the fence, name or `op_id` of each operation makes that safe.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..client import Client
from ..errors import ConnectionFailed, Problem, problem
from ..http import backoff
from ..values import dumps

log = logging.getLogger("selvedge.worker")

OPS_MAX = 1000
BYTES_MAX = 16 * 1024 * 1024
"""The size at which a report takes no further operations; the server accepts 32 MiB."""

Result = dict[str, Any]


class Reporter:
    """The outgoing operations of a worker."""

    def __init__(
        self,
        client: Client,
        instance: str,
        next_claim: Callable[[], dict[str, Any] | None],
        on_answer: Callable[[Any], None],
    ) -> None:
        self._client = client
        self._path = f"/v1/workers/{instance}/report"
        self._next_claim = next_claim
        self._on_answer = on_answer
        self._queue: deque[tuple[bytes, asyncio.Future[Result]]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.claims = False
        """True while the outstanding report includes a claim."""
        self.successes = 0
        """The number of calls since the last one without an answer."""

    def add_all(self, ops: Iterable[bytes]) -> list[asyncio.Future[Result]]:
        """Queues encoded operations, which stay together. Each future has a result, or a `Problem` if it is refused."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Result]] = []
        for op in ops:
            futures.append(loop.create_future())
            self._queue.append((op, futures[-1]))
        self._idle.clear()
        self._wake.set()
        return futures

    @property
    def is_busy(self) -> bool:
        """True while an operation is not answered."""
        return not self._idle.is_set()

    async def drained(self) -> None:
        """Waits until everything that was queued is answered."""
        await self._idle.wait()

    async def run(self) -> None:
        """Reports until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Handlers that end in the same turn of the loop go into the same report.
            await asyncio.sleep(0)
            while self._queue:
                await self._report(self._take())
            self._idle.set()

    def _take(self) -> list[tuple[bytes, asyncio.Future[Result]]]:
        batch: list[tuple[bytes, asyncio.Future[Result]]] = []
        size = 0
        while self._queue and len(batch) < OPS_MAX and (not batch or size + len(self._queue[0][0]) < BYTES_MAX):
            batch.append(self._queue.popleft())
            size += len(batch[-1][0])
        return batch

    async def _report(self, batch: list[tuple[bytes, asyncio.Future[Result]]]) -> None:
        claim = self._next_claim()
        self.claims = claim is not None
        try:
            answer = await self._send([op for op, _ in batch], claim)
        except Problem as refusal:
            self.claims = False
            await self._report_alone(batch, refusal)
            return
        finally:
            self.claims = False
        for (_, future), result in zip(batch, answer["results"], strict=True):
            settle(future, result)
        if claim is not None:
            self._on_answer(answer)

    async def _report_alone(self, batch: list[tuple[bytes, asyncio.Future[Result]]], refusal: Problem) -> None:
        """Reports each operation alone, so that one that is refused with the report does not block the others."""
        if len(batch) == 1:
            fail(batch[0][1], refusal)
            return
        log.warning("a report of %d operations was refused; they are reported one by one: %s", len(batch), refusal)
        for op, future in batch:
            try:
                answer = await self._send([op], None)
            except Problem as alone:
                fail(future, alone)
            else:
                settle(future, answer["results"][0])

    async def _send(self, ops: list[bytes], claim: dict[str, Any] | None) -> Any:
        """Sends a report until the server answers."""
        tail = b"}" if claim is None else b',"claim":' + dumps(claim) + b"}"
        body = b'{"ops":[' + b",".join(ops) + b"]" + tail
        failures = 0
        while True:
            try:
                answer = await self._client._transport.call("POST", self._path, body, retry_for=0)
                self.successes += 1
                return answer
            except (ConnectionFailed, Problem) as error:
                delay = retry_delay(error, failures)
                failures += 1
                self.successes = 0
                log.warning("a report failed and is repeated: %s", error)
                # The claim may have been made. Another one in its place would leave its leases without a worker.
                body = b'{"ops":[' + b",".join(ops) + b"]}"
                await asyncio.sleep(delay)


def retry_delay(error: ConnectionFailed | Problem, failures: int) -> float:
    """Returns the seconds before a call is repeated. Raises the error if a repetition would be refused again."""
    if isinstance(error, Problem):
        if error.status not in (408, 429) and error.status < 500:
            raise error
        if error.retry_after_ms is not None:
            return error.retry_after_ms / 1000
    return backoff(failures)


def settle(future: asyncio.Future[Result], result: Result) -> None:
    """Answers an operation."""
    if "error" in result:
        fail(future, problem(result["error"]))
    elif not future.done():
        future.set_result(result)


def fail(future: asyncio.Future[Result], error: Problem) -> None:
    """Refuses an operation."""
    if not future.done():
        future.set_exception(error)
