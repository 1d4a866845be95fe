"""Each example does what it says, also while its worker is killed."""

from __future__ import annotations

import ast
import asyncio
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import POSTGRES, create_database, drop_database
from processes import environment, supervised
from selvedge.testing import Server

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


@pytest.mark.parametrize(("example_server", "name"), [(name, name) for name in NAMES], indirect=["example_server"])
async def test_the_example_while_its_worker_is_killed(example_server: tuple[Server, str], name: str) -> None:
    server, database = example_server
    with supervised(name, server.url, f"{name}-{secrets.token_hex(4)}", DATABASE_URL=database) as worker:
        demo = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            f"import asyncio, {name}; print(repr(asyncio.run({name}.demo())))",
            env=environment(server.url, DATABASE_URL=database),
            stdout=subprocess.PIPE,
        )
        output = asyncio.ensure_future(demo.communicate())
        for _ in range(3):
            await asyncio.wait([output], timeout=random.uniform(0.4, 0.9))
            worker.kill()
        found = ast.literal_eval((await output)[0].decode().strip().splitlines()[-1])
    if name == "llm_race":
        # A killed model begins its answer again, in the stream of its next attempt.
        assert (found["answer"], found["loser"]) == ("Forty-two.", "cancelled")
    else:
        assert found == EXPECTED[name]
