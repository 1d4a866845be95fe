"""The guide to testing: two weeks in milliseconds."""

from __future__ import annotations

# region: task
from datetime import timedelta

from selvedge import Client, Context, Worker
from selvedge.testing import Server


def billing(client: Client) -> Worker:
    worker = Worker(client)

    @worker.task("invoice")
    async def invoice(ctx: Context) -> str:
        paid = await ctx.wait_for_signal("paid", timeout=timedelta(days=14))
        return "overdue" if paid is None else "paid"

    return worker


# endregion: task


# region: test
async def test_an_invoice_is_overdue_after_two_weeks(selvedge_server: Server) -> None:
    async with selvedge_server.client() as client, billing(client):
        unpaid = await client.submit("invoice")
        paid = await client.submit("invoice")

        await selvedge_server.advance_async(days=13)
        await paid.signal("paid")
        await selvedge_server.advance_async(days=1)

        assert await unpaid.result(timeout=10) == "overdue"
        assert await paid.result(timeout=10) == "paid"


# endregion: test
