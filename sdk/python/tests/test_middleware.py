"""Middleware around attempts and steps, lifespans of workers, and what the log says about a failure."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from selvedge import (
    Client,
    Context,
    Item,
    Middleware,
    Next,
    NotCompleted,
    Permanent,
    Retry,
    Run,
    Submission,
    Suspended,
    SyncContext,
    Worker,
)
from selvedge.errors import with_causes

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


class Recorder(Middleware):
    """Notes what it is around."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    async def attempt(self, ctx: Context[Any], call_next: Next, /) -> Any:
        self.notes.append(f"{self.name} begins {ctx.attempt}")
        try:
            return await call_next()
        except Suspended:
            self.notes.append(f"{self.name} is suspended")
            raise
        finally:
            await asyncio.sleep(0)
            self.notes.append(f"{self.name} ends")

    async def step(self, ctx: Context[Any], name: str, call_next: Next, /) -> Any:
        self.notes.append(f"{self.name} step {name}")
        return await call_next()


async def test_middleware_is_around_attempts_and_steps_that_run(client: Client, worker: Worker, lane: str) -> None:
    notes: list[str] = []
    worker.use(Recorder("outer", notes))
    worker.use(Recorder("inner", notes))

    @worker.task("steps")
    async def steps(ctx: Context) -> str:
        await ctx.step("first", notes.append, "first runs")
        await ctx.sleep("pause", 0.01)
        return "done"

    async with worker:
        assert await (await client.submit(steps, lane=lane)).result(timeout=20) == "done"
    assert notes == [
        *("outer begins 0", "inner begins 0", "outer step first", "inner step first", "first runs"),
        *("inner is suspended", "inner ends", "outer is suspended", "outer ends"),
        *("outer begins 1", "inner begins 1", "inner ends", "outer ends"),
    ]


async def test_middleware_may_replace_results_set_variables_and_refuse(
    client: Client, worker: Worker, lane: str
) -> None:
    # region: middleware
    @worker.middleware
    async def with_tenant(ctx: Context[Any], call_next: Next) -> Any:
        if "tenant" not in ctx.tags:
            raise Permanent("the execution has no tenant")
        token = tenant.set(ctx.tags["tenant"])  # handlers and steps see it, also those in threads
        try:
            return await call_next()
        finally:
            tenant.reset(token)

    # endregion: middleware

    class Masked(Middleware):
        async def step(self, ctx: Context[Any], name: str, call_next: Next, /) -> Any:
            return f"{await call_next()}, masked"

    worker.use(Masked())

    @worker.task("whose")
    def whose(ctx: SyncContext) -> str:
        return ctx.step("whose", lambda: tenant.get())

    async with worker:
        run = await client.submit(whose, lane=lane, tags={"tenant": "ada"})
        assert await run.result(timeout=20) == "ada, masked"
        run = await client.submit(whose, lane=lane)
        with pytest.raises(NotCompleted, match="has no tenant"):
            await run.result(timeout=20)
    with pytest.raises(TypeError):
        Worker().use(3)  # type: ignore


async def test_in_a_batch_the_middleware_is_around_each_execution(client: Client, lane: str) -> None:
    worker = Worker(client, lanes=[lane], concurrency=8)
    sizes: list[int] = []

    @worker.middleware
    async def around(ctx: Context[Any], call_next: Next) -> Any:
        if ctx.input == 0:
            return "not called"
        try:
            return f"around {await call_next()}"
        except ValueError as error:
            return f"mended {error}"

    @worker.batch_task("square", max=8)
    async def square(items: list[Item[int]]) -> list[Any]:
        sizes.append(len(items))
        for item in items:
            if item.input == 5:
                item.complete("by hand")
        return [ValueError("negative") if item.input < 0 else item.input**2 for item in items]

    runs = [
        run
        for run in await client.submit_batch([Submission(square, n, lane=lane) for n in (0, 2, -1, 5)])
        if isinstance(run, Run)
    ]
    async with worker:
        found = [await run.result(timeout=20) for run in runs]
    assert found == ["not called", "around 4", "mended negative", "by hand"]
    assert sum(sizes) == 3


