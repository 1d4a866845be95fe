"""Signals, upstreams and children with the types of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from selvedge import Client, Context, Flow, NotCompleted, SignalType, SyncContext, Until, Worker


@dataclass
class Payment:
    cents: int


PAID = SignalType("paid", Payment)


async def test_a_typed_signal_has_its_payload(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("ship")
    async def ship(ctx: Context) -> int:
        paid = await ctx.wait_for_signal(PAID, timeout=60)
        assert paid is not None
        return paid.payload.cents

    @worker.task("ship-in-thread")
    def ship_in_thread(ctx: SyncContext) -> int:
        ctx.wait("paid", Until.signal(PAID))
        return 7

    async with worker:
        run = await client.submit(ship, lane=lane)
        await run.signal(PAID, Payment(990))
        assert await run.result(timeout=20) == 990
        run = await client.submit(ship_in_thread, lane=lane)
        await client.signal(run.id, PAID, Payment(990), source="bank")
        assert await run.result(timeout=20) == 7
        run = await client.submit(ship, lane=lane)
        await run.signal("paid", {"cents": "many"})
        with pytest.raises(
            NotCompleted, match="the signal 'paid' is not what it declares: cents: 'many' is not an int"
        ):
            await run.result(timeout=20)


@pytest.mark.parametrize("kind", ["report", "report-in-thread"])
async def test_the_result_of_an_upstream_is_read_with_a_type(
    client: Client, worker: Worker, lane: str, kind: str
) -> None:
    @worker.task("load")
    async def load(ctx: Context, cents: int) -> Payment:
        return Payment(cents)

    @worker.task("report")
    async def report(ctx: Context, expected: str) -> int:
        if expected == "wrong":
            ctx.upstream.get("load", list[int])
        assert ctx.upstream.get("load") == {"cents": 5}
        assert ctx.upstream.get("nothing", None) is None
        assert (ctx.node, ctx.lane) == ("report", lane)
        return ctx.upstream.get("load", Payment).cents + (await ctx.upstream.fetch("load", Payment)).cents

    @worker.task("report-in-thread")
    def report_in_thread(ctx: SyncContext, expected: str) -> int:
        assert ctx.client.get(ctx.execution_id)["flow_id"] == ctx.flow_id
        if expected == "wrong":
            ctx.upstream.get("nothing", int)
        return 2 * ctx.upstream.get("load", Payment).cents

    async with worker:
        for expected in ("right", "wrong"):
            flow = Flow("typed", defaults={"lane": lane})
            loaded = flow.add("load", load, 5)
            flow.add("report", kind, expected, after=loaded)
            submitted = await client.submit_flow(flow)
            if expected == "right":
                assert (await submitted.result(timeout=20))["report"] == 10
            else:
                with pytest.raises(NotCompleted, match=r"is not what the handler expects|does not exist"):
                    await submitted.node("report").result(timeout=20)


async def test_the_result_of_a_child_is_read_with_a_type(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("pay")
    async def pay(ctx: Context, cents: int) -> Payment:
        return Payment(1 // cents)

    @worker.task("parent")
    async def parent(ctx: Context, cents: int) -> Any:
        await ctx.spawn(pay, cents, lane=lane, retry=0)
        return (await ctx.join())["pay"].get(Payment).cents

    async with worker:
        assert await (await client.submit(parent, 1, lane=lane)).result(timeout=20) == 1
        run = await client.submit(parent, 0, lane=lane)
        with pytest.raises(NotCompleted, match="the child 'pay' has no result: it ended as failed"):
            await run.result(timeout=20)
