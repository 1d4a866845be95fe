"""Schedule: a report every night at two, Berlin time; and once now."""

from __future__ import annotations

import asyncio
from typing import Any

from selvedge import Client, Context, Submission, Worker

client = Client()
worker = Worker(client)


@worker.task("nightly-report")
async def report(ctx: Context, region: str) -> str:
    return f"the report of {region}"


async def demo() -> dict[str, Any]:
    # region: put
    await client.schedules.put(
        "nightly",
        cron="0 2 * * *",
        time_zone="Europe/Berlin",
        submit=Submission(report, "Europe"),
        overlap="skip",
        catch_up="one",
    )
    # endregion: put
    times = await client.schedules.next("nightly", count=3)
    started: Any = await client.schedules.run("nightly")
    result = await client.run(started["execution"]["id"], report).result(timeout=60)
    await client.schedules.delete("nightly")
    return {"result": result, "planned": len(times)}


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
