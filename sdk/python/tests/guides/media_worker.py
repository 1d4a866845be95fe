"""Workers: a process that converts films until it is stopped."""

from __future__ import annotations

import asyncio

from selvedge import Client, Context, Permanent, Worker


async def convert_part(film: str, part: int) -> None:
    """Stands for the work."""
    await asyncio.sleep(0.005)


# region: worker
worker = Worker(Client(), lanes=["media"], concurrency=4, drain_timeout=20)


@worker.task("convert")
async def convert(ctx: Context, *, film: str, parts: int) -> str:
    if parts == 0:
        raise Permanent(f"{film} is empty")  # not retried
    for part in range(parts):
        ctx.cancelled.raise_if_set()  # ends as cancelled
        await convert_part(film, part)
        await ctx.progress(100 * part / parts, "converting")
    return f"{film}, {parts} parts"


if __name__ == "__main__":
    worker.run()  # until SIGTERM or SIGINT; then it drains
# endregion: worker
