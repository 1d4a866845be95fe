"""LLM race: two models answer the same question, the first answer wins, the other model is cancelled.

The tokens of an answer are frames of a stream, which a reader follows while they come.
"""

from __future__ import annotations

import asyncio
from typing import Any

from selvedge import Client, Context, Flow, Worker

client = Client()
worker = Worker(client)

ANSWERS = {"quick": ["Forty", "-", "two", "."], "thorough": ["It", " depends", "."]}
SECONDS_PER_TOKEN = {"quick": 0.02, "thorough": 60.0}


# region: frames
@worker.task("model")
async def model(ctx: Context, name: str) -> str:
    tokens = ANSWERS[name]
    for token in tokens:
        await asyncio.sleep(SECONDS_PER_TOKEN[name])  # cancelled here if the other model is faster
        await ctx.frame(token)
    return "".join(tokens)


# endregion: frames


@worker.task("answer")
async def answer(ctx: Context) -> str:
    return str(ctx.upstream.winner())


async def demo() -> dict[str, Any]:
    flow = Flow("llm-race")
    models = [flow.add(name, model, name) for name in ANSWERS]
    flow.add("answer", answer, after=models, policy="any_of")
    run = await client.submit_flow(flow)
    ended = await run.result(timeout=60)
    tokens = [frame["data"] async for frame in run.node("quick").tail()]
    loser = await run.node("thorough").get()
    return {"answer": ended["answer"], "tokens": tokens, "loser": loser["state"]}


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
