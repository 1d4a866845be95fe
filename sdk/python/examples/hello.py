"""Hello: a task with a durable step and a durable sleep."""

from __future__ import annotations

# region: hello
import asyncio

from selvedge import Client, Context, Worker

client = Client()
worker = Worker(client)


@worker.task("greet")
async def greet(ctx: Context, name: str) -> str:
    length = await ctx.step("measure", len, name)  # runs once, over all attempts
    await ctx.sleep("pause", 0.1)  # durable: no worker is held
    return f"Hello, {name}! ({length})"


async def demo() -> str:
    run = await client.submit(greet, "Ada")
    return await run.result(timeout=60)


async def main() -> str:
    async with worker:  # starts; drains when the block ends
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
# endregion: hello
