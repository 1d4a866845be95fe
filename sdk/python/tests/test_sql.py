"""Submissions within a transaction of Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from conftest import create_database, drop_database
from selvedge import Client, NotFound, RetryPolicy, submit_in
from selvedge.testing import Server
from waiting import eventually


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    address = create_database()
    yield address
    drop_database(address)


@pytest.fixture(scope="module")
def postgres_server(database: str) -> Iterator[Server]:
    with Server(store=database, manual_clock=False) as server:
        yield server


OPTIONS: dict[str, Any] = {
    "lane": "sql",
    "tags": {"customer": "7"},
    "priority": 5,
    "capabilities": ["cuda"],
    "delay": timedelta(hours=1),
    "retry": RetryPolicy(max_retries=1),
    "concurrency": ("key", 2),
    "notify": True,
}


async def check(client: Client, id: str) -> None:
    async def look() -> Any:
        try:
            return await client.get(id)
        except NotFound:
            return None

    found = await eventually(look, lambda found: found is not None, "the execution")
    assert (found["kind"], found["input"], found["lane"]) == ("ship", {"order": "ä", "n": 1}, "sql")
    assert (found["tags"], found["priority"], found["capabilities"]) == ({"customer": "7"}, 5, ["cuda"])
    assert (found["state"], found["retry"]["max_retries"]) == ("delayed", 1)


async def test_a_submission_with_psycopg_commits_with_its_transaction(postgres_server: Server, database: str) -> None:
    with psycopg.connect(database) as connection:
        gone = submit_in(connection, "ship", {"order": "ä", "n": 1}, **OPTIONS)
        connection.rollback()
        with connection.cursor() as cursor:
            kept = submit_in(cursor, "ship", {"order": "ä", "n": 1}, **OPTIONS)
        connection.commit()
    async with postgres_server.client() as client:
        await check(client, kept)
        with pytest.raises(NotFound):
            await client.get(gone)


async def test_a_submission_with_asynchronous_psycopg(postgres_server: Server, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        id = await submit_in(connection, "ship", {"order": "ä", "n": 1}, **OPTIONS)
    async with postgres_server.client() as client:
        await check(client, id)


async def test_a_submission_with_asyncpg(postgres_server: Server, database: str) -> None:
    connection = await asyncpg.connect(database)
    async with connection.transaction():
        id = await submit_in(connection, "ship", {"order": "ä", "n": 1}, **OPTIONS)
    await connection.close()
    async with postgres_server.client() as client:
        await check(client, id)


def test_a_wrong_submission_is_refused_at_once(postgres_server: Server, database: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(psycopg.Error) as refused:
        submit_in(connection, "ship", priority=1000)
    assert refused.value.sqlstate == "22023"
    with psycopg.connect(database) as connection, pytest.raises(TypeError, match="debounce"):
        submit_in(connection, "ship", debounce={"key": "a", "delay_ms": 1})
