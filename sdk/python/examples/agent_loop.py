"""Agent loop: a model chooses tools until it has the answer. Each thought and each tool call is a durable step, so that
a crash repeats neither the calls that were paid for nor the effects of the tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from selvedge import Client, Context, Permanent, Worker

client = Client()
worker = Worker(client)

Message = dict[str, Any]


async def think(messages: list[Message]) -> Message:
    """Stands for a call of a language model: looks up the stock, then orders what is missing, then answers."""
    results = [message["result"] for message in messages if message["role"] == "tool"]
    if not results:
        return {"role": "model", "tool": "stock", "arguments": {"item": "lamp"}}
    if len(results) == 1:
        return {"role": "model", "tool": "order", "arguments": {"item": "lamp", "count": 5 - results[0]}}
    return {"role": "model", "answer": f"ordered {results[1]} lamps"}


async def stock(item: str) -> int:
    return 2


async def order(item: str, count: int) -> int:
    return count


TOOLS: dict[str, Callable[..., Awaitable[Any]]] = {"stock": stock, "order": order}


# region: agent
@worker.task("agent")
async def agent(ctx: Context, question: str) -> str:
    messages: list[Message] = [{"role": "user", "content": question}]
    for turn in range(10):
        message = await ctx.step(f"think {turn}", think, messages)
        messages.append(message)
        if "answer" in message:
            return str(message["answer"])
        result = await ctx.step(f"tool {turn}", TOOLS[message["tool"]], **message["arguments"])
        messages.append({"role": "tool", "result": result})
        await ctx.progress(turn * 10, f"used {message['tool']}")
    raise Permanent("the agent found no answer in ten turns")


# endregion: agent


async def demo() -> dict[str, Any]:
    run = await client.submit(agent, "Do we have five lamps?")
    answer = await run.result(timeout=60)
    return {"answer": answer, "steps": [step["name"] for step in await run.steps()]}


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
