"""First flow: one node, two that work on its result in parallel, and one that joins them."""

from __future__ import annotations

import asyncio

from selvedge import Client, Context, Flow, Worker

client = Client()
worker = Worker(client)


@worker.task("download")
async def download(ctx: Context, picture: str) -> str:
    return f"bytes of {picture}"


@worker.task("resize")
async def resize(ctx: Context, width: int) -> str:
    return f"{ctx.upstream['download']} at {width}"


@worker.task("publish")
async def publish(ctx: Context) -> list[str]:
    return [ctx.upstream["small"], ctx.upstream["large"]]


async def main() -> None:
    async with worker:  # starts the worker; drains it when the block ends
        flow = Flow("picture")
        picture = flow.add("download", download, "cat.jpg")
        small = flow.add("small", resize, 200, after=picture)
        large = flow.add("large", resize, 800, after=picture)
        flow.add("publish", publish, after=[small, large])
        run = await client.submit_flow(flow)
        ended = await run.result(timeout=60)
        print(ended["publish"])


if __name__ == "__main__":
    asyncio.run(main())
