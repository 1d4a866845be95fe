"""Measures the SDK over HTTP, with a server, its store and a worker on this machine. Prints one JSON object per figure.

    python bench.py [--store sqlite:PATH | postgres://…] [--executions N] [--concurrency N]

- `noop`: executions per second of a handler that does nothing, from the first claim to the last end;
- `steps`: executions per second of a handler with ten recorded steps.

The program of the server is SELVEDGE_BINARY; a debug build measures something else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

from selvedge import Client, Context, Worker
from selvedge.testing import Server

STEPS = 10


def work(server: str, concurrency: int) -> None:
    """Runs the worker, in a process of its own."""
    worker = Worker(Client(server), concurrency=concurrency)

    @worker.task("noop")
    async def noop(ctx: Context, input: None) -> None:
        pass

    async def one() -> int:
        return 1

    @worker.task("steps")
    async def steps(ctx: Context, input: None) -> int:
        return sum([await ctx.step(f"step-{number}", one) for number in range(STEPS)])

    worker.run()


async def measure(server: str, kind: str, executions: int) -> float:
    """Submits to a paused lane, resumes it, and returns the seconds until the last execution has ended."""
    async with Client(server) as client:
        already = len([item async for item in client.list(kind=kind, page=500)])
        await client.lanes.pause("default")
        for start in range(0, executions, 1000):
            await client.submit_batch([{"kind": kind}] * min(1000, executions - start))
        begun = time.perf_counter()
        await client.lanes.resume("default")
        while (await client.lanes.get("default"))["active"] or await left(client, kind):
            await asyncio.sleep(0.02)
        seconds = time.perf_counter() - begun
        completed = [item async for item in client.list(kind=kind, state="completed", page=500)]
        assert len(completed) == executions + already, f"{len(completed) - already} of {executions} completed"
        return seconds


async def left(client: Client, kind: str) -> bool:
    """Returns true while an execution has not ended."""
    states = ["waiting", "held", "active"]
    page = await client._transport.get("/v1/executions", {"kind": kind, "state": ",".join(states), "limit": 1})
    return bool(page["items"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="default: a SQLite file that is deleted afterwards")
    parser.add_argument("--executions", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = arguments.store or f"sqlite:{Path(directory) / 'bench.db'}"
        with Server(store=store, manual_clock=False) as server:
            worker = multiprocessing.get_context("spawn").Process(target=work, args=(server.url, arguments.concurrency))
            worker.start()
            try:
                for kind, executions in (("noop", arguments.executions), ("steps", arguments.executions // 5)):
                    asyncio.run(measure(server.url, kind, 500))  # warms up
                    seconds = asyncio.run(measure(server.url, kind, executions))
                    figure: dict[str, Any] = {"scenario": kind, "store": store.split(":")[0], "executions": executions}
                    figure["concurrency"] = arguments.concurrency
                    figure["throughput_per_s"] = round(executions / seconds, 1)
                    print(json.dumps(figure), flush=True)
            finally:
                worker.terminate()
                worker.join()


if __name__ == "__main__":
    main()
