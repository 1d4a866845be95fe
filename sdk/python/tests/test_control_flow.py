"""How a handler ends its attempt without a failure, and how it learns that it should."""

from __future__ import annotations

import asyncio

import pytest

from selvedge import Cancelled, Client, Context, Delay, NotCompleted, Release, SyncContext, Worker
from waiting import state_of


@pytest.mark.parametrize("inside", ["handler", "step", "thread"])
async def test_a_handler_that_catches_every_exception_does_not_swallow_a_delay(
    client: Client, worker: Worker, lane: str, inside: str
) -> None:
    def delay_once(attempt: int) -> str:
        if attempt == 0:
            raise Delay(0.01)
        if attempt == 1:
            raise Release
        return f"attempt {attempt}"

    @worker.task("late")
    async def late(ctx: Context) -> str:
        try:
            if inside == "handler":
                return delay_once(ctx.attempt)
            return await ctx.step("late", delay_once, ctx.attempt)
        except Exception:
            return "swallowed"

    @worker.task("late-in-thread")
    def late_in_thread(ctx: SyncContext) -> str:
        try:
            return ctx.step("late", delay_once, ctx.attempt)
        except Exception:
            return "swallowed"

    async with worker:
        run = await client.submit(late_in_thread if inside == "thread" else late, lane=lane, retry=0)
        assert await run.result(timeout=20) == "attempt 2"


async def test_a_cancelled_handler_may_end_by_the_flag(client: Client, worker: Worker, lane: str) -> None:
    begun = asyncio.Event()

    @worker.task("looks")
    async def looks(ctx: Context) -> None:
        assert not ctx.cancelled
        ctx.cancelled.raise_if_set()
        begun.set()
        await ctx.cancelled.wait()
        assert ctx.cancelled
        assert ctx.cancelled.is_set()
        try:
            ctx.cancelled.raise_if_set()
        except Exception:
            pytest.fail("an `except Exception` swallows the end")

    @worker.task("looks-in-thread")
    def looks_in_thread(ctx: SyncContext) -> None:
        assert not ctx.cancelled.wait(0.001)
        while not ctx.cancelled:
            ctx.cancelled.wait(20)
        ctx.cancelled.raise_if_set()

    async with worker:
        for task in (looks, looks_in_thread):
            run = await client.submit(task, lane=lane)
            await state_of(client, run.id, "active")
            await run.cancel(grace=60)
            with pytest.raises(NotCompleted) as ended:
                await run.result(timeout=20)
            assert ended.value.outcome == "cancelled"
        assert begun.is_set()


@pytest.mark.skipif(not hasattr(asyncio, "TaskGroup"), reason="TaskGroup is new in Python 3.11")
async def test_the_only_exception_of_a_group_counts(client: Client, worker: Worker, lane: str) -> None:
    async def later() -> None:
        raise Delay(0.01)

    @worker.task("grouped")
    async def grouped(ctx: Context) -> str:
        if ctx.attempt == 0:
            async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined, unused-ignore]  # pyright: ignore
                group.create_task(later())
        return "done"

    async with worker:
        assert await (await client.submit(grouped, lane=lane, retry=0)).result(timeout=20) == "done"


def test_the_exceptions_that_end_an_attempt_are_no_exceptions_to_catch() -> None:
    for each in (Delay, Release, Cancelled):
        assert not issubclass(each, Exception)
