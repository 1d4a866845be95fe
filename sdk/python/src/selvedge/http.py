"""The connections to the server, and the settings with which they are opened."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from .errors import ConnectionFailed

DEFAULT_SERVER = "http://127.0.0.1:7878"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """The address of the server, the credential, and the limits of a request. Times are in seconds."""

    server: str
    key: str | None
    namespace: str | None = None
    timeout: float = 30.0
    retry_for: float = 30.0
    options: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def create(
        server: str | None,
        key: str | None,
        namespace: str | None,
        timeout: float,
        retry_for: float,
        options: dict[str, Any],
    ) -> Settings:
        """Returns the settings, with defaults from SELVEDGE_SERVER and SELVEDGE_KEY."""
        server = server or os.environ.get("SELVEDGE_SERVER") or DEFAULT_SERVER
        key = key or os.environ.get("SELVEDGE_KEY") or None
        return Settings(server.rstrip("/"), key, namespace, timeout, retry_for, options)

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of the HTTP client."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if self.namespace:
            headers["Selvedge-Namespace"] = self.namespace
        if httpx.URL(self.server).host in LOOPBACK:
            # On the same machine the compression of an answer takes longer than its transfer.
            headers["Accept-Encoding"] = "identity"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        return {
            "base_url": self.server,
            "headers": headers,
            "timeout": self.timeout,
            "limits": limits,
            **self.options,
        }


class AsyncPool:
    """The HTTP clients of one `Client`, one for each event loop that uses it: a connection belongs to its loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]
        self._clients = weakref.WeakKeyDictionary()

    def get(self) -> httpx.AsyncClient:
        """Returns the HTTP client of the running loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None or client.is_closed:
            client = self._clients[loop] = httpx.AsyncClient(**self._settings.arguments())
        return client

    async def aclose(self) -> None:
        """Closes the connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


class Pool:
    """The HTTP client of one synchronous client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: httpx.Client | None = None

    def get(self) -> httpx.Client:
        """Returns the HTTP client."""
        if self._client is None or self._client.is_closed:
            self._client = httpx.Client(**self._settings.arguments())
        return self._client

    def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()


def connection_failed(server: str, error: Exception) -> ConnectionFailed:
    """Returns the exception for a request that got no answer, with the remedy that fits."""
    message = f"{server} does not answer: {error!r}"
    if is_certificate_error(error):
        message = (
            f"the certificate of {server} is not accepted: {error}; for a certificate of your own, name its authority "
            "in SSL_CERT_FILE, or pass verify=ssl.create_default_context(cafile=…) to the client"
        )
    elif any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error)):
        message = (
            f"{server} does not answer: no server listens there; start one with `selvedge dev`, or name another "
            "address in SELVEDGE_SERVER or in the first argument of the client"
        )
    elif any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
        message = (
            f"{server} does not answer with TLS: {error}; a server without a certificate has an address with http://"
        )
    return ConnectionFailed(message)


def is_certificate_error(error: BaseException) -> bool:
    """Returns true if the certificate of the server was not accepted. A repetition would not be, either."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an exception and what it was raised from."""
    while error is not None:
        yield error
        # A name with several addresses fails with one error for each.
        for part in getattr(error, "exceptions", ()):
            yield from _causes(part)
        error = error.__cause__ or error.__context__


def backoff(attempt: int) -> float:
    """Returns the seconds before a retry: doubling from 0.05 to 2, with jitter."""
    return float(min(2.0, 0.05 * 2**attempt) * (0.5 + random.random() / 2))
