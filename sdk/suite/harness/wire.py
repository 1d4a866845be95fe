"""HTTP/1.1 messages over asyncio streams: enough for the proxy, and for the harness's own calls to the server."""

import asyncio
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

LINE_LIMIT = 1 << 20
CHUNK = 1 << 16


@dataclass
class Head:
    """The first line and the headers of a message, as received."""

    start: str
    headers: list  # of (name, value)

    def get(self, name):
        """Returns the value of a header, or none."""
        return next((value for other, value in self.headers if other.lower() == name), None)

    def encode(self):
        """Returns the bytes of the head."""
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    @property
    def status(self):
        """The status of a response."""
        return int(self.start.split(" ")[1])


async def read_head(reader):
    """Reads a head. Returns none if the connection ended before it."""
    start = await reader.readline()
    if not start:
        return None
    headers = []
    while (line := await reader.readline()) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name.strip(), value.strip()))
    return Head(start.decode("latin-1").strip(), headers)


async def body_parts(reader, head, is_response):
    """Yields the parts of a body as they arrive, framed as received."""
    if (head.get("transfer-encoding") or "").lower() == "chunked":
        while True:
            size = await reader.readline()
            if not size:
                raise ConnectionError("the connection ended within a body")
            length = int(size.split(b";")[0], 16)
            yield size + await reader.readexactly(length + 2)
            if length == 0:
                return
    elif head.get("content-length") is not None:
        left = int(head.get("content-length"))
        while left:
            part = await reader.read(min(left, CHUNK))
            if not part:
                raise ConnectionError("the connection ended within a body")
            left -= len(part)
            yield part
    elif is_response and head.status not in (204, 304):
        while part := await reader.read(CHUNK):
            yield part


async def request(url, method, path, body=None):
    """Makes one call on a connection of its own. Returns the status and the parsed JSON body."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=LINE_LIMIT)
    try:
        content = b"" if body is None else json.dumps(body).encode()
        headers = [("Host", address.netloc), ("Content-Length", str(len(content))), ("Connection", "close")]
        writer.write(Head(f"{method} {path} HTTP/1.1", headers).encode() + content)
        head = await read_head(reader)
        if head is None:
            raise ConnectionError("the server closed the connection without a response")
        text = b"".join([part async for part in body_parts(reader, head, True)])
        return head.status, json.loads(text) if text else None
    finally:
        writer.close()
