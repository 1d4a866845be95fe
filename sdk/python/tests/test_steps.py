"""Durable steps, waits and branches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from selvedge import (
    Client,
    Context,
    NotCompleted,
    Permanent,
    Retry,
    RetryPolicy,
    Until,
    Waitpoint,
    Worker,
)
from selvedge.testing import Server
from waiting import eventually, state_of

SOON = RetryPolicy(max_retries=20, fixed=0.0)


@dataclass
class Receipt:
    number: int


async def test_a_step_runs_once_over_all_attempts(client: Client, worker: Worker, lane: str) -> None:
    ran: list[str] = []

    def charge(name: str, *, number: int) -> Receipt:
        ran.append(name)
        return Receipt(number)

    @worker.task("order")
    async def order(ctx: Context) -> str:
        receipt = await ctx.step("charge", charge, "charge", number=7)
        assert isinstance(receipt, Receipt), "also an attempt that reads the record gets the type of the annotation"
        if ctx.attempt < 2:
            raise Retry("the warehouse is away")
        return f"receipt {receipt.number}"

    async with worker:
        run = await client.submit(order, lane=lane, retry=SOON)
        assert await run.result(timeout=20) == "receipt 7"
    assert ran == ["charge"]


async def test_an_exception_of_a_step_is_not_recorded(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("fails-once")
    async def fails_once(ctx: Context) -> int:
        async def effect() -> int:
            if ctx.attempt == 0:
                raise ConnectionError
            return ctx.attempt

        try:
            return await ctx.step("effect", effect)
        except ConnectionError:
            assert ctx.attempt == 0
            raise

    async with worker:
        run = await client.submit(fails_once, lane=lane, retry=SOON)
        assert await run.result(timeout=20) == 1


@pytest.mark.parametrize("wrong", ["twice", "vanished", "not json", "too large", "became a wait"])
async def test_steps_that_do_not_fit_the_record_are_permanent_failures(
    client: Client, worker: Worker, lane: str, wrong: str
) -> None:
    async def one() -> int:
        return 1

    async def bad() -> Any:
        return object() if wrong == "not json" else "x" * 2_000_000

    @worker.task("wrong")
    async def handler(ctx: Context) -> None:
        if wrong in ("not json", "too large"):
            await ctx.step("bad", bad)
        elif wrong == "became a wait" and ctx.attempt > 0:
            await ctx.wait_for_signal("a")
        elif wrong != "vanished" or ctx.attempt == 0:
            await ctx.step("a", one)
            if wrong == "twice":
                await ctx.step("a", one)
        if ctx.attempt == 0:
            raise Retry("again")

    async with worker:
        run = await client.submit(handler, lane=lane, retry=SOON)
        with pytest.raises(NotCompleted) as failed:
            await run.result(timeout=20)
    assert failed.value.error is not None
    assert failed.value.error["class"] == "permanent"
    assert "'a'" in failed.value.error["message"] or "'bad'" in failed.value.error["message"]


async def test_a_removed_step_is_allowed_on_request(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("removed")
    async def removed(ctx: Context) -> str:
        if ctx.attempt == 0:
            await ctx.step("old", int, "1")
            raise Retry("again")
        ctx.allow_vanished_steps()
        return "fine"

    async with worker:
        assert await (await client.submit(removed, lane=lane, retry=SOON)).result(timeout=20) == "fine"


async def test_a_gather_suspends_only_when_nothing_runs(client: Client, worker: Worker, lane: str) -> None:
    attempts = []

    async def slowly(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @worker.task("gather")
    async def gather(ctx: Context) -> Any:
        attempts.append(ctx.attempt)

        async def two_steps() -> list[float]:
            return [await ctx.step("first", slowly, 0.1), await ctx.step("second", slowly, 0.1)]

        steps, _, signal = await asyncio.gather(two_steps(), ctx.sleep("nap", 0.02), ctx.wait_for_signal("go"))
        return [steps, signal and signal.payload]

    async with worker:
        run = await client.submit(gather, lane=lane)
        await state_of(client, run.id, "suspended")
        assert [step["name"] for step in await run.steps() if step["state"] == "recorded"][:2] == ["first", "second"]
        await run.signal("go", 5)
        assert await run.result(timeout=20) == [[0.1, 0.1], 5]
    assert attempts[0] == 0
    assert len(attempts) <= 3


async def test_a_signal_that_came_early_counts_and_a_timeout_gives_none(
    client: Client, worker: Worker, lane: str
) -> None:
    @worker.task("wait")
    async def wait(ctx: Context) -> Any:
        paid = await ctx.wait_for_signal("paid")
        never = await ctx.wait_for_signal("never", timeout=0.05)
        both = await ctx.wait("both", Until.all(Until.signal("a"), Until.signal("b")), timeout=60)
        assert paid is not None
        return [paid.payload, paid.source, never, both.resumed_by, len(both.signals)]

    async with worker:
        run = await client.submit(wait, lane=lane, delay=0.05)
        await run.signal("paid", 42, source="ada")
        await run.signal("a")
        await run.signal("b")
        assert await run.result(timeout=20) == [42, "ada", None, "condition", 2]


async def test_the_clean_up_of_a_suspended_handler_runs(client: Client, worker: Worker, lane: str) -> None:
    cleaned = []

    @worker.task("tidy")
    async def tidy(ctx: Context) -> str:
        try:
            await ctx.sleep("nap", 0.05)
        finally:
            cleaned.append(ctx.attempt)
        return "rested"

    async with worker:
        assert await (await client.submit(tidy, lane=lane)).result(timeout=20) == "rested"
    assert cleaned == [0, 1]


async def test_a_race_takes_the_same_branch_in_every_attempt(client: Client, worker: Worker, lane: str) -> None:
    ran = []

    def branch(seconds: float) -> Callable[[Context], Awaitable[float]]:
        async def run(ctx: Context) -> float:
            await ctx.sleep("nap", seconds)
            ran.append(seconds)
            return await ctx.step("think", float, seconds)

        return run

    @worker.task("race")
    async def race(ctx: Context) -> float:
        won = await ctx.race("first", {"slow": branch(3600), "fast": branch(0.05)})
        if len(ran) < 3:
            raise Retry("again")
        return won

    async with worker:
        run = await client.submit(race, lane=lane, retry=SOON)
        assert await run.result(timeout=20) == 0.05
        recorded = {step["name"] for step in await run.steps() if step["state"] == "recorded"}
    assert {"first", "first/fast/nap", "first/fast/think"} <= recorded
    assert set(ran) == {0.05}


async def test_a_failed_branch_of_all_lets_running_steps_finish(client: Client, worker: Worker, lane: str) -> None:
    failed = asyncio.Event()
    finished = []

    @worker.task("all")
    async def run_all(ctx: Context) -> Any:
        async def good(ctx: Context) -> str:
            async def wait_for_failure() -> str:
                await failed.wait()
                finished.append("step")
                return "good"

            found = await ctx.step("work", wait_for_failure)
            await ctx.step("never begun", finished.append, "next")
            return found

        async def bad(ctx: Context) -> str:
            if ctx.attempt == 0:
                failed.set()
                raise ValueError("bad")
            return "better"

        return await ctx.all("both", {"good": good, "bad": bad})

    async with worker:
        run = await client.submit(run_all, lane=lane, retry=SOON)
        assert await run.result(timeout=20) == {"good": "good", "bad": "better"}
    assert finished == ["step", "next"]


async def test_an_approval_needs_two_of_three(client: Client, worker: Worker, lane: str) -> None:
    asked: dict[str, Waitpoint] = {}

    async def ask(person: str, waitpoint: Waitpoint) -> None:
        assert person not in asked, "each person is asked once"
        asked[person] = waitpoint

    @worker.task("deploy")
    async def deploy(ctx: Context) -> Any:
        approval = await ctx.approval("deploy", of=["ann", "bob", "cleo"], at_least=2, ask=ask, prompt="Deploy?")
        return [approval.verdict, approval.approved, [vote.person for vote in approval.votes]]

    async with worker:
        run = await client.submit(deploy, lane=lane)
        await state_of(client, run.id, "suspended")
        assert (await client.waitpoints.look(asked["ann"].id, asked["ann"].token))["prompt"] == "Deploy?"
        await client.waitpoints.signal(asked["ann"].id, asked["ann"].token)
        await client.waitpoints.signal(asked["bob"].id, asked["bob"].token, name="deploy/reject")
        await client.waitpoints.signal(asked["cleo"].id, asked["cleo"].token, {"note": "fine"})
        assert await run.result(timeout=20) == ["approved", True, ["ann", "cleo"]]


async def test_a_waitpoint_is_created_once(client: Client, worker: Worker, lane: str) -> None:
    tokens = []

    @worker.task("confirm")
    async def confirm(ctx: Context) -> Any:
        waitpoint = await ctx.waitpoint("confirmed", source="ada", expires=timedelta(hours=1))
        tokens.append(waitpoint.token)
        signal = await ctx.wait_for_signal("confirmed")
        assert signal is not None
        return [signal.source, signal.waitpoint]

    async with worker:
        run = await client.submit(confirm, lane=lane)
        await state_of(client, run.id, "suspended")
        (waitpoint,) = await run.waitpoints()
        await client.waitpoints.signal(waitpoint["id"], tokens[0])
        assert await run.result(timeout=20) == ["ada", "confirmed"]
        assert len(await run.waitpoints()) == 1


async def test_children_are_joined_and_a_name_is_spawned_once(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("page")
    async def page(ctx: Context, number: int) -> str:
        return "x" * number

    @worker.task("book")
    async def book(ctx: Context) -> Any:
        for number in (1, 2, 1_000_000):
            await ctx.spawn(page, number, name=f"page-{number}", lane=lane)
        pages = await ctx.join()
        if ctx.attempt < 2:
            raise Retry("again")
        return {name: len(child.result) for name, child in pages.items()}

    async with worker:
        run = await client.submit(book, lane=lane, retry=SOON)
        assert await run.result(timeout=30) == {"page-1": 1, "page-2": 2, "page-1000000": 1_000_000}


async def test_usage_of_a_step_is_counted_with_its_record(client: Client, worker: Worker, lane: str) -> None:
    paid = []
    await client.budgets.put(lane, limits={"tokens": {"hard": 100}}, on_hard="suspend")

    @worker.task("ask")
    async def ask(ctx: Context) -> list[str]:
        async def call(question: str) -> str:
            paid.append(question)
            await ctx.usage(lane, tokens=120)
            return question

        return [await ctx.step(question, call, question) for question in ("who", "why")]

    async with worker:
        run = await client.submit(ask, lane=lane, budgets=[lane])
        await state_of(client, run.id, "suspended")
        await client.budgets.patch(lane, limits={"tokens": {"hard": 1000}})
        assert await run.result(timeout=20) == ["who", "why"]
        assert (await client.budgets.get(lane))["usage"] == {"tokens": 240}
    assert paid == ["who", "why"], "nothing was paid twice"


async def test_a_breach_is_told_to_the_handler(client: Client, worker: Worker, lane: str) -> None:
    await client.budgets.put(lane, limits={"tokens": {"hard": 100}})

    @worker.task("spend")
    async def spend(ctx: Context) -> Any:
        first = await ctx.usage(lane, tokens=60, dedup_key="a")
        again = await ctx.usage(lane, tokens=60, dedup_key="a")
        second = await ctx.usage(lane, tokens=60)
        return [first.breached, again.breached, second.breached]

    async with worker:
        run = await client.submit(spend, lane=lane, budgets=[lane])
        assert await run.result(timeout=20) == [[], [], ["tokens"]]
        assert (await client.budgets.get(lane))["usage"] == {"tokens": 120}


async def test_an_approval_of_three_days_runs_in_milliseconds(selvedge_server: Server) -> None:
    async with selvedge_server.client() as client:
        worker = Worker(client)

        @worker.task("deploy")
        async def deploy(ctx: Context) -> str:
            approval = await ctx.approval("deploy", of=["ann"], ask=lambda *_: None, timeout=timedelta(days=3))
            if not approval.approved:
                raise Permanent(approval.verdict)
            return "deployed"

        async with worker:
            run = await client.submit(deploy)
            await state_of(client, run.id, "suspended")
            await selvedge_server.advance_async(days=2)
            assert (await run.get())["state"] == "suspended"
            await selvedge_server.advance_async(days=1, seconds=1)
            with pytest.raises(NotCompleted, match="timed_out"):
                await run.result(timeout=20)


async def test_progress_is_shown(client: Client, worker: Worker, lane: str) -> None:
    go = asyncio.Event()

    @worker.task("progress")
    async def progress(ctx: Context) -> None:
        await ctx.progress(40, "almost half")
        await go.wait()

    async with worker:
        run = await client.submit(progress, lane=lane)
        found = await eventually(run.get, lambda found: found.get("progress"))
        assert found.get("progress") == {"percent": 40, "message": "almost half"}
        go.set()
