"""The guide to flows: the first of two answers, a node that handles a failure, children."""

from __future__ import annotations

from selvedge import Context, Flow, Permanent, Worker
from selvedge.testing import Server


async def test_the_first_answer_wins_and_an_alert_handles_a_failure(selvedge_server: Server) -> None:
    async with selvedge_server.client() as client:
        worker = Worker(client)

        @worker.task("ask")
        async def ask(ctx: Context, *, model: str, question: str) -> str:
            """Stands for a model: the thorough one does not answer, and without a question both fail."""
            if not question:
                raise Permanent("there is no question")
            if model == "thorough":
                await ctx.cancelled.wait()
            return f"{model} answers {question}"

        # region: answer
        @worker.task("publish")
        async def publish(ctx: Context) -> str:
            return str(ctx.upstream.winner())  # the result of the upstream that completed first

        def answer(question: str) -> Flow:
            flow = Flow("answer")
            fast = flow.add("fast", ask, ask.input(model="fast", question=question))
            thorough = flow.add("thorough", ask, ask.input(model="thorough", question=question))
            published = flow.add("publish", publish, after=[fast, thorough], policy="any_of")
            flow.add("alert", "alert", after=published.when("failure_or_skipped"))
            return flow

        # endregion: answer

        @worker.task("alert")
        async def alert(ctx: Context) -> str:
            return "no answer"

        async with worker:
            run = await client.submit_flow(answer("why"))
            assert (await run.result(timeout=30)).outcome == "completed"
            assert await run.node("publish").result(timeout=30) == "fast answers why"
            assert (await run.node("thorough").get())["state"] == "cancelled"
            run = await client.submit_flow(answer(""))
            assert (await run.result(timeout=30))["alert"] == "no answer"


async def test_a_parent_joins_its_children(selvedge_server: Server) -> None:
    async with selvedge_server.client() as client:
        worker = Worker(client)

        @worker.task("summarise")
        async def summarise(ctx: Context, document: str) -> int:
            return len(document)

        # region: children
        @worker.task("summarise-all")
        async def summarise_all(ctx: Context, documents: list[str]) -> int:
            for number, document in enumerate(documents):
                await ctx.spawn(summarise, document, name=f"document-{number}")
            children = await ctx.join()  # holds no worker while the children run
            return sum(child.result for child in children.values())

        # endregion: children

        async with worker:
            assert await (await client.submit(summarise_all, ["a", "bb", "ccc"])).result(timeout=30) == 6
