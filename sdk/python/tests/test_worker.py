"""Handlers that behave badly, and a worker that stops."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from selvedge import (
    Client,
    Context,
    Delay,
    Flow,
    Item,
    NotCompleted,
    Permanent,
    Release,
    Retry,
    RetryPolicy,
    Run,
    Superseded,
    SyncContext,
    Worker,
    sync,
)
from selvedge.testing import Server
from waiting import eventually, state_of

SOON = RetryPolicy(max_retries=3, fixed=0.01)


async def test_a_handler_that_raises_is_retried_until_it_succeeds(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("flaky")
    async def flaky(ctx: Context) -> int:
        if ctx.attempt < 2:
            raise ValueError("not yet")
        return ctx.attempt

    async with worker:
        run = await client.submit(flaky, lane=lane, retry=SOON)
        assert await run.result(timeout=20) == 2
        errors = [attempt["error"] for attempt in await run.attempts()]
        assert errors[0] is not None
        assert errors[0]["message"] == "ValueError: not yet"


async def test_a_handler_says_how_its_attempt_ends(client: Client, worker: Worker, lane: str) -> None:
    keys = set()

    @worker.task("ends")
    async def ends(ctx: Context, how: str) -> str:
        keys.add(ctx.idempotency_key)
        if how == "permanent":
            raise Permanent("never")
        if ctx.attempt == 0:
            raise {"retry": Retry("busy", after=0.01), "delay": Delay(0.01), "release": Release()}[how]
        return how

    async with worker:
        runs = {how: await client.submit(ends, how, lane=lane) for how in ("retry", "delay", "release", "permanent")}
        for how in ("retry", "delay", "release"):
            assert await runs[how].result(timeout=20) == how
        with pytest.raises(NotCompleted, match="never") as failed:
            await runs["permanent"].result(timeout=20)
        assert failed.value.error == {"message": "never", "class": "permanent"}
        assert (await runs["retry"].get())["retries"] == 1
        assert (await runs["delay"].get())["retries"] == 0
    assert len(keys) == 4


async def test_a_handler_that_exits_the_interpreter_fails_only_its_attempt(
    client: Client, worker: Worker, lane: str
) -> None:
    @worker.task("exit")
    async def leave(ctx: Context, *, plain: bool, code: int) -> str:
        if ctx.attempt == 0:
            raise SystemExit(code)
        return "still here"

    @worker.task("exit-in-thread")
    def leave_in_thread(ctx: SyncContext) -> str:
        if ctx.attempt == 0:
            raise SystemExit
        return "still here"

    async with worker:
        first = await client.submit(leave, leave.input(plain=False, code=3), lane=lane, retry=SOON)
        second = await client.submit(leave_in_thread, lane=lane, retry=SOON)
        assert [await first.result(timeout=20), await second.result(timeout=20)] == ["still here"] * 2


async def test_a_result_of_five_megabytes_fails_with_a_clear_message(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("large")
    async def large(ctx: Context) -> str:
        return "x" * 5_000_000

    @worker.task("strange")
    async def strange(ctx: Context) -> Any:
        return object()

    async with worker:
        with pytest.raises(NotCompleted, match="store it elsewhere and return a reference"):
            await (await client.submit(large, lane=lane)).result(timeout=20)
        with pytest.raises(NotCompleted, match="the result is not JSON"):
            await (await client.submit(strange, lane=lane)).result(timeout=20)


async def test_a_handler_that_hangs_is_cancelled_after_the_grace(client: Client, worker: Worker, lane: str) -> None:
    told = asyncio.Event()

    @worker.task("hang")
    async def hang(ctx: Context) -> None:
        await ctx.cancelled.wait()
        told.set()
        await asyncio.Event().wait()

    async with worker:
        run = await client.submit(hang, lane=lane)
        await state_of(client, run.id, "active")
        await run.cancel(reason="enough", grace=60)
        await asyncio.wait_for(told.wait(), 20)
        with pytest.raises(NotCompleted) as ended:
            await run.result(timeout=20)
        assert ended.value.outcome == "cancelled"


async def test_a_handler_that_hangs_loses_its_attempt_after_the_timeout_and_its_slot_is_free(
    client: Client, lane: str
) -> None:
    worker = Worker(client, lanes=[lane], concurrency=1)
    cancelled = asyncio.Event()

    @worker.task("hang")
    async def hang(ctx: Context) -> str:
        if ctx.attempt > 0:
            return "second"
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "first"

    async with worker:
        run = await client.submit(hang, lane=lane, retry=SOON, attempt_timeout=0.5)
        assert await run.result(timeout=20) == "second"
        await asyncio.wait_for(cancelled.wait(), 20)


async def test_a_result_that_exists_is_kept_although_a_cancel_was_requested(
    client: Client, worker: Worker, lane: str
) -> None:
    @worker.task("clean-up")
    async def clean_up(ctx: Context) -> str:
        await ctx.cancelled.wait()
        return "cleaned up"

    async with worker:
        run = await client.submit(clean_up, lane=lane)
        await state_of(client, run.id, "active")
        await run.cancel(grace=60)
        assert await run.result(timeout=20) == "cleaned up"


async def test_a_handler_that_ignores_its_cancellation_is_dropped(
    client: Client, worker: Worker, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()
    cancelled = asyncio.Event()

    @worker.task("stubborn")
    async def stubborn(ctx: Context) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.set()
        return "late"

    with caplog.at_level(logging.WARNING):
        async with worker:
            run = await client.submit(stubborn, lane=lane)
            await state_of(client, run.id, "active")
            await run.cancel()
            await asyncio.wait_for(cancelled.wait(), 20)
            release.set()
            assert (await run.get())["state"] == "cancelled"
    assert "the lease was lost, so the handler is cancelled and its result dropped" in caplog.text


async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("block")
    async def block(ctx: Context) -> int:
        time.sleep(5)  # noqa: ASYNC251  two and a half times the lease
        return ctx.attempt

    async with worker:
        run = await client.submit(block, lane=lane)
        assert await run.result(timeout=20) == 0
        assert (await run.get())["interruptions"] == 0


async def test_a_revoked_lease_cancels_the_handler_and_drops_its_result(
    client: Client, worker: Worker, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = asyncio.Event()

    @worker.task("revoked")
    async def revoked(ctx: Context) -> int:
        if ctx.attempt == 0:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        return ctx.attempt

    with caplog.at_level(logging.WARNING):
        async with worker:
            run = await client.submit(revoked, lane=lane)
            await state_of(client, run.id, "active")
            await client.revoke_lease(run.id)
            assert await run.result(timeout=20) == 1
            await asyncio.wait_for(cancelled.wait(), 20)
    assert "the lease was lost" in caplog.text


async def test_a_drain_lets_handlers_finish(client: Client, worker: Worker, lane: str) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @worker.task("slow")
    async def slow(ctx: Context) -> str:
        began.set()
        await go.wait()
        return "finished"

    async with worker:
        run = await client.submit(slow, lane=lane)
        await asyncio.wait_for(began.wait(), 20)
        asyncio.get_running_loop().call_later(0.1, go.set)
    assert (await run.get())["state"] == "completed"
    assert [
        found["live"] async for found in client.list_workers() if found.get("instance") == worker.settings.instance
    ] == [False]


async def test_a_drain_releases_what_takes_too_long(client: Client, lane: str) -> None:
    worker = Worker(client, lanes=[lane], drain_timeout=0.2)
    began, ended = asyncio.Event(), asyncio.Event()

    @worker.task("endless")
    async def endless(ctx: Context) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with worker:
        run = await client.submit(endless, lane=lane)
        await asyncio.wait_for(began.wait(), 20)
    assert ended.is_set()
    found = await run.get()
    assert (found["state"], found["retries"], found["interruptions"]) == ("waiting", 0, 0)


async def test_an_operator_drains_a_worker(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("noop")
    async def noop(ctx: Context) -> None: ...

    async with worker:
        await (await client.submit(noop, lane=lane)).result(timeout=20)
        await client.drain_worker(worker.settings.instance)
        await asyncio.wait_for(worker.wait(), 20)


async def test_a_second_process_under_the_same_instance_takes_over(client: Client, lane: str) -> None:
    first = Worker(client, lanes=[lane], instance=lane)
    second = Worker(client, lanes=[lane], instance=lane)
    started = asyncio.Event()

    async def wait_or_return(ctx: Context) -> int:
        if ctx.attempt == 0:
            started.set()
            await asyncio.Event().wait()
        return ctx.attempt

    first.task("job")(wait_or_return)
    second.task("job")(wait_or_return)
    await first.start()
    run = await client.submit("job", lane=lane)
    await asyncio.wait_for(started.wait(), 20)
    async with second:
        assert await run.result(timeout=20) == 1
        with pytest.raises(Superseded):
            await asyncio.wait_for(first.wait(), 20)


async def test_a_worker_that_the_server_refuses_says_so(client: Client) -> None:
    worker = Worker(client, lanes=[""])

    @worker.task("noop")
    async def noop(ctx: Context) -> None: ...

    await worker.start()
    with pytest.raises(Exception, match="invalid_field"):
        await asyncio.wait_for(worker.wait(), 20)


async def test_plain_functions_run_in_threads(client: Client, worker: Worker, lane: str) -> None:
    threads = set()

    @worker.task("plain")
    def plain(ctx: SyncContext, name: str) -> str:
        threads.add(threading.current_thread())
        length = ctx.step("measure", len, name)
        ctx.sleep("pause", 0.01)
        ctx.frame({"length": length})
        ctx.progress(50, "half")
        return f"{name} {length} {ctx.attempt}"

    async with worker:
        run = await client.submit(plain, "Ada", lane=lane)
        assert await run.result(timeout=20) == "Ada 3 1"
        assert [step["name"] for step in await run.steps()] == ["measure", "pause"]
    assert threading.main_thread() not in threads


async def test_plain_functions_have_branches_children_and_signals(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("child")
    def child(ctx: SyncContext, n: int) -> int:
        return n * 10

    @worker.task("parent")
    def parent(ctx: SyncContext) -> Any:
        both = ctx.all("both", {"a": lambda ctx: ctx.step("one", int, "1"), "b": lambda ctx: ctx.step("two", int, "2")})
        first = ctx.race(
            "first", {"late": lambda ctx: ctx.sleep("nap", 3600), "soon": lambda ctx: ctx.sleep("nap", 0.01)}
        )
        ctx.spawn(child, 7, name="seven", lane=lane)
        children = ctx.join()
        signal = ctx.wait_for_signal("go", timeout=60)
        assert signal is not None
        return [both, first, children["seven"].result, signal.payload]

    async with worker:
        run = await client.submit(parent, lane=lane)
        await run.signal("go", "now")
        assert await run.result(timeout=30) == [{"a": 1, "b": 2}, None, 70, "now"]


async def test_a_plain_function_sees_its_cancellation(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("plain-cancel")
    def plain(ctx: SyncContext) -> str:
        assert ctx.cancelled.wait(20)
        return "stopped"

    async with worker:
        run = await client.submit(plain, lane=lane)
        await state_of(client, run.id, "active")
        await run.cancel(grace=60)
        assert await run.result(timeout=20) == "stopped"


@dataclass
class Page:
    text: str


async def test_a_batch_handler_answers_each_execution_alone(client: Client, lane: str) -> None:
    worker = Worker(client, lanes=[lane], concurrency=16)
    sizes: list[int] = []

    @worker.batch_task("embed", max=8)
    async def embed(items: list[Item[Page]]) -> list[Any]:
        sizes.append(len(items))
        return [Permanent("empty") if not item.input.text else len(item.input.text) for item in items]

    await client.lanes.put(lane, state="paused")
    texts = ["a", "", "ccc", *["dd"] * 7]
    runs = await client.submit_batch([{"kind": embed, "input": Page(text), "lane": lane} for text in texts])
    async with worker:
        await client.lanes.resume(lane)
        outcomes = [await client.outcome(run.id, 20) for run in runs if isinstance(run, Run)]
    assert [found and found["outcome"] for found in outcomes] == ["completed", "failed", *["completed"] * 8]
    assert outcomes[2] is not None
    assert outcomes[2]["result"] == 3
    assert max(sizes) <= 8
    assert sum(sizes) == 10


async def test_a_batch_handler_that_raises_fails_what_it_has_not_answered(client: Client, lane: str) -> None:
    worker = Worker(client, lanes=[lane])

    @worker.batch_task("half", max=2)
    def half(items: list[Item[int]]) -> None:
        for item in items:
            if item.input == 1:
                item.complete("done")
        raise Permanent("the rest failed")

    await client.lanes.put(lane, state="paused")
    runs = [await client.submit(half, n, lane=lane) for n in (1, 2)]
    async with worker:
        await client.lanes.resume(lane)
        assert await runs[0].result(timeout=20) == "done"
        with pytest.raises(NotCompleted, match="the rest failed"):
            await runs[1].result(timeout=20)


async def test_frames_are_followed_while_they_come(client: Client, worker: Worker, lane: str) -> None:
    more = asyncio.Event()

    @worker.task("talk")
    async def talk(ctx: Context) -> None:
        await ctx.frame("Hel", kind="stdout")
        await ctx.summarise({"words": 1})
        await more.wait()
        await ctx.frame({"rest": "lo"}, mode="best_effort")

    async with worker:
        run = await client.submit(talk, lane=lane)
        await eventually(run.frames, lambda frames: frames)
        seen = []
        async for frame in run.tail():
            seen.append(frame["data"])
            more.set()
        assert seen == ["Hel", {"rest": "lo"}]
        assert (await run.summary())["document"] == {"words": 1}


async def test_a_join_gets_its_upstreams_also_the_large_ones(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("make")
    async def make(ctx: Context, size: int) -> str:
        return "x" * size

    @worker.task("sum")
    async def total(ctx: Context) -> Any:
        left_out = sorted(ctx.upstream.refs)
        assert left_out
        with pytest.raises(KeyError, match="fetch"):
            ctx.upstream[left_out[0]]
        return sum([len(await ctx.upstream.fetch(node)) for node in ctx.upstream.outcomes])

    flow = Flow("large", defaults={"lane": lane})
    parts = [flow.add(f"part-{n}", make, 1_000_000) for n in range(6)]
    flow.add("sum", total, after=parts)
    async with worker:
        ended = await (await client.submit_flow(flow)).result(timeout=60)
        assert ended["sum"] == 6_000_000


async def test_a_worker_takes_a_synchronous_client(server: Server, client: Client, lane: str) -> None:
    worker = Worker(sync.Client(server.url), lanes=[lane])

    @worker.task
    def double(ctx: SyncContext, n: int) -> int:
        return 2 * n

    async with worker:
        assert await (await client.submit(double, 4, lane=lane)).result(timeout=20) == 8


def test_a_worker_without_a_task_does_not_start(server: Server) -> None:
    with pytest.raises(RuntimeError, match="no task"):
        Worker(server.client()).run()
