"""The guide to steps: a charge that runs once, a durable sleep and a signal."""

from __future__ import annotations

from datetime import timedelta

from selvedge import Context, Permanent, Worker
from selvedge.testing import Server


async def test_an_order_is_charged_once_although_its_handler_runs_four_times(selvedge_server: Server) -> None:
    charges: list[str] = []

    async def charge(cents: int, key: str) -> str:
        """Stands for the payment service, which recognises a repeated key."""
        charges.append(key)
        return f"receipt for {cents}"

    async with selvedge_server.client() as client:
        worker = Worker(client)

        # region: order
        @worker.task("order")
        async def order(ctx: Context, cents: int) -> str:
            receipt = await ctx.step("charge", charge, cents, key=ctx.step_key("charge"))
            if ctx.attempt == 0:
                raise ConnectionError("the warehouse does not answer")  # the retry does not charge again
            await ctx.sleep("cooling-off", timedelta(days=1))
            packed = await ctx.wait_for_signal("packed", timeout=timedelta(days=14))
            if packed is None:
                raise Permanent("nobody packed the order")
            return f"{receipt}, packed by {packed.source}"

        # endregion: order

        async with worker:
            run = await client.submit(order, 990)
            await selvedge_server.advance_async(days=2)
            # region: signal
            await client.signal(run.id, "packed", source="ada")
            # endregion: signal
            assert await run.result(timeout=30) == "receipt for 990, packed by ada"
            assert (await run.get())["attempts"] == 4
    assert charges == [f"{run.id}/charge"]
