# Generated from client/transport.py by scripts/generate.py.
"""Calls to the server, repeated until they are answered.

A call that gets no answer may have taken effect. It is repeated with the same id or `Idempotency-Key`, which makes the
repetition safe. So are 429 and 503, after the time that the server names.
"""

from __future__ import annotations

import time
import contextlib
import json
import time as clock
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import httpx

from ..errors import Problem, problem
from ..http import Pool, Servers, Settings, backoff, connection_failed, is_certificate_error
from ..values import dumps

RETRIED = (429, 503)


class Transport:
    """Sends requests, with retries."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._pool = Pool(settings)
        self._servers = Servers(settings.servers)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None, wait: float = 0) -> Any:
        """Reads a document. `wait` is the time for which the server may hold the request."""
        return self.call("GET", path, params=params, wait=wait)

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        wait: float = 0,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Changes something. The same key is sent with every repetition, so that it happens once."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4()), **(headers or {})}
        return self.call("POST", path, body if body is not None else {}, headers=headers, wait=wait)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0,
        retry_for: float | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Sends a request until it is answered, for up to `retry_for` seconds. Raises a `Problem` if it is refused.

        `timeout` is the longest time in seconds for one try, by default that of the client.
        """
        content = body if body is None or isinstance(body, bytes) else dumps(body)
        headers = {**(headers or {}), **({"Content-Type": "application/json"} if content is not None else {})}
        query = {name: value for name, value in (params or {}).items() if value is not None}
        deadline = clock.monotonic() + (self.settings.retry_for if retry_for is None else retry_for)
        attempt = 0
        while True:
            delay = backoff(attempt)
            attempt += 1
            is_next_tried_at_once = False
            server = self._servers.current
            try:
                client = self._pool.get()
                answer = client.request(
                    method,
                    server + path,
                    content=content,
                    params=query,
                    headers=headers,
                    timeout=(self.settings.timeout if timeout is None else timeout) + wait,
                )
                if answer.status_code < 400:
                    return json.loads(answer.content) if answer.content else None
            except (httpx.RequestError, ValueError) as error:
                # ValueError: something between the client and the server has answered in its place.
                failure: Exception = connection_failed(server, error)
                self._servers.leave(server)
                if is_certificate_error(error):
                    raise failure from error
                failure.__cause__ = error
                # The other servers are tried at once.
                is_next_tried_at_once = attempt < len(self._servers)
            else:
                refusal = read_problem(answer.status_code, answer.content)
                if answer.status_code not in RETRIED:
                    raise refusal
                failure = refusal
                if refusal.retry_after_ms is not None:
                    delay = refusal.retry_after_ms / 1000
            if is_next_tried_at_once:
                continue
            if clock.monotonic() + delay > deadline:
                raise failure
            time.sleep(delay)

    def text(self, path: str, params: Mapping[str, Any]) -> str:
        """Reads a text that is not JSON."""
        answer = self._pool.get().get(self._servers.current + path, params=dict(params))
        if answer.status_code >= 400:
            raise read_problem(answer.status_code, answer.content)
        return answer.text

    def pages(self, path: str, params: Mapping[str, Any] | None = None) -> Generator[Any, None, None]:
        """Yields the items of a list, page by page."""
        cursor: str | None = None
        while True:
            page = self.get(path, {**(params or {}), "cursor": cursor})
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    @contextlib.contextmanager
    def stream(
        self, path: str, params: Mapping[str, Any], last_id: str | None
    ) -> Iterator[Iterator[str]]:
        """Opens an event stream and yields its lines. The server sends a comment at least every 15 seconds."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        query = {name: value for name, value in params.items() if value is not None}
        timeout = httpx.Timeout(self.settings.timeout, read=60.0)
        server, client = self._servers.current, self._pool.get()
        try:
            with client.stream("GET", server + path, params=query, headers=headers, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    raise read_problem(answer.status_code, answer.read())
                yield answer.iter_lines()
        except httpx.RequestError:
            self._servers.leave(server)
            raise


def read_problem(status: int, content: bytes) -> Problem:
    """Returns the exception of a refused request. A proxy may answer with something other than a problem document."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "code" not in document:
        detail = content[:200].decode(errors="replace")
        document = {"status": status, "code": "internal" if status >= 500 else "refused", "detail": detail}
    return problem(document)
