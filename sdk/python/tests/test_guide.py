"""The code of the guide that is not in an example."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pydantic
import pytest

import selvedge.sync
from selvedge import (
    Client,
    ConnectionFailed,
    Context,
    Flow,
    Invalid,
    Item,
    NotCompleted,
    NotFound,
    Problem,
    Run,
    SyncContext,
    Until,
    Worker,
)
from selvedge.testing import Server
from waiting import state_of


class Invoice(pydantic.BaseModel):
    customer: str
    cents: int


@dataclass
class Receipt:
    number: int
    paid: bool


async def test_typed_tasks(client: Client, worker: Worker, lane: str) -> None:
    # region: typed-tasks
    @worker.task("pay")
    async def pay(ctx: Context, invoice: Invoice) -> Receipt:
        return Receipt(number=7, paid=invoice.cents > 0)

    @worker.task("resize")
    def resize(ctx: SyncContext, *, path: str, width: int = 800) -> str:
        return ctx.step("resize", lambda: f"{path} at {width}")

    # endregion: typed-tasks

    async with worker:
        run = await client.submit(pay, Invoice(customer="Ada", cents=990), lane=lane)
        receipt = await run.result(timeout=20)  # a Receipt, also for mypy
        assert receipt == Receipt(7, True)
        small = await client.submit(resize, resize.input(path="a.png", width=20), lane=lane)
        assert await small.result(timeout=20) == "a.png at 20"


async def test_batch(client: Client, lane: str) -> None:
    worker = Worker(client, lanes=[lane], concurrency=64)

    async def embed_all(texts: list[str]) -> list[list[float]]:
        return [[float(len(text))] for text in texts]

    # region: batch
    @worker.batch_task("embed", max=64)
    async def embed(items: list[Item[str]]) -> list[list[float]]:
        return await embed_all([item.input for item in items])  # an exception in the list fails its item

    # endregion: batch

    async with worker:
        runs = await client.submit_batch([{"kind": embed, "input": text, "lane": lane} for text in ("a", "bb")])
        assert [await run.result(timeout=20) for run in runs if isinstance(run, Run)] == [[1.0], [2.0]]


async def test_waits(client: Client, worker: Worker, lane: str) -> None:
    # region: ship
    @worker.task("ship")
    async def ship(ctx: Context, order: int) -> str:
        paid = await ctx.wait_for_signal("paid", timeout=timedelta(days=14))
        if paid is None:
            return "the order was not paid in time"
        await ctx.wait("ready", Until.all(Until.signal("packed"), Until.signal("labelled")))
        return f"{paid.source} paid {paid.payload}"

    # endregion: ship

    async with worker:
        run = await client.submit(ship, 1, lane=lane)
        await run.signal("paid", 42, source="ada")
        await run.signal("packed")
        await run.signal("labelled")
        assert await run.result(timeout=20) == "ada paid 42"


async def test_branches(client: Client, worker: Worker, lane: str) -> None:
    # region: race
    @worker.task("ask")
    async def ask(ctx: Context, question: str) -> str:
        async def answered(ctx: Context) -> str:
            signal = await ctx.wait_for_signal("answer")
            return str(signal.payload) if signal else "resumed by an operator"

        async def late(ctx: Context) -> str:
            await ctx.sleep("patience", timedelta(hours=1))
            return "no answer"

        return await ctx.race("first", {"answered": answered, "late": late})

    # endregion: race

    async with worker:
        run = await client.submit(ask, "why?", lane=lane)
        await run.signal("answer", "because")
        assert await run.result(timeout=20) == "because"


async def test_errors(client: Client, lane: str) -> None:
    messages: list[str] = []
    for kind, id in (("", None), ("greet", "00000000-0000-7000-8000-000000000000")):
        # region: errors
        try:
            run = client.run(id) if id else await client.submit(kind, lane=lane)
            await run.result(timeout=60)
        except NotCompleted as error:
            messages.append(f"{error.outcome}: {error.error}")
        except NotFound:
            messages.append("no such execution")
        except Invalid as problem:
            messages.append(f"{problem.code} at {problem.pointer}")
        except (Problem, ConnectionFailed) as error:
            messages.append(f"not submitted, or not known: {error}")
        # endregion: errors
    assert messages == ["invalid_field at /kind", "no such execution"]


async def test_flow(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("charge")
    async def charge(ctx: Context, fails: bool) -> str:
        if fails:
            raise selvedge.Permanent("card declined")
        return "charged"

    @worker.task("notify")
    async def notify(ctx: Context) -> Any:
        return ctx.upstream.outcomes["charge"]["error"]

    # region: failure-edge
    flow = Flow("order", tags={"customer": "7"}, defaults={"lane": lane})
    paid = flow.add("charge", charge, True)
    flow.add("ship", "ship", after=paid)
    flow.add("notify", notify, after=paid.when("failure"))
    # endregion: failure-edge

    async with worker:
        run = await client.submit_flow(flow)
        ended = await run.result(timeout=60)
        assert ended.outcome == "completed"  # the failure was handled
        assert ended["notify"]["message"] == "card declined"


async def test_events(client: Client, lane: str) -> None:
    saved: list[str] = []

    def save(cursor: str) -> None:
        saved.append(cursor)

    run = await client.submit("nothing", lane=lane)
    await run.cancel()
    cursor = None
    # region: events
    async with aclosing(client.events(cursor, ["execution.cancelled"], start="beginning")) as events:
        async for event in events:
            save(event["cursor"])  # a program that starts again continues behind it
            if event["execution"] == run.id:
                break
    # endregion: events
    assert saved


def test_synchronous(server: Server, lane: str) -> None:
    # region: synchronous
    with selvedge.sync.Client(server.url) as client:
        run = client.submit("greet", "Ada", lane=lane, idempotency_key=lane)
        print(run.explain()["reasons"][0]["message"])
        run.cancel(reason="not needed")
        # endregion: synchronous
        with pytest.raises(NotCompleted):
            run.result(timeout=60)


# region: reminder
async def test_a_reminder_after_three_days(selvedge_server: Server) -> None:
    async with selvedge_server.client() as client:
        worker = Worker(client)

        @worker.task("remind")
        async def remind(ctx: Context, person: str) -> str:
            await ctx.sleep("three days", timedelta(days=3))
            return f"a reminder for {person}"

        async with worker:
            run = await client.submit(remind, "Ada")
            await state_of(client, run.id, "suspended")
            await selvedge_server.advance_async(days=3)  # takes milliseconds
            assert await run.result(timeout=20) == "a reminder for Ada"


# endregion: reminder


async def test_steps_with_a_key(client: Client, worker: Worker, lane: str) -> None:
    charges: list[str] = []

    async def charge(cents: int, key: str) -> int:
        charges.append(key)
        return len(charges)

    # region: transfer
    @worker.task("transfer")
    async def transfer(ctx: Context, cents: int) -> str:
        receipt = await ctx.step("charge", charge, cents, key=ctx.idempotency_key)  # one key for all attempts
        if ctx.attempt == 0:
            raise ConnectionError("the ledger is away")  # the next attempt does not charge again
        return f"receipt {receipt}"

    # endregion: transfer

    async with worker:
        assert await (await client.submit(transfer, 990, lane=lane)).result(timeout=20) == "receipt 1"
    assert len(charges) == 1
