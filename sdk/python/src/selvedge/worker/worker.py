"""The worker: registers tasks and runs them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from ..client import Client
from ..sync import Client as SyncClient
from ..task import Fields, Task, TaskType
from ..values import Seconds, milliseconds
from .driver import Driver, WorkerSettings
from .middleware import AroundAttempt, AttemptFunction, Middleware
from .runner import Item

if TYPE_CHECKING:
    from typing_extensions import Self

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
P = ParamSpec("P")
F = TypeVar("F", bound=AroundAttempt)


class Worker:
    """Claims executions of its tasks and runs them, up to `concurrency` at a time.

    `async with worker:` starts it, and drains it at the end of the block. `worker.run()` runs it until SIGTERM or
    SIGINT. Durations are seconds or a `timedelta`:

    - `lease_ttl`: how long an execution stays with a worker that is silent (default 30);
    - `drain_timeout`: how long a drain lets handlers finish before it cancels and releases them (default 30);
    - `cancel_grace`: how long a handler may take after `ctx.cancelled` before its task is cancelled (default 5).

    `name` names the program, `instance` this process: by default SELVEDGE_INSTANCE, or a new name for each start. A
    process that starts again under the same instance takes over from its predecessor at once. Give
    `capabilities` to run executions that require them.

    `lifespan` is a function that returns an asynchronous context manager. It is entered before the first claim and left
    after the last handler, and its value is `ctx.state`.
    """

    def __init__(
        self,
        client: Client | SyncClient | None = None,
        *,
        lanes: Sequence[str] = ("default",),
        concurrency: int = 10,
        name: str = "python",
        instance: str | None = None,
        capabilities: Sequence[str] = (),
        lease_ttl: Seconds = 30.0,
        drain_timeout: Seconds = 30.0,
        cancel_grace: Seconds = 5.0,
        lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self.client = _asynchronous(client)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.settings = WorkerSettings(
            name=name,
            instance=instance
            or os.environ.get("SELVEDGE_INSTANCE")
            or f"{name}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            lanes=lanes,
            capabilities=capabilities,
            concurrency=concurrency,
            lease_ttl=milliseconds(lease_ttl) / 1000,
            drain_timeout=milliseconds(drain_timeout) / 1000,
            cancel_grace=milliseconds(cancel_grace) / 1000,
        )
        self._lifespan = lifespan or contextlib.nullcontext
        self._middleware: list[Middleware] = []
        self._driver: Driver | None = None
        self._running: asyncio.Task[None] | None = None

    # The order of the overloads matters: an async function is also a function that returns an awaitable.
    @overload
    def task(self, kind: str) -> _Decorator: ...
    @overload
    def task(  # pyright: ignore[reportOverlappingOverload]
        self, kind: TaskType[None, O]
    ) -> Callable[[Callable[[Any], Awaitable[O] | O]], Task[None, O]]: ...
    @overload
    def task(self, kind: TaskType[I, O]) -> Callable[[Callable[[Any, I], Awaitable[O] | O]], Task[I, O]]: ...
    @overload
    def task(self, kind: Callable[..., Any]) -> Task[Any, Any]: ...

    def task(self, kind: Any) -> Any:
        """Registers the function that runs a kind: `@worker.task("greet")`, or `@worker.task` to use its name. A
        declaration by `task_type` may take the place of the kind.

        The first parameter is the context, the second the input, converted by its annotation. With keyword-only
        parameters instead of a second one, the input is an object of them. A plain function runs in a thread, with a
        context whose operations block.
        """
        if isinstance(kind, TaskType):
            return _Decorator(self, kind.kind)
        if callable(kind):
            return self._register(Task(getattr(kind, "__name__", "task"), kind))
        return _Decorator(self, kind)

    def batch_task(
        self, kind: str, *, max: int
    ) -> Callable[[Callable[[list[Item[I]]], Awaitable[Any] | Any]], Task[I, Any]]:
        """Registers a function that takes up to `max` executions in one call and answers each alone.

        It gets a list of items, and answers by `item.complete(…)` and `item.fail(…)`, or by returning a list of results
        in the same order, in which an exception fails its execution. A batch takes a slot for each execution, so
        `concurrency` should be at least `max`.
        """

        def register(function: Callable[[list[Item[I]]], Awaitable[Any] | Any]) -> Task[I, Any]:
            return self._register(Task(kind, function, max))

        return register

    def use(self, middleware: Middleware | AroundAttempt) -> None:
        """Adds middleware around the attempts and steps of all tasks, or a function around the attempts. The first that
        is added is the outermost."""
        if self._running is not None:
            raise RuntimeError("add middleware before the worker starts")
        if not callable(middleware) and not isinstance(middleware, Middleware):
            raise TypeError(f"middleware is a Middleware or an async function, not {type(middleware).__name__}")
        self._middleware.append(middleware if isinstance(middleware, Middleware) else AttemptFunction(middleware))

    def middleware(self, function: F) -> F:
        """Adds a function around the attempts of all tasks, as a decorator. See `use`."""
        self.use(function)
        return function

    def _register(self, task: Task[I, O]) -> Task[I, O]:
        if self._running is not None:
            raise RuntimeError("register tasks before the worker starts")
        if task.kind in self.tasks:
            raise ValueError(f"the worker has a task {task.kind!r} already")
        self.tasks[task.kind] = task
        return task

    async def start(self) -> None:
        """Starts the worker in the running event loop."""
        if self._running is not None:
            raise RuntimeError("the worker runs already")
        if not self.tasks:
            raise RuntimeError("the worker has no task; register one with @worker.task")
        loop = asyncio.get_running_loop()
        started: asyncio.Future[Driver] = loop.create_future()
        running = self._running = loop.create_task(self._live(started))
        running.add_done_callback(lambda _: started.cancel())
        await asyncio.wait([started])
        if started.cancelled():
            self._running = None
            await running  # raises what the lifespan raised
            raise RuntimeError("the lifespan of the worker has ended before the worker started")
        self._driver = started.result()

    async def _live(self, started: asyncio.Future[Driver]) -> None:
        """Runs the worker within its lifespan."""
        settings = replace(self.settings, middleware=tuple(self._middleware))
        async with self._lifespan() as state:
            driver = Driver(self.client, settings, self.tasks, state)
            started.set_result(driver)
            await driver.run()

    async def drain(self) -> None:
        """Claims no more, lets running handlers finish within the drain timeout, and departs.

        Raises the error if the server has refused this worker.
        """
        if self._driver is not None:
            self._driver.drain()
        await self.wait()

    async def wait(self) -> None:
        """Waits until the worker has drained, for example because an operator asked for it."""
        if self._driver is None or self._running is None:
            return
        driver, running = self._driver, self._running
        try:
            await asyncio.shield(running)
        finally:
            if running.done():
                self._driver = self._running = None
        if driver.error is not None:
            raise driver.error

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.drain()

    def run(self) -> None:
        """Runs the worker until SIGTERM or SIGINT, then drains. A second signal ends the process at once."""
        asyncio.run(self.serve())

    async def serve(self) -> None:
        """Like `run`, within an event loop."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        stopped = asyncio.Event()

        def stop() -> None:
            stopped.set()
            for number in handled:
                loop.remove_signal_handler(number)
            if self._driver is not None:
                self._driver.drain()

        for number in handled:
            loop.add_signal_handler(number, stop)
        try:
            await self.start()
            if stopped.is_set() and self._driver is not None:
                self._driver.drain()
            await self.wait()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
            await self.client.aclose()


