"""The guide to moving from SQLite to Postgres: the new server takes submissions, and the old one becomes empty."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import POSTGRES, create_database, drop_database
from selvedge import Client, Context, Worker
from selvedge.testing import Server, find_binary
from waiting import state_of

SCRIPT = Path(__file__).parent / "sqlite_to_postgres.sh"


# region: both
def greeter(client: Client) -> Worker:
    worker = Worker(client)

    @worker.task("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"Hello, {name}!"

    return worker


async def is_empty(client: Client) -> bool:
    states = ["waiting", "waiting_dependencies", "delayed", "held", "active", "suspended"]
    async for _ in client.list(state=states):
        return False
    return True


# endregion: both


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Server]:
    """The server to move to: on Postgres where there is one."""
    store = create_database() if POSTGRES else f"sqlite:{tmp_path / 'new.db'}"
    with Server(store=store, manual_clock=False) as server:
        yield server
    if POSTGRES:
        drop_database(store)


async def test_the_old_server_becomes_empty_while_the_new_one_takes_what_is_submitted(
    own_server: Server, new_server: Server
) -> None:
    async with own_server.client() as old, new_server.client() as new:
        await old.lanes.put("images", concurrency=4, rate={"count": 100, "window": 60})
        await old.quotas.put("model", concurrency=8)
        await old.budgets.put("tokens", limits={"tokens": {"hard": 1000, "soft": 800}}, on_hard="suspend")
        submit = {"execution": {"kind": "greet", "input": "Cleo"}}
        await old.schedules.put("nightly", cron="0 2 * * *", time_zone="Europe/Berlin", submit=submit)
        waiting = await old.submit("wait")
        delayed = await old.submit("greet", "Dora", delay=1)
        path = f"{Path(find_binary()).parent}{os.pathsep}{os.environ['PATH']}"
        moving = await asyncio.create_subprocess_exec(
            "bash", str(SCRIPT), env={**os.environ, "PATH": path, "OLD": own_server.url, "NEW": new_server.url}
        )
        old_worker = greeter(old)

        @old_worker.task("wait")
        async def wait(ctx: Context) -> str:
            return "gone" if await ctx.wait_for_signal("go", timeout=3600) else "stayed"

        async with old_worker, greeter(new):
            assert await (await new.submit("greet", "Bob")).result(timeout=30) == "Hello, Bob!"
            assert await delayed.result(timeout=30) == "Hello, Dora!"
            await state_of(old, waiting.id, "suspended")
            assert moving.returncode is None, "the script waits for what is suspended"
            assert not await is_empty(old)
            await waiting.signal("go")
            assert await asyncio.wait_for(moving.wait(), 30) == 0
            assert await is_empty(old)
            assert await waiting.result(timeout=30) == "gone"
        lane, quota, budget = (
            await new.lanes.get("images"),
            await new.quotas.get("model"),
            await new.budgets.get("tokens"),
        )
        assert (lane["concurrency"], lane["rate"]) == (4, {"count": 100, "window_ms": 60_000})
        assert quota["concurrency"] == 8
        assert (budget["limits"], budget["on_hard"]) == ({"tokens": {"hard": 1000, "soft": 800}}, "suspend")
        schedules = [await client.schedules.get("nightly") for client in (old, new)]
        assert [schedule["paused"] for schedule in schedules] == [True, False]
        assert (schedules[1]["time_zone"], schedules[1]["submit"]) == ("Europe/Berlin", submit)
