"""The proxy between an SDK and the server. Its address stays the same when the server restarts.

It injects faults into chosen requests, cuts connections, and remembers every request with its time. A client that
disconnects while the server is still answering is disconnected from the server, too, because a waiting claim must not
hand executions to a process that has died.
"""

import asyncio
import json
import math
import re
import time
from dataclasses import dataclass, field

from . import wire
from .waiting import Changes


@dataclass
class Fault:
    """A fault for requests that match. `kind` is `answer`, `lose` (the answer) or `refuse` (the request).

    It spares the first `skip` of them, then applies to each `every`th, `times` in all.
    """

    method: str
    path: re.Pattern
    kind: str
    skip: int
    every: int
    times: int
    problem: dict
    seen: int = 0

    def applies(self, method, path):
        """Counts a request that matches. Returns true if this request gets the fault."""
        if self.times == 0 or (self.method and self.method != method) or not self.path.search(path):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.seen - self.skip) % self.every:
            return False
        self.times -= 1
        return True


@dataclass
class Request:
    """A request that came through the proxy. Times are seconds of the monotonic clock."""

    method: str
    path: str
    fault: str | None
    began: float
    ended: float | None = None

    def __str__(self):
        took = "not answered" if self.ended is None else f"{(self.ended - self.began) * 1000:.0f} ms"
        return f"{self.began:.3f} {self.method} {self.path} {self.fault or ''} ({took})"


@dataclass
class Proxy:
    """A running proxy. `upstream` is the server's (host, port), none while there is no server."""

    changes: Changes
    upstream: tuple | None = None
    faults: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    url: str = ""
    _open: dict = field(default_factory=dict)  # the current request of each connection
    _tasks: set = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def start(self):
        """Listens on a free port of the loopback interface."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self._accept), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self):
        """Closes the proxy and all connections."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, path):
        """Cuts the connections whose current request matches. Returns how many there were."""
        matching = [connection for connection, request in self._open.items() if path.search(request.path)]
        for connection in matching:
            connection.transport.abort()
        return len(matching)

    def _accept(self, connection):
        task = asyncio.ensure_future(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection):
        """Serves the requests of one connection, one after another."""
        upstream = None
        try:
            while head := await wire.read_head(connection.reader):
                body = [part async for part in wire.body_parts(connection.reader, head, False)]
                method, path, _ = head.start.split(" ")
                fault = next((fault for fault in self.faults if fault.applies(method, path)), None)
                request = Request(method, path, fault and fault.kind, time.monotonic())
                self._begin(connection, request)
                if fault and fault.kind == "refuse":
                    return
                if fault and fault.kind == "answer":
                    connection.writer.write(_problem(fault.problem))
                    await connection.writer.drain()
                    self._end(connection, request)
                    continue
                if upstream is None or upstream[0].at_eof():
                    upstream = await self._connect()
                lose = fault is not None
                exchange = asyncio.ensure_future(_exchange(upstream, connection, head, body, lose))
                await asyncio.wait({exchange, connection.gone}, return_when=asyncio.FIRST_COMPLETED)
                if not exchange.done():
                    exchange.cancel()
                    return
                keep = exchange.result()
                self._end(connection, request)
                if lose or not keep:
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client or the server has gone; the other side sees its connection end
        finally:
            self._open.pop(connection, None)
            connection.transport.close()
            if upstream:
                upstream[1].close()

    async def _connect(self):
        if self.upstream is None:
            raise ConnectionError("there is no server")
        return await asyncio.open_connection(*self.upstream, limit=wire.LINE_LIMIT)

    def _begin(self, connection, request):
        self.requests.append(request)
        self._open[connection] = request
        self.changes.notify()

    def _end(self, connection, request):
        request.ended = time.monotonic()
        self._open.pop(connection, None)
        self.changes.notify()


class _Connection(asyncio.StreamReaderProtocol):
    """A connection of a client. `gone` is set when the client disconnects, even if nothing is being read."""

    def __init__(self, accept):
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(limit=wire.LINE_LIMIT, loop=loop)
        super().__init__(self.reader, loop=loop)
        self.gone = loop.create_future()
        self._accept_connection = accept

    def connection_made(self, transport):
        super().connection_made(transport)
        self.transport = transport
        self.writer = asyncio.StreamWriter(transport, self, self.reader, asyncio.get_running_loop())
        self._accept_connection(self)

    def eof_received(self):
        self._leave()
        return super().eof_received()

    def connection_lost(self, error):
        self._leave()
        super().connection_lost(error)

    def _leave(self):
        if not self.gone.done():
            self.gone.set_result(None)


async def _exchange(upstream, connection, head, body, lose):
    """Forwards a request and its response. Returns true if both connections can be used again."""
    reader, writer = upstream
    writer.write(head.encode() + b"".join(body))
    answer = await wire.read_head(reader)
    if answer is None:
        return False
    if not lose:
        connection.writer.write(answer.encode())
    async for part in wire.body_parts(reader, answer, True):
        if not lose:
            connection.writer.write(part)
            await connection.writer.drain()
    framed = answer.get("content-length") is not None or answer.get("transfer-encoding") is not None
    return framed and (answer.get("connection") or "").lower() != "close"


def _problem(problem):
    """Returns the response of a server that refuses a request for a while."""
    status, milliseconds = problem["status"], problem["retry_after_ms"]
    content = json.dumps({"type": "about:blank", "title": "A fault", "detail": "by the proxy", **problem}).encode()
    headers = [
        ("Content-Type", "application/problem+json"),
        ("Content-Length", str(len(content))),
        ("Retry-After", str(math.ceil(milliseconds / 1000))),
    ]
    return wire.Head(f"HTTP/1.1 {status} Fault", headers).encode() + content
