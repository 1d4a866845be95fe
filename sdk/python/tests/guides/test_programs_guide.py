"""The programs of the guides and of the comparison run as processes."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment
from selvedge import NotCompleted
from selvedge.testing import Server
from waiting import state_of

FOLDER = Path(__file__).parent


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("first_flow.py", r"\['bytes of cat\.jpg at 200', 'bytes of cat\.jpg at 800'\]\n"),
        ("comparison_order.py", r"receipt \w{4}… for 990, approved by ada\n"),
    ],
)
def test_the_program_prints_its_result(own_server: Server, program: str, output: str) -> None:
    command = [sys.executable, str(FOLDER / program)]
    ran = subprocess.run(command, env=environment(own_server.url), capture_output=True, text=True, timeout=90)
    assert re.fullmatch(output, ran.stdout), ran.stdout + ran.stderr


async def test_a_worker_converts_films_until_it_is_stopped(own_server: Server) -> None:
    worker = subprocess.Popen([sys.executable, FOLDER / "media_worker.py"], env=environment(own_server.url))
    try:
        async with own_server.client() as client:
            # region: submit
            film = {"film": "cat.mov", "parts": 4}
            run = await client.submit("convert", film, lane="media", retry=5, idempotency_key="cat.mov")
            result = await run.result(timeout=60)
            # endregion: submit
            assert result == "cat.mov, 4 parts"
            empty = await client.submit("convert", {"film": "dog.mov", "parts": 0}, lane="media")
            with pytest.raises(NotCompleted, match=r"dog\.mov is empty"):
                await empty.result(timeout=60)
            run = await client.submit("convert", {"film": "film.mov", "parts": 1_000_000}, lane="media")
            await state_of(client, run.id, "active")
            # region: cancel
            await run.cancel(reason="the film was withdrawn", grace=30)
            # endregion: cancel
            await state_of(client, run.id, "cancelled")
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, 30) == 0
    finally:
        worker.kill()
