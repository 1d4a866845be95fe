"""A worker that `test_faults` kills, freezes and drains."""

from __future__ import annotations

import asyncio
import os

from selvedge import Client, Context, Worker

worker = Worker(Client(), lanes=[os.environ["LANE"]], lease_ttl=2.0)


@worker.task("count")
async def count(ctx: Context, number: int) -> int:
    total = 0
    for step in range(3):
        total += await ctx.step(f"add-{step}", asyncio.sleep, 0.02, number)
    await ctx.sleep("nap", 0.02)
    return total


@worker.task("slow")
async def slow(ctx: Context) -> int:
    await ctx.progress(message="began")
    await asyncio.sleep(1)
    return ctx.attempt
