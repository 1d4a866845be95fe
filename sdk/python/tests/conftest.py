"""Servers and names for the tests: the real binary on SQLite, and on Postgres where SELVEDGE_TEST_POSTGRES is set."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from selvedge import Client, Worker
from selvedge.testing import Server

POSTGRES = os.environ.get("SELVEDGE_TEST_POSTGRES")
STORES = ["sqlite", "postgres"] if POSTGRES else ["sqlite"]

if not POSTGRES:
    collect_ignore = ["test_sql.py"]


def create_database() -> str:
    """Creates a database of its own, and returns its address."""
    assert POSTGRES is not None
    name = f"selvedge_python_{secrets.token_hex(6)}"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"create database {name}")  # pyright: ignore
    return POSTGRES.rsplit("/", 1)[0] + "/" + name


def drop_database(address: str) -> None:
    assert POSTGRES is not None
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        name = address.rsplit("/", 1)[1]
        connection.execute(f"drop database if exists {name} with (force)")  # pyright: ignore


@pytest.fixture(scope="session", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a store."""
    if request.param == "postgres":
        address = create_database()
        yield address
        drop_database(address)
    else:
        yield f"sqlite:{tmp_path_factory.mktemp('store') / 'selvedge.db'}"


@pytest.fixture(scope="session")
def server(store: str) -> Iterator[Server]:
    """A server that all tests of a store share. Each test has a lane of its own."""
    with Server(store=store, manual_clock=False) as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that one test may kill and start again."""
    with Server(store=f"sqlite:{tmp_path / 'selvedge.db'}", manual_clock=False) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with server.client() as client:
        yield client


@pytest.fixture
def lane() -> str:
    return f"lane-{secrets.token_hex(6)}"


@pytest.fixture
def worker(client: Client, lane: str) -> Worker:
    """A worker with a short lease, to be started by the test."""
    return Worker(client, lanes=[lane], lease_ttl=2.0, drain_timeout=5.0, cancel_grace=0.2)
