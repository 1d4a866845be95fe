"""Retry: a failure that a retry cures, one after which the service names the time, and one that is final."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from selvedge import Client, Context, NotCompleted, Permanent, Retry, RetryPolicy, Worker

client = Client()
worker = Worker(client)


@dataclass
class Charge:
    card: str
    cents: int


# region: charge
@worker.task("charge")
async def charge(ctx: Context, order: Charge) -> str:
    if order.card == "stolen":
        raise Permanent("the card is stolen")  # no retry
    if ctx.attempt == 0:
        raise ConnectionError("the bank does not answer")  # retried with the back-off
    if ctx.attempt == 1:
        raise Retry("the bank is busy", after=0.05)  # retried when the bank says so
    return f"charged {order.cents} with the key {ctx.idempotency_key[:8]}…"


# endregion: charge


async def demo() -> list[str]:
    policy = RetryPolicy(max_retries=5, initial=0.05)
    good = await client.submit(charge, Charge("4242", 990), retry=policy)
    bad = await client.submit(charge, Charge("stolen", 990), retry=policy)
    results = [(await good.result(timeout=60))[:11]]
    try:
        await bad.result(timeout=60)
    except NotCompleted as error:
        results.append(f"{error.outcome}: {error.error and error.error['message']}")
    return results


async def main() -> list[str]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
