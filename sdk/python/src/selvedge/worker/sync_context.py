"""The context of a plain function: the operations of `Context`, each of which blocks until it is done.

The function runs in a thread; its operations run in the event loop of the worker. A wait that is not over ends the
function by raising `Stopped`, which is not an `Exception`; the next attempt calls the function again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from ..flow import Flow
from ..options import SpawnOptions
from ..signal_type import SignalType
from ..sync import Client as SyncClient
from ..task import TaskType
from ..values import Seconds
from .approval import Approval, Ask
from .calls import in_thread
from .cancellation import SyncCancellation
from .context import Context
from .signals import Child, Condition, ReceivedSignal, Usage, Waitpoint, WaitResult
from .tracker import Stopped

if TYPE_CHECKING:
    import typing_extensions
    from typing_extensions import ParamSpec, Unpack

    P = ParamSpec("P")
    S_co = typing_extensions.TypeVar("S_co", covariant=True, default=None)
else:
    S_co = TypeVar("S_co", covariant=True)

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741


class SyncUpstream(Mapping[str, Any]):
    """The results of the upstreams that completed. One that was too large for the claim is read when it is used."""

    def __init__(self, context: SyncContext[Any]) -> None:
        self._context = context
        self._upstream = context._context.upstream
        self.refs = self._upstream.refs
        self.outcomes = self._upstream.outcomes

    def __getitem__(self, node: str) -> Any:
        if node in self.refs:
            return self._context._call(self._upstream.fetch(node))
        return self._upstream[node]

    @overload  # type: ignore[override]
    def get(self, node: str, type: type[T], /) -> T: ...
    @overload
    def get(self, node: str, default: Any = None, /) -> Any: ...

    def get(self, node: str, default: Any = None, /) -> Any:  # pyright: ignore
        """Returns the result of an upstream. See `Upstream.get`."""
        if node in self.refs:
            self._context._call(self._upstream.fetch(node))
        return self._upstream.get(node, default)

    def __iter__(self) -> Any:
        return iter({**dict.fromkeys(self._upstream), **dict.fromkeys(self.refs)})

    def __len__(self) -> int:
        return len({*self._upstream, *self.refs})


class SyncContext(Generic[S_co]):
    """The attempt that a plain function runs, or a branch of it."""

    def __init__(self, context: Context[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._pending: set[concurrent.futures.Future[Any]] = set()
        self._stopped = False
        self.execution_id = context.execution_id
        self.attempt = context.attempt
        self.generation = context.generation
        self.idempotency_key = context.idempotency_key
        self.kind = context.kind
        self.lane = context.lane
        self.flow_id = context.flow_id
        self.node = context.node
        self.tags = context.tags
        self.execution = context.execution
        self.traceparent = context.traceparent
        self.input = context.input
        self.children = context.children
        self.signals = context.signals
        self.upstream = SyncUpstream(self)

    @property
    def cancelled(self) -> SyncCancellation:
        """True once the execution should stop: its cancel was requested, or its lease is lost."""
        return SyncCancellation(self._context._attempt.cancelled)

    @property
    def state(self) -> S_co:
        """What the lifespan of the worker has made. See `Context.state`."""
        return cast(S_co, self._context.state)

    @property
    def client(self) -> SyncClient:
        """A client with the settings of the worker's, for calls about other executions."""
        client = SyncClient()
        client._use(self._context.client._settings)
        return client

    def step_key(self, name: str) -> str:
        """Returns a key for the effect of the step of this name in this branch, like `Context.step_key`."""
        return self._context.step_key(name)

    def _call(self, operation: Coroutine[Any, Any, T]) -> T:
        """Runs an operation in the event loop. The thread counts as idle meanwhile."""
        tracker = self._context._attempt.tracker

        async def run() -> T:
            tracker.end()
            try:
                return await operation
            finally:
                tracker.begin()

        if self._stopped:
            operation.close()
            raise Stopped
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        self._pending.add(future)
        if self._stopped:
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Stopped from None
        finally:
            self._pending.discard(future)

    def stop(self) -> None:
        """Ends the operations that the function waits for. The function ends at the latest with its next one."""
        self._stopped = True
        for future in list(self._pending):
            future.cancel()

    @overload
    def step(self, name: str, function: Callable[P, Awaitable[T]], /, *arguments: P.args, **named: P.kwargs) -> T: ...
    @overload
    def step(self, name: str, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T: ...

    def step(self, name: str, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Runs a function once and records its result. See `Context.step`."""
        return self._call(self._context.step(name, function, *arguments, **named))

    def allow_vanished_steps(self) -> None:
        """Lets this attempt return without every recorded step."""
        self._context.allow_vanished_steps()

    def sleep(self, name: str, duration: Seconds) -> None:
        """Sleeps without holding a worker. See `Context.sleep`."""
        self._call(self._context.sleep(name, duration))

    def sleep_until(self, name: str, time: datetime) -> None:
        """Sleeps until a time, without holding a worker."""
        self._call(self._context.sleep_until(name, time))

    @overload
    def wait_for_signal(
        self, signal: SignalType[T], *, timeout: Seconds | None = None, name: str | None = None
    ) -> ReceivedSignal[T] | None: ...
    @overload
    def wait_for_signal(
        self, signal: str, *, timeout: Seconds | None = None, name: str | None = None
    ) -> ReceivedSignal[Any] | None: ...

    def wait_for_signal(
        self, signal: Any, *, timeout: Seconds | None = None, name: str | None = None
    ) -> ReceivedSignal[Any] | None:
        """Waits for a signal. See `Context.wait_for_signal`."""
        return self._call(self._context.wait_for_signal(signal, timeout=timeout, name=name))

    def wait(self, name: str, until: Condition, *, timeout: Seconds | None = None) -> WaitResult:
        """Waits until a condition holds. See `Context.wait`."""
        return self._call(self._context.wait(name, until, timeout=timeout))

    def join(self, name: str = "join") -> dict[str, Child]:
        """Waits for the end of all children. See `Context.join`."""
        return self._call(self._context.join(name))

    def waitpoint(self, name: str, **options: Any) -> Waitpoint:
        """Creates a waitpoint. See `Context.waitpoint`."""
        return self._call(self._context.waitpoint(name, **options))

    def approval(
        self,
        name: str,
        *,
        of: Sequence[str],
        ask: Ask,
        at_least: int | None = None,
        timeout: Seconds | None = None,
        prompt: str | None = None,
    ) -> Approval:
        """Asks several people. See `Context.approval`."""
        found = self._context.approval(name, of=of, ask=ask, at_least=at_least, timeout=timeout, prompt=prompt)
        return self._call(found)

    def race(self, name: str, branches: Mapping[str, Callable[[SyncContext[S_co]], T]]) -> T:
        """Runs branches in threads, and returns the result of the first that ends. See `Context.race`."""
        return self._call(self._context.race(name, {each: self._branch(run) for each, run in branches.items()}))

    def all(self, name: str, branches: Mapping[str, Callable[[SyncContext[S_co]], T]]) -> dict[str, T]:
        """Runs branches in threads until all have ended. See `Context.all`."""
        return self._call(self._context.all(name, {each: self._branch(run) for each, run in branches.items()}))

    def _branch(self, function: Callable[[SyncContext[S_co]], T]) -> Callable[[Context[Any]], Coroutine[Any, Any, T]]:
        async def branch(context: Context[Any]) -> T:
            return await run_in_thread(context, lambda branch_context: lambda: function(branch_context))

        return branch

    @overload
    def spawn(self, kind: TaskType[None, Any], input: None = None, **options: Unpack[SpawnOptions]) -> str: ...
    @overload
    def spawn(self, kind: TaskType[I, Any], input: I, **options: Unpack[SpawnOptions]) -> str: ...
    @overload
    def spawn(self, kind: str, input: Any = None, **options: Unpack[SpawnOptions]) -> str: ...

    def spawn(self, kind: Any, input: Any = None, **options: Unpack[SpawnOptions]) -> str:
        """Adds a child. See `Context.spawn`."""
        return self._call(self._context.spawn(kind, input, **options))

    def spawn_flow(self, flow: Flow, *, detach: bool = False) -> dict[str, str]:
        """Adds several children. See `Context.spawn_flow`."""
        return self._call(self._context.spawn_flow(flow, detach=detach))

    def frame(
        self,
        data: Any,
        kind: Literal["stdout", "stderr", "event", "blob"] = "event",
        *,
        mode: Literal["durable", "best_effort", "summary"] = "durable",
        correlation_id: str | None = None,
    ) -> None:
        """Appends to the stream. See `Context.frame`."""
        self._call(self._context.frame(data, kind, mode=mode, correlation_id=correlation_id))

    def summarise(self, patch: Mapping[str, Any]) -> None:
        """Applies a JSON merge patch to the summary. See `Context.summarise`."""
        self._call(self._context.summarise(patch))

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Reports progress. See `Context.progress`."""
        self._call(self._context.progress(percent, message))

    def usage(
        self, budget: str, amounts: Mapping[str, float] | None = None, /, *, dedup_key: str | None = None, **more: float
    ) -> Usage:
        """Counts spending on a budget. See `Context.usage`."""
        return self._call(self._context.usage(budget, amounts, dedup_key=dedup_key, **more))


async def run_in_thread(context: Context[Any], bind: Callable[[SyncContext[Any]], Callable[[], T]]) -> T:
    """Runs a plain function in a thread with a context of its own. The attempt is not suspended while it computes.

    A thread cannot be cancelled. A cancelled call ends the context of the function and waits for the function to end.
    """
    sync_context = SyncContext(context, asyncio.get_running_loop())
    function = bind(sync_context)
    with context._attempt.tracker.busy():
        thread = in_thread(function)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            sync_context.stop()
            while not thread.done():
                try:
                    await asyncio.wait([thread])
                except asyncio.CancelledError:
                    continue
            thread.exception()
            raise
