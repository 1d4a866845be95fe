"""Server-sent events that resume by themselves: the event log, and the frames of an execution."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import httpx

from ..errors import Problem
from ..http import backoff
from .transport import RETRIED, Transport


async def messages(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[str, str | None, Any], None]:
    """Yields the type, the id and the parsed data of each message of an event stream."""
    kind, number, data = "message", None, []
    async for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "id":
                number = value
            elif name == "data":
                data.append(value)
        elif data:
            yield kind, number, json.loads("\n".join(data))
            kind, number, data = "message", None, []


async def resumed(
    transport: Transport, path: str, params: Mapping[str, Any], last_id: str | None
) -> AsyncGenerator[tuple[str, Any], None]:
    """Yields the type and data of messages. After a broken connection it continues behind the last one."""
    attempt = 0
    while True:
        try:
            async with (
                transport.stream(path, params, last_id) as lines,
                contextlib.aclosing(messages(lines)) as found,
            ):
                async for kind, number, data in found:
                    attempt = 0
                    last_id = number or last_id
                    yield kind, data
        except httpx.RequestError:
            pass
        except Problem as problem:
            if problem.status not in RETRIED:
                raise
        await asyncio.sleep(backoff(attempt))
        attempt += 1