async def test_the_next_function_is_called_once(client: Client, worker: Worker, lane: str) -> None:
    @worker.middleware
    async def twice(ctx: Context[Any], call_next: Next) -> Any:
        await call_next()
        return await call_next()

    @worker.task("once")
    async def once(ctx: Context) -> None: ...

    async with worker:
        run = await client.submit(once, lane=lane, retry=0)
        with pytest.raises(NotCompleted, match="a middleware has called call_next twice"):
            await run.result(timeout=20)


# region: lifespan
@dataclass
class State:
    open: bool = True
    counted: list[str] = field(default_factory=list)


@asynccontextmanager
async def lifespan() -> AsyncIterator[State]:
    state = State()  # a pool of connections, for example
    yield state
    state.open = False


# endregion: lifespan


async def test_a_lifespan_is_around_all_handlers(client: Client, lane: str) -> None:
    # region: state
    worker = Worker(client, lanes=[lane], lifespan=lifespan)

    @worker.task("count")
    async def count(ctx: Context[State], table: str) -> bool:
        ctx.state.counted.append(table)
        return ctx.state.open

    # endregion: state

    states: list[State] = []

    @worker.task("count-in-thread")
    def count_in_thread(ctx: SyncContext[State]) -> int:
        states.append(ctx.state)
        return len(ctx.state.counted)

    async with worker:
        assert await (await client.submit(count, "orders", lane=lane)).result(timeout=20) is True
        assert await (await client.submit(count_in_thread, lane=lane)).result(timeout=20) == 1
    assert states == [State(open=False, counted=["orders"])]
    async with worker:
        assert await (await client.submit(count_in_thread, lane=lane)).result(timeout=20) == 0


async def test_a_lifespan_that_fails_stops_the_start(client: Client, lane: str) -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise ConnectionError("no database")
        yield

    worker = Worker(client, lanes=[lane], lifespan=broken)

    @worker.task("never")
    async def never(ctx: Context) -> None: ...

    with pytest.raises(ConnectionError, match="no database"):
        await worker.start()


def chained(*errors: BaseException) -> BaseException:
    for error, cause in zip(errors, errors[1:]):  # noqa: B905, RUF007
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("order_id"), "KeyError: 'order_id'"),
        (
            chained(RuntimeError("not charged"), KeyError("card")),
            "RuntimeError: not charged; caused by KeyError: 'card'",
        ),
        (chained(Permanent("no: 'card'"), KeyError("card")), "no: 'card'"),
        (
            chained(Retry("busy"), OSError("down"), ValueError("x")),
            "busy; caused by OSError: down; caused by ValueError: x",
        ),
    ],
)
def test_the_message_of_an_error_has_its_causes(error: BaseException, expected: str) -> None:
    assert with_causes(error) == expected


async def test_failures_are_logged_with_kind_lane_execution_and_attempt(
    client: Client, worker: Worker, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    @worker.task("busy")
    async def busy(ctx: Context) -> int:
        if ctx.attempt == 0:
            raise Retry("the bank is busy", after=0.01)
        try:
            return {"a": 1}["card"]
        except KeyError as error:
            raise RuntimeError("not charged") from error

    async with worker:
        run = await client.submit(busy, lane=lane, retry=1)
        with pytest.raises(NotCompleted, match="RuntimeError: not charged; caused by KeyError: 'card'"):
            await run.result(timeout=20)
    failures = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in failures] == [
        f"busy in {lane}: execution {run.id} attempt 0 failed and asks for a retry: the bank is busy",
        f"busy in {lane}: execution {run.id} attempt 1 failed: RuntimeError: not charged; caused by KeyError: 'card'",
    ]
    found = vars(failures[1])
    assert (found["kind"], found["lane"], found["execution"], found["attempt"]) == ("busy", lane, run.id, 1)
    assert failures[1].exc_info
