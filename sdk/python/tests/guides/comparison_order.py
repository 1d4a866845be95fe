import asyncio
from datetime import timedelta

from selvedge import Client, Context, Permanent, Worker

client = Client()
worker = Worker(client)


async def charge(cents: int, key: str) -> str:
    return f"receipt {key[:4]}… for {cents}"


@worker.task("order")
async def order(ctx: Context, cents: int) -> str:
    receipt = await ctx.step("charge", charge, cents, key=ctx.idempotency_key)
    approval = await ctx.wait_for_signal("approve", timeout=timedelta(days=3))
    if approval is None:
        raise Permanent("nobody approved")
    return f"{receipt}, approved by {approval.payload}"


async def main() -> None:
    async with worker:
        run = await client.submit(order, 990, idempotency_key="order-7", retry=5)
        await run.signal("approve", "ada")
        print(await run.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
