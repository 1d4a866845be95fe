"""Each example does what it says, also while its worker is killed."""

from __future__ import annotations

import ast
import asyncio
import functools
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import POSTGRES, create_database, drop_database
from processes import Supervised, environment, supervised
from selvedge import Client
from selvedge.testing import Server
from waiting import eventually

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED: dict[str, Any] = {
    "hello": "Hello, Ada! (3)",
    "retry": ["charged 990", "failed: the card is stolen"],
    "diamond": {"sum": 16, "max": 8},
    "llm_race": {"answer": "Forty-two.", "tokens": ["Forty", "-", "two", "."], "loser": "cancelled"},
    "approval": {"version": "1.4.0", "approved_by": ["ann", "cleo"]},
    "token_budget": {"paused": "suspended", "answers": 3, "spent": 1200},
    "agent_loop": {"answer": "ordered 3 lamps", "steps": ["think 0", "tool 0", "think 1", "tool 1", "think 2"]},
    "fan_out": {"documents": 20, "characters": 220},
    "schedule": {"result": "the report of Europe", "planned": 3},
    "order_and_email": {"mail": "order", "mails": 1},
}
NAMES = [name for name in EXPECTED if name != "order_and_email" or POSTGRES]


@pytest.fixture
def example_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server of its own, and the address of its database if it has one."""
    database = create_database() if request.param == "order_and_email" else ""
    with Server(store=database or f"sqlite:{tmp_path / 'selvedge.db'}", manual_clock=False) as server:
        yield server, database
    if database:
        drop_database(database)


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize(("example_server", "name"), [(name, name) for name in NAMES], indirect=["example_server"])
def test_the_example(example_server: tuple[Server, str], name: str) -> None:
    server, database = example_server
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        env=environment(server.url, DATABASE_URL=database),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert ran.returncode == 0, ran.stderr
    found = ran.stdout.strip().splitlines()[-1]
    assert (found if isinstance(EXPECTED[name], str) else ast.literal_eval(found)) == EXPECTED[name]


async def kill_after_claims(client: Client, worker: Supervised, times: int) -> None:
    """Kills the worker shortly after it has claimed: the first time before it can begin, then at random moments."""
    killed = 0
    async for _ in client.events(types=["lease.acquired"], start="beginning"):
        starts = worker.starts
        await asyncio.sleep(random.uniform(0, 0.02) if killed else 0)
        worker.kill()
        killed += 1
        if killed == times:
            return

        async def successors() -> int:
            return worker.starts

        await eventually(successors, starts.__lt__, "the start of a successor")


@pytest.mark.parametrize(("example_server", "name"), [(name, name) for name in NAMES], indirect=["example_server"])
async def test_the_example_while_its_worker_is_killed(example_server: tuple[Server, str], name: str) -> None:
    server, database = example_server
    instance = f"{name}-{secrets.token_hex(4)}"
    async with server.client() as client:
        with supervised(name, server.url, instance, DATABASE_URL=database) as worker:
            # A frozen worker whose claim waits gets executions that it never begins.
            look = functools.partial(client._transport.get, "/v1/workers")
            await eventually(look, lambda page: any(item["lanes"] for item in page["items"]), "the first claim")
            worker.freeze()
            demo = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                f"import asyncio, {name}; print(repr(asyncio.run({name}.demo())))",
                env=environment(server.url, DATABASE_URL=database),
                stdout=subprocess.PIPE,
            )
            killing = asyncio.ensure_future(kill_after_claims(client, worker, 5))
            output, _ = await demo.communicate()
            killing.cancel()
        put_back = await client._transport.get("/v1/events", {"types": "lease.released,lease.orphaned,lease.expired"})
    assert put_back["items"], "no kill met an attempt"
    found = ast.literal_eval(output.decode().strip().splitlines()[-1])
    if name == "llm_race":
        # A killed model begins its answer again, in the stream of its next attempt.
        assert (found["answer"], found["loser"]) == ("Forty-two.", "cancelled")
    else:
        assert found == EXPECTED[name]
