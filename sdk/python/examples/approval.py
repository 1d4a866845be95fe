"""Approval: a deployment needs the consent of two of three people. It may take days, and holds no worker meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from selvedge import Client, Context, Permanent, Waitpoint, Worker

client = Client()
worker = Worker(client)


def send_mail(person: str, waitpoint: Waitpoint) -> None:
    """Sends the token. Its holder needs nothing else: `POST /v1/waitpoints/{id}/signal` with the token agrees."""
    print(f"mail to {person}: please answer {waitpoint.id}")


# region: deploy
@worker.task("deploy")
async def deploy(ctx: Context, version: str) -> dict[str, Any]:
    approval = await ctx.approval(
        "deploy", of=["ann", "bob", "cleo"], at_least=2, ask=send_mail, timeout=timedelta(days=3)
    )
    if not approval.approved:
        raise Permanent(f"not deployed: {approval.verdict}")
    await ctx.step("roll out", print, f"deploying {version}")
    return {"version": version, "approved_by": sorted(vote.person for vote in approval.votes)}


# endregion: deploy


async def demo() -> dict[str, Any]:
    run = await client.submit(deploy, "1.4.0")
    await vote(run.id, "ann", agrees=True)
    await vote(run.id, "bob", agrees=False)
    await vote(run.id, "cleo", agrees=True)
    return dict(await run.result(timeout=60))


async def vote(execution: str, person: str, *, agrees: bool) -> None:
    """Answers as the person would. An operator may answer without the token."""
    async for event in client.events(start="beginning", execution=execution, types=["waitpoint.created"]):
        if event["data"]["name"] == f"deploy/{person}":
            break
    waitpoints = {item["name"]: item async for item in client.waitpoints.list(execution=execution)}
    waitpoint = waitpoints[f"deploy/{person}"]
    await client.waitpoints.answer(waitpoint["id"], name=None if agrees else "deploy/reject")


async def main() -> dict[str, Any]:
    async with worker:
        return await demo()


if __name__ == "__main__":
    print(asyncio.run(main()))
