"""Runs a real server for tests, whose clock stands still until the test advances it.

    def test_reminder(selvedge_server):            # the fixture of the pytest plugin
        ...
        selvedge_server.advance(days=3)            # runs in milliseconds

The program is SELVEDGE_BINARY, or `selvedge` on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from .client import Client
from .sync import Client as SyncClient

if TYPE_CHECKING:
    from typing_extensions import Self


def find_binary() -> str:
    """Returns the path of the server's program."""
    found = os.environ.get("SELVEDGE_BINARY") or shutil.which("selvedge")
    if not found:
        raise FileNotFoundError("set SELVEDGE_BINARY to the selvedge program, or put it on the PATH")
    return found


class Server:
    """A server process. `with Server() as server:` starts it and ends it.

    By default it has the memory store, a clock that only `advance` moves, and no worker of its own. `listen` is an
    address; port 0 takes a free one.
    """

    def __init__(
        self,
        *,
        store: str = "memory:",
        manual_clock: bool = True,
        listen: str = "127.0.0.1:0",
        arguments: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        binary: str | None = None,
    ) -> None:
        self._command = [binary or find_binary(), "dev" if manual_clock else "serve", "--store", store]
        if manual_clock:
            self._command += ["--manual-clock", "--no-demo"]
        self._command += arguments
        self._listen = listen
        self._environment = environment or {}
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Starts the server and waits until it listens. A server that was killed starts again at the same address."""
        self._log = tempfile.NamedTemporaryFile(prefix="selvedge-server-", suffix=".log")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*self._command, "--listen", self._listen],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self._environment},
        )
        deadline = time.monotonic() + 60
        while (found := re.search(r"listening on (https?://(\S+))", self.log())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{self.log()}")
            time.sleep(0.01)
        self.url, self._listen = found.group(1), found.group(2)

    def log(self) -> str:
        """Returns what the server has written."""
        return Path(self._log.name).read_text(errors="replace") if self._log else ""

    def stop(self) -> None:
        """Ends the server with SIGTERM."""
        self._end("terminate")

    def kill(self) -> None:
        """Ends the server with SIGKILL, as a crash does."""
        self._end("kill")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def client(self, **options: Any) -> Client:
        """Returns a client of this server."""
        return Client(self.url, **options)

    def sync_client(self, **options: Any) -> SyncClient:
        """Returns a synchronous client of this server."""
        return SyncClient(self.url, **options)

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Advances the clock. Everything that becomes due happens in its order and at its time.

        The clock stands still while executions are active. Blocks the calling thread; use `advance_async` where the
        event loop of the test also runs the worker.
        """
        with self.sync_client() as client:
            left = _milliseconds(seconds, minutes, hours, days)
            while left:
                left = _rest(client._transport.get("/v1/clock"), left, client._transport.post)

    async def advance_async(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Advances the clock without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.advance, seconds=seconds, minutes=minutes, hours=hours, days=days)


def _milliseconds(seconds: float, minutes: float, hours: float, days: float) -> int:
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _rest(before: Any, left: int, post: Any) -> int:
    """Advances by `left` milliseconds and returns how many remain, because a call has a time limit."""
    from datetime import datetime

    answer = post("/v1/clock/advance", {"by_ms": left}, wait=30)
    if answer["reached"]:
        return 0
    times = [datetime.fromisoformat(clock["now_at"].replace("Z", "+00:00")) for clock in (before, answer)]
    return max(0, left - round((times[1] - times[0]).total_seconds() * 1000))
