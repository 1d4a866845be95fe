"""Diamond: one node, two that follow it, and one that joins their results."""

from __future__ import annotations

import asyncio
from typing import Any

from selvedge import Client, Context, Flow, Worker

client = Client()
worker = Worker(client)


@worker.task("load")
async def load(ctx: Context, numbers: list[int]) -> list[int]:
    return numbers


@worker.task("reduce")
async def reduce(ctx: Context, how: str) -> int:
    numbers = ctx.upstream["load"]
    return sum(numbers) if how == "sum" else max(numbers)


@worker.task("report")
async def report(ctx: Context) -> dict[str, Any]:
    return {"sum": ctx.upstream["sum"], "max": ctx.upstream["max"]}


# region: submit
async def demo() -> dict[str, Any]:
    flow = Flow("diamond")
    numbers = flow.add("load", load, [3, 5, 8])
    total = flow.add("sum", reduce, "sum", after=numbers)
    largest = flow.add("max", reduce, "max", after=numbers)
    flow.add("report", report, after=[total, largest])
    ended = await (await client.submit_flow(flow)).result(timeout=60)
    assert ended.outcome == "completed"
    return dict(ended["report"])


# endregion: submit


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
