"""The guide to operating: failed executions are read and replayed."""

from __future__ import annotations

import pytest

from selvedge import Client, Context, NotCompleted, Permanent, Worker


# region: replay
async def replay_failed(client: Client, kind: str) -> int:
    failed = [execution async for execution in client.list(kind=kind, state="failed")]
    for execution in failed:
        error = execution["error"]
        print(f"{execution['id']}: {error['message'] if error else 'no error'}")
        await client.replay(execution["id"])
    return len(failed)


# endregion: replay


async def test_failed_executions_are_replayed_when_the_cause_is_repaired(
    client: Client, worker: Worker, lane: str
) -> None:
    repaired = False

    @worker.task(f"mail-{lane}")
    async def mail(ctx: Context) -> str:
        if not repaired:
            raise Permanent("no such host")
        return "sent"

    async with worker:
        runs = [await client.submit(mail, lane=lane) for _ in range(3)]
        for run in runs:
            with pytest.raises(NotCompleted):
                await run.result(timeout=30)
        repaired = True
        assert await replay_failed(client, mail.kind) == 3
        assert [await run.result(timeout=30) for run in runs] == ["sent"] * 3
