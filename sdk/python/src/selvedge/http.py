"""The connections to the server, and the settings with which they are opened."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from .errors import ConnectionFailed
from .version import VERSION

DEFAULT_SERVER = "http://127.0.0.1:7878"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """The addresses of the servers, the credential, and the limits of a request. Times are in seconds."""

    servers: tuple[str, ...]
    key: str | None
    namespace: str | None = None
    timeout: float = 30.0
    retry_for: float = 30.0
    ca_file: str | None = None
    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None

    @staticmethod
    def create(server: str | None, key: str | None, namespace: str | None, **others: Any) -> Settings:
        """Returns the settings, with defaults from the environment."""
        given = server or os.environ.get("SELVEDGE_SERVER") or DEFAULT_SERVER
        servers = tuple(address.strip().rstrip("/") for address in given.split(",") if address.strip())
        others["ca_file"] = others.get("ca_file") or os.environ.get("SELVEDGE_CA_FILE") or None
        return Settings(
            servers or (DEFAULT_SERVER,),
            key or os.environ.get("SELVEDGE_KEY") or None,
            namespace or os.environ.get("SELVEDGE_NAMESPACE") or None,
            **others,
        )

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of the HTTP client."""
        headers = {"User-Agent": f"selvedge-python/{VERSION}"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if self.namespace:
            headers["Selvedge-Namespace"] = self.namespace
        if all(httpx.URL(server).host in LOOPBACK for server in self.servers):
            # On the same machine the compression of an answer takes longer than its transfer.
            headers["Accept-Encoding"] = "identity"
        arguments: dict[str, Any] = {
            "headers": headers,
            "timeout": self.timeout,
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
        }
        if self.ssl_context is not None or self.ca_file is not None:
            arguments["verify"] = self.ssl_context or self._trusting()
        if self.proxy is not None:
            arguments["proxy"] = self.proxy
        return arguments

    def _trusting(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConnectionFailed(f"the certificates in {self.ca_file} cannot be read: {error}") from error


class Servers:
    """The addresses of the servers, and the one in use. An address that cannot be reached is left for the next."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses
        self._current = 0

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def current(self) -> str:
        """The address in use."""
        return self._addresses[self._current]

    def leave(self, address: str) -> None:
        """Goes on to the next address, unless another request has done so."""
        if address == self.current:
            self._current = (self._current + 1) % len(self._addresses)


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
            "in SELVEDGE_CA_FILE, or pass ca_file=… to the client"
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
