"""Fan-out: a parent spawns a child for each document. A quota limits the calls of the service, and a document that the
service refuses backs off."""

from __future__ import annotations

import asyncio
from typing import Any

from selvedge import Client, Context, Retry, RetryPolicy, Worker

client = Client()
worker = Worker(client, concurrency=20)


@worker.task("summarise")
async def summarise(ctx: Context, document: str) -> int:
    if ctx.attempt == 0 and document.endswith("7"):
        raise Retry("429: too many requests", after=0.1)
    return len(document)


# region: spawn
@worker.task("summarise-all")
async def summarise_all(ctx: Context, documents: list[str]) -> dict[str, int]:
    for number, document in enumerate(documents):
        await ctx.spawn(
            summarise, document, name=f"document-{number}", quotas=["service"], retry=RetryPolicy(initial=0.1)
        )
    children = await ctx.join()  # holds no worker while the children run
    return {"documents": len(children), "characters": sum(child.result for child in children.values())}


# endregion: spawn


async def demo() -> dict[str, Any]:
    await client.quotas.put("service", concurrency=4, rate={"count": 200, "window": 1})
    run = await client.submit(summarise_all, [f"document {number:02}" for number in range(20)])
    return await run.result(timeout=60)


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
