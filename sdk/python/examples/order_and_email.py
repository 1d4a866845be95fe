"""Order and e-mail: the row of an order and the e-mail about it commit in one SQL transaction, or not at all.

Needs a server on Postgres, whose database also has the table of the shop: DATABASE_URL.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg

from selvedge import Client, Context, Worker, submit_in

client = Client()
worker = Worker(client)


@worker.task("confirm-order")
async def confirm_order(ctx: Context, order: int) -> str:
    # The service recognises a repetition by the key.
    return await ctx.step("send", send_mail, order, ctx.idempotency_key)


async def send_mail(order: int, key: str) -> str:
    return f"order {order} is confirmed"


# region: place-order
async def place_order(connection: psycopg.AsyncConnection[Any], item: str) -> str:
    """Inserts an order and submits its e-mail. The caller commits."""
    cursor = await connection.execute("insert into shop_orders (item) values (%s) returning id", [item])
    row = await cursor.fetchone()
    assert row is not None
    return str(await submit_in(connection, confirm_order, row[0], notify=True))


# endregion: place-order


async def demo() -> dict[str, Any]:
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"]) as connection:
        await connection.execute("create table if not exists shop_orders (id serial primary key, item text)")
        await connection.execute("truncate shop_orders restart identity")
        await connection.commit()
        await place_order(connection, "a lamp that is out of stock")
        await connection.rollback()  # neither the order nor the e-mail exists
        execution = await place_order(connection, "a lamp")
        await connection.commit()  # both exist
    async for event in client.events(start="beginning", types=["execution.submitted"]):
        if event["execution"] == execution:
            break
    mail = await client.run(execution, confirm_order).result(timeout=60)
    mails = [item async for item in client.list(kind=confirm_order.kind)]
    return {"mail": mail[:5], "mails": len(mails)}


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
