"""The guide to budgets: a chapter exceeds the budget, and the book continues when the limit is raised."""

from __future__ import annotations

from datetime import timedelta

from selvedge import Client, Context, Worker
from waiting import state_of


async def test_a_book_that_exceeds_its_budget_waits_until_the_limit_is_raised(
    client: Client, worker: Worker, lane: str
) -> None:
    async def write_chapter(number: int) -> tuple[str, int]:
        """Stands for the call of a model."""
        return f"Chapter {number}.", 400

    # region: budget
    await client.budgets.put(
        "books",
        limits={"tokens": {"hard": 1000, "soft": 800}},  # the soft limit publishes an event
        period=timedelta(days=1),
        on_hard="suspend",
    )
    # endregion: budget

    # region: task
    @worker.task("write-book")
    async def write_book(ctx: Context, chapters: int) -> str:
        async def chapter(number: int) -> str:
            text, tokens = await write_chapter(number)
            await ctx.usage("books", tokens=tokens)  # sent with the record of the step, so it counts once
            return text

        book = [await ctx.step(f"chapter {number}", chapter, number) for number in range(1, chapters + 1)]
        return " ".join(book)

    # endregion: task

    async with worker:
        # region: submit
        run = await client.submit(write_book, 4, budgets=[{"name": "books", "reserve": {"tokens": 400}}], lane=lane)
        # endregion: submit
        await state_of(client, run.id, "suspended")
        assert (await client.budgets.get("books"))["usage"]["tokens"] == 1200
        # region: raise
        await client.budgets.patch("books", limits={"tokens": {"hard": 5000}})
        # endregion: raise
        assert await run.result(timeout=30) == "Chapter 1. Chapter 2. Chapter 3. Chapter 4."
        assert (await client.budgets.get("books"))["usage"]["tokens"] == 1600
