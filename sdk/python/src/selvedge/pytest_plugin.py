"""The pytest fixtures of the SDK, found by pytest once the package is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .client import Client
from .testing import Server


@pytest.fixture
def selvedge_server() -> Iterator[Server]:
    """A server of its own for one test, with the memory store and a clock that only `advance` moves."""
    with Server() as server:
        yield server


@pytest.fixture
def selvedge_client(selvedge_server: Server) -> Client:
    """A client of `selvedge_server`."""
    return selvedge_server.client()
