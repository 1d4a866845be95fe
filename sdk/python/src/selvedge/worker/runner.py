"""Runs handlers, and translates how they end into the operation that is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

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
        elif isinstance(error, Stopped) or _is_paused(attempt, error):
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


def _is_paused(attempt: Attempt, error: BaseException) -> bool:
    """Reports whether a handler stopped because a budget has suspended the execution, which is no failure."""
    return attempt.paused and not attempt.cancel_requested and isinstance(_alone(error), Cancelled)


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
    _answer: Any = field(default=None, repr=False)
    _is_answered: bool = field(default=False, repr=False)

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
        self._answer = result
        self._is_answered = True
        try:
            op = complete(self._attempt, result)
        except Permanent as error:
            op = failure(self._attempt, error)
        self._end(op)

    def fail(self, error: BaseException) -> None:
        """Fails the attempt, as if the handler of this one execution had raised the exception."""
        self._answer = error
        self._is_answered = True
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
    if items:
        await _Batch(task, items).run()


class _Batch:
    """A call of a batch handler. It begins when the middleware of each item has called `call_next`, or has ended."""

    def __init__(self, task: Task[Any, Any], items: Sequence[Item[Any]]) -> None:
        self._function = task._function
        self._items = items
        self._missing = len(items)
        self._present: list[Item[Any]] = []
        self._may_begin = asyncio.Event()
        self._interrupt: KeyboardInterrupt | None = None

    async def run(self) -> None:
        """Runs the handler and ends the items."""
        answers = asyncio.ensure_future(self._call())
        await asyncio.gather(*(self._run_item(item, answers) for item in self._items))
        await answers
        if self._interrupt is not None:
            raise self._interrupt

    async def _call(self) -> Sequence[Any] | BaseException | None:
        """Returns what the handler returns or raises."""
        await self._may_begin.wait()
        try:
            return cast("Sequence[Any] | None", await call(self._function, self._present)) if self._present else []
        except KeyboardInterrupt as error:
            self._interrupt = error
            return error
        except BaseException as error:
            return error

    async def _run_item(self, item: Item[Any], answers: asyncio.Future[Any]) -> None:
        number: int | None = None

        async def answer() -> Any:
            nonlocal number
            number = len(self._present)
            self._present.append(item)
            self._arrived()
            return _answer(item, number, await asyncio.shield(answers))

        try:
            result = await around_attempt(item._attempt.middleware, Context(item._attempt), answer)
        except BaseException as error:
            item.fail(error)
        else:
            item.complete(result)
        finally:
            if number is None:
                self._arrived()

    def _arrived(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._may_begin.set()


def _answer(item: Item[Any], number: int, answers: Any) -> Any:
    """Returns the result of an item, or raises its error."""
    if not item._is_answered:
        missing = Retry("the batch handler did not answer this execution")
        if isinstance(answers, BaseException):
            item._answer = answers
        else:
            item._answer = answers[number] if answers is not None and number < len(answers) else missing
    if isinstance(item._answer, BaseException):
        raise item._answer
    return item._answer


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
