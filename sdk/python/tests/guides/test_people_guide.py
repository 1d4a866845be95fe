"""The guide to waiting for people: two of three approve, or nobody answers for three days."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from selvedge import Client, Context, Permanent, Waitpoint, Worker
from selvedge.testing import Server


# region: vote
async def vote(client: Client, waitpoint: Waitpoint, *, agrees: bool) -> None:
    name = None if agrees else "publish/reject"
    await client.waitpoints.signal(waitpoint.id, waitpoint.token, name=name)


# endregion: vote


async def test_two_of_three_people_publish_an_article_and_silence_forgets_it(selvedge_server: Server) -> None:
    inbox: asyncio.Queue[Waitpoint] = asyncio.Queue()

    async def send_mail(person: str, waitpoint: Waitpoint) -> None:
        await inbox.put(waitpoint)

    async with selvedge_server.client() as client:
        worker = Worker(client)

        # region: approval
        @worker.task("publish")
        async def publish(ctx: Context, article: str) -> str:
            people = ["ann", "bob", "cleo"]
            # send_mail(person, waitpoint) sends an e-mail with a link that contains the token.
            approval = await ctx.approval("publish", of=people, at_least=2, ask=send_mail, timeout=timedelta(days=3))
            if approval.approved:
                return f"{article} is published"
            if approval.verdict == "timed_out":
                return f"{article} is forgotten"
            raise Permanent("not approved")

        # endregion: approval

        async with worker:
            run = await client.submit(publish, "News")
            for agrees in (True, False, True):
                await vote(client, await asyncio.wait_for(inbox.get(), 30), agrees=agrees)
            assert await run.result(timeout=30) == "News is published"
            run = await client.submit(publish, "Old news")
            for _ in range(3):
                await asyncio.wait_for(inbox.get(), 30)
            await selvedge_server.advance_async(days=3)
            assert await run.result(timeout=30) == "Old news is forgotten"
