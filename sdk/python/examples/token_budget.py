"""Token budget: an agent that has spent its tokens pauses until somebody allows more. What it has paid for is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from selvedge import Client, Context, Worker

client = Client()
worker = Worker(client)


# region: usage
@worker.task("research")
async def research(ctx: Context, budget: str) -> list[str]:
    async def ask(question: str) -> str:
        answer = f"{question}? Certainly."
        # Counted together with the record of the step: a pause does not lose the answer.
        await ctx.usage(budget, tokens=400)
        return answer

    return [await ctx.step(f"ask {question}", ask, question) for question in ("who", "when", "why")]


# endregion: usage


async def demo() -> dict[str, Any]:
    budget = "research-tokens"
    await client.budgets.put(budget, limits={"tokens": {"hard": 700}}, on_hard="suspend")
    await client.budgets.reset(budget)
    run = await client.submit(research, budget, budgets=[budget])
    # The second answer exceeds the limit. The execution is suspended until there is room.
    async for _ in client.events(start="beginning", execution=run.id, types=["execution.suspended"]):
        break
    paused = await run.explain()
    await client.budgets.patch(budget, limits={"tokens": {"hard": 2000}})
    answers = await run.result(timeout=60)
    spent = (await client.budgets.get(budget))["usage"]["tokens"]
    return {"paused": paused["state"], "answers": len(answers), "spent": spent}


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