class _Decorator:
    """Registers a function as a task, with the types of its input and result."""

    def __init__(self, worker: Worker, kind: str) -> None:
        self._worker = worker
        self._kind = kind

    @overload
    def __call__(self, function: Callable[[Any, I], Awaitable[O]]) -> Task[I, O]: ...
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[[Any], Awaitable[O]]
    ) -> Task[None, O]: ...
    @overload
    def __call__(self, function: Callable[[Any, I], O]) -> Task[I, O]: ...
    @overload
    def __call__(self, function: Callable[[Any], O]) -> Task[None, O]: ...
    # mypy reports the next two overloads as unreachable; `tests/type_tests.py` shows that it finds them.
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[Concatenate[Any, P], Awaitable[O]]
    ) -> Task[Fields[P], O]: ...
    @overload
    def __call__(  # type: ignore[overload-cannot-match]
        self, function: Callable[Concatenate[Any, P], O]
    ) -> Task[Fields[P], O]: ...
    @overload
    def __call__(self, function: Callable[..., Any]) -> Task[Any, Any]: ...

    def __call__(self, function: Callable[..., Any]) -> Task[Any, Any]:
        return self._worker._register(Task(self._kind, function))


def _asynchronous(client: Client | SyncClient | None) -> Client:
    """Returns an asynchronous client with the same settings."""
    if isinstance(client, Client):
        return client
    if client is None:
        return Client()
    found = Client()
    found._use(client._settings)
    return found
