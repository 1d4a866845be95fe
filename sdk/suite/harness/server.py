"""The real server of one scenario, on a store of its own: a file of SQLite, or a database of Postgres."""

import asyncio
import json
import os
import signal
import subprocess
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from .processes import Process
from .waiting import LIMIT


class Server:
    """A server that can be killed and started again on the same store."""

    def __init__(self, binary, store, proxy):
        self.binary, self.store, self.proxy = binary, store, proxy
        self.log = []
        self.url = None
        self._process = None

    async def start(self):
        """Starts the server, and waits until it answers calls."""
        command = [self.binary, "serve", "--json", "--listen", "127.0.0.1:0", "--store", self.store]
        ready = asyncio.get_running_loop().create_future()

        def on_line(line):
            if not ready.done():
                ready.set_result(json.loads(line)["address"])

        self._process = await Process.start("server", command, on_line, self.log)
        ended = asyncio.ensure_future(self._process.wait())
        await asyncio.wait({ready, ended}, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise RuntimeError("the server did not start")
        self.url = ready.result()
        address = urlsplit(self.url)
        self.proxy.upstream = (address.hostname, address.port)

    async def stop(self, kill):
        """Kills the server, or lets it shut down. Until the next start the proxy's clients are refused."""
        if kill:
            self.proxy.upstream = None
        self._process.signal(signal.SIGKILL if kill else signal.SIGTERM)
        await self._process.wait()
        self.proxy.upstream = None

    async def end(self):
        """Kills the server if it is running."""
        if self._process:
            await self.stop(kill=True)


def fresh_store(kind, directory):
    """Creates an empty store. Returns its address and a function that removes it."""
    if kind == "sqlite":
        return f"sqlite:{os.path.join(directory, 'selvedge.db')}", lambda: None
    address = os.environ["SELVEDGE_TEST_POSTGRES"]
    name = f"suite_{uuid4().hex}"
    _psql(address, f"create database {name}")
    store = urlunsplit(urlsplit(address)._replace(path=f"/{name}"))
    return store, lambda: _psql(address, f"drop database {name} with (force)")


def _psql(address, statement):
    command = ["psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--command={statement}", address]
    subprocess.run(command, check=True, capture_output=True, text=True)
