"""Workers and servers that are killed lose nothing."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from processes import environment, supervised
from selvedge import Client, Context, RetryPolicy, Worker
from selvedge.testing import Server
from waiting import eventually


async def test_a_crash_after_each_operation_repeats_no_step(
    server: Server, client: Client, lane: str, tmp_path: Path
) -> None:
    with supervised("crashing", server.url, lane, LANE=lane, CRASHES=str(tmp_path)) as worker:
        run = await client.submit("crashing", lane=lane)
        assert await run.result(timeout=60) == ["step-0", "step-1", "step-2", "step-3", "5"]
        assert worker.starts >= 9
    crashes = sorted(path.name for path in tmp_path.glob("crash-*"))
    assert crashes == [
        "crash-child",
        "crash-join",
        "crash-sleep",
        "crash-spawn",
        *(f"crash-step-{n}" for n in range(4)),
    ]
    assert (tmp_path / "effects").read_text().split() == ["step-0", "step-1", "step-2", "step-3"]


async def test_a_worker_killed_at_random_loses_nothing(
    server: Server, client: Client, lane: str, tmp_path: Path
) -> None:
    with supervised("killed", server.url, lane, LANE=lane) as worker:
        runs = [await client.submit("count", n, lane=lane) for n in range(40)]
        results = asyncio.gather(*(run.result(timeout=90) for run in runs))
        for _ in range(5):
            await asyncio.sleep(random.uniform(0.3, 0.9))
            worker.kill()
        assert await results == [3 * n for n in range(40)]


async def test_a_server_killed_in_the_middle_is_waited_for(own_server: Server, lane: str) -> None:
    async with own_server.client(retry_for=60) as client:
        worker = Worker(client, lanes=[lane], lease_ttl=5)
        ran: list[str] = []
        go = asyncio.Event()

        @worker.task("long")
        async def long(ctx: Context, number: int) -> int:
            async def once() -> int:
                ran.append(f"{number}")
                await go.wait()
                return number

            await ctx.step("before", once)
            await ctx.sleep("nap", 0.05)
            return await ctx.step("after", asyncio.sleep, 0, number)

        async with worker:
            runs = [await client.submit(long, number, lane=lane, retry=RetryPolicy(fixed=0.1)) for number in range(5)]
            await eventually(client_active(client, lane), lambda active: active == 5)
            own_server.kill()
            go.set()  # the steps end while the server is away
            await asyncio.to_thread(own_server.start)
            assert [await run.result(timeout=60) for run in runs] == list(range(5))
        assert sorted(ran) == ["0", "1", "2", "3", "4"]


def client_active(client: Client, lane: str) -> Any:
    async def look() -> int:
        return len([item async for item in client.list(lane=lane, state="active")])

    return look


async def test_events_resume_over_a_restart_of_the_server(own_server: Server, lane: str) -> None:
    async with own_server.client(retry_for=60) as client:
        seen: list[str] = []
        started = asyncio.Event()

        async def follow() -> None:
            async for event in client.events(start="beginning", types=["execution.submitted"]):
                seen.append(str(event["execution"]))
                started.set()
                if len(seen) == 20:
                    return

        following = asyncio.ensure_future(follow())
        ids = [(await client.submit("nothing", lane=lane)).id for _ in range(10)]
        await asyncio.wait_for(started.wait(), 20)
        own_server.kill()
        await asyncio.to_thread(own_server.start)
        ids += [(await client.submit("nothing", lane=lane)).id for _ in range(10)]
        await asyncio.wait_for(following, 30)
        assert seen == ids, "without a gap and without a repetition"


async def test_sigterm_drains_a_worker_process(server: Server, client: Client, lane: str) -> None:
    code = "import killed; killed.worker.run()"
    worker = subprocess.Popen([sys.executable, "-c", code], env=environment(server.url, LANE=lane))
    try:
        run = await client.submit("slow", lane=lane)
        await eventually(run.get, lambda found: found.get("progress"), "the begin of the handler")
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, 30) == 0
    finally:
        worker.kill()
    assert (await run.get())["state"] == "completed"


async def test_a_frozen_worker_that_lost_its_lease_drops_its_result(server: Server, client: Client, lane: str) -> None:
    code = "import killed; killed.worker.run()"
    frozen = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(server.url, LANE=lane), stderr=subprocess.PIPE
    )
    try:
        run = await client.submit("slow", lane=lane)
        await eventually(run.get, lambda found: found.get("progress"), "the begin of the handler")
        frozen.send_signal(signal.SIGSTOP)
        await eventually(run.get, lambda found: found["interruptions"] >= 1, "an interruption")
        frozen.send_signal(signal.SIGCONT)
        assert await run.result(timeout=60) >= 1
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.terminate()
        assert frozen.stderr is not None
        log = await asyncio.to_thread(frozen.stderr.read)
        frozen.wait()
    assert b"its result dropped" in log or b"its end was not accepted" in log


def test_an_import_of_the_package_does_not_need_pydantic() -> None:
    code = "import sys; sys.modules['pydantic'] = None; import selvedge, selvedge.sync, selvedge.testing"
    subprocess.run([sys.executable, "-c", code], check=True)
