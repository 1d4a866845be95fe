"""Runs handlers, and translates how they end into the operation that is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..conversion import REFUSALS
from ..errors import Cancelled, Delay, Permanent, Release, Retry, Suspended, with_causes
from ..options import delay
from ..task import Task
from ..values import dumps, milliseconds
from .attempt import Attempt
from .calls import call
from .context import Context
from .middleware import around_attempt
from .sync_context import run_in_thread
from .tracker import Stopped

RESULT_MAX = 1024 * 1024
MESSAGE_MAX = 64 * 1024

T = TypeVar("T")


async def run(attempt: Attempt, task: Task[Any, Any]) -> None:
    """Runs the handler of an attempt, and ends the attempt."""
    try:
        result = await _run_handler(attempt, task)
        if not attempt.stopping and not attempt.paused:
            attempt.tracker.check_vanished()
        op = complete(attempt, result)
    except BaseException as error:
        if attempt.stopping:
            attempt.end_of_stop()
        elif isinstance(error, Stopped):
            attempt.end(None)
        else:
            attempt.end(failure(attempt, error))
        if isinstance(error, KeyboardInterrupt):
            raise
        return
    if attempt.stopping:
        attempt.end_of_stop()
    else:
        attempt.end(op)


async def _run_handler(attempt: Attempt, task: Task[Any, Any]) -> Any:
    context: Context[Any] = Context(attempt)
    input = attempt.claim["execution"].get("input")

    async def handler() -> Any:
        if task._is_async:
            return await task._bind(context, input)()
        return await run_in_thread(context, lambda sync_context: task._bind(sync_context, input))

    if not attempt.middleware:
        return await handler()

    async def unless_suspended() -> Any:
        try:
            return await handler()
        except asyncio.CancelledError:
            if attempt.suspended:
                raise Suspended from None
            raise

    return await around_attempt(attempt.middleware, context, unless_suspended)


@dataclass
class Item(Generic[T]):
    """One execution of a batch. The handler answers it with `complete` or `fail`, or with the list that it returns."""

    input: T
    execution_id: str
    number: int
    """The number of this attempt, from 0."""
    _attempt: Attempt = field(repr=False)

    @property
    def idempotency_key(self) -> str:
        """A key for calls to other services: the id of the execution. The same in every attempt, and after a replay."""
        return self.execution_id

    @property
    def cancelled(self) -> bool:
        """True if the execution should stop: its cancel was requested, or its lease is lost."""
        return self._attempt.cancelled.in_thread.is_set()

    def complete(self, result: Any = None) -> None:
        """Completes the execution. A result that is not JSON or too large fails it."""
        try:
            op = complete(self._attempt, result)
        except Permanent as error:
            op = failure(self._attempt, error)
        self._end(op)

    def fail(self, error: BaseException) -> None:
        """Fails the attempt, as if the handler of this one execution had raised the exception."""
        self._end(failure(self._attempt, error))

    def _end(self, op: bytes) -> None:
        self._attempt.end_from_any_thread(op)


async def run_batch(attempts: Sequence[Attempt], task: Task[Any, Any]) -> None:
    """Runs a batch handler for several attempts, and ends each."""
    items: list[Item[Any]] = []
    for attempt in attempts:
        execution = attempt.claim["execution"]
        item: Item[Any] = Item(None, execution["id"], attempt.claim["attempt"], attempt)
        try:
            item.input = task._convert_input(execution.get("input"))
        except REFUSALS as error:
            item.fail(Permanent(f"the input is not what {task.kind} expects: {error}"))
        else:
            items.append(item)
    try:
        results = await call(task._function, items) if items else []
    except BaseException as error:
        for item in items:
            item.fail(error)
        if isinstance(error, KeyboardInterrupt):
            raise
        return
    for number, item in enumerate(items):
        if results is not None and number < len(results):
            result = results[number]
            if isinstance(result, BaseException):
                item.fail(result)
            else:
                item.complete(result)
        else:
            item.fail(Retry("the batch handler did not answer this execution"))


def complete(attempt: Attempt, result: Any) -> bytes:
    """Returns the operation that completes an execution. Raises `Permanent` if the result cannot be stored."""
    try:
        encoded = dumps(result)
    except (TypeError, ValueError) as error:
        raise Permanent(f"the result is not JSON: {error}") from error
    if len(encoded) > RESULT_MAX:
        raise Permanent(
            f"the result has {len(encoded)} bytes, and at most {RESULT_MAX} are accepted; store it elsewhere and "
            "return a reference"
        )
    return attempt.encode("complete", {}, ("result", encoded))


def failure(attempt: Attempt, error: BaseException) -> bytes:
    """Returns the operation that reports an exception of a handler."""
    error = _alone(error)
    if isinstance(error, (asyncio.CancelledError, Cancelled)):
        if attempt.cancel_requested:
            return attempt.encode("cancelled", {})
        return _fail(attempt, "the handler was cancelled", "transient")
    if isinstance(error, Release):
        return attempt.encode("release", {})
    if isinstance(error, Delay):
        return attempt.encode("delay", delay(error.until))
    message = with_causes(error)
    if isinstance(error, Permanent):
        attempt.log.warning("%s failed and is not retried: %s", attempt, message, exc_info=error)
        return _fail(attempt, message, "permanent")
    if isinstance(error, Retry):
        attempt.log.warning("%s failed and asks for a retry: %s", attempt, message)
        fields = {} if error.after is None else {"retry_after_ms": milliseconds(error.after)}
        return _fail(attempt, message, "transient", fields)
    attempt.log.warning("%s failed: %s", attempt, message, exc_info=error)
    if isinstance(error, SystemExit):
        return _fail(attempt, f"the handler called sys.exit({error.code!r})", "transient")
    return _fail(attempt, message, "transient")


def _alone(error: BaseException) -> BaseException:
    """Returns the exception of a group that has only one, as `asyncio.TaskGroup` raises."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return _alone(inner[0]) if len(inner) == 1 else error


def _fail(attempt: Attempt, message: str, kind: str, fields: dict[str, Any] | None = None) -> bytes:
    shortened = message.encode(errors="replace")[:MESSAGE_MAX].decode(errors="ignore")
    return attempt.encode("fail", {"message": shortened, "class": kind, **(fields or {})})
