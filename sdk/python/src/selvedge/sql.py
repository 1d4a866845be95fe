"""Submits within a transaction of Postgres: the work and the rows it is about commit together, or not at all.

The functions call `selvedge.submit` of the store's schema. They work with connections and cursors of psycopg 3 and with
connections of asyncpg, and never commit.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, overload

from .options import SubmitOptions, new_id, submission
from .task import TaskType
from .values import dumps

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TYPES = {
    "input": "json",
    "retry": "json",
    "budgets": "json",
    "concurrency": "json",
    "tags": "jsonb",
    "capabilities": "text[]",
    "quotas": "text[]",
    "id": "uuid",
    "priority": "integer",
    "delay_until_at": "timestamptz",
    "namespace": "text",
    "notify": "boolean",
}


class AsyncConnection(Protocol):
    """An asynchronous connection or cursor of psycopg, or a connection of asyncpg."""

    def execute(self, *arguments: Any, **named: Any) -> Awaitable[Any]:
        """Executes a statement."""
        ...


class Connection(Protocol):
    """A connection or cursor of psycopg."""

    def execute(self, *arguments: Any, **named: Any) -> Any:
        """Executes a statement."""


class SqlOptions(SubmitOptions, total=False):
    """The options of a submission with SQL. `schema` is that of the store, `selvedge` if it is left out."""

    namespace: str
    notify: bool
    schema: str


@overload
def submit_in(  # pyright: ignore[reportOverlappingOverload]
    connection: AsyncConnection, kind: str | TaskType[Any, Any], input: Any = None, **options: Unpack[SqlOptions]
) -> Awaitable[str]: ...
@overload
def submit_in(
    connection: Connection, kind: str | TaskType[Any, Any], input: Any = None, **options: Unpack[SqlOptions]
) -> str: ...


def submit_in(
    connection: Any, kind: str | TaskType[Any, Any], input: Any = None, **options: Unpack[SqlOptions]
) -> str | Awaitable[str]:
    """Submits in the transaction of a connection, and returns the id that the execution will have.

    With an asynchronous connection the result is to be awaited. `notify` starts the execution at the moment of the
    commit instead of within a second; Postgres then commits such transactions one by one.
    """
    schema = options.pop("schema", "selvedge")
    fields = _fields(kind, input, options)
    if hasattr(connection, "fetchval"):
        return _submit_with_asyncpg(connection, schema, fields)
    answer = connection.execute(_statement(schema, fields, ["%s"] * len(fields)), list(fields.values()))
    return _read_async(answer) if inspect.isawaitable(answer) else str(answer.fetchone()[0])


async def _submit_with_asyncpg(connection: Any, schema: str, fields: dict[str, Any]) -> str:
    values = dict(fields)
    if "delay_until_at" in values:
        values["delay_until_at"] = datetime.fromisoformat(values["delay_until_at"].replace("Z", "+00:00"))
    places = [f"${number}" for number in range(1, len(values) + 1)]
    return str(await connection.fetchval(_statement(schema, fields, places), *values.values()))


async def _read_async(answer: Awaitable[Any]) -> str:
    cursor = await answer
    return str((await cursor.fetchone())[0])


def _fields(kind: str | TaskType[Any, Any], input: Any, options: SqlOptions) -> dict[str, Any]:
    if "debounce" in options:
        raise TypeError("a submission with SQL has no debounce")
    others: dict[str, Any] = dict(options)
    direct: dict[str, Any] = {name: others.pop(name) for name in ("namespace", "notify") if name in others}
    body = submission(kind if isinstance(kind, str) else kind.kind, others)
    if not body.keys() & {"idempotency_key", "unique_while_active"}:
        body.setdefault("id", new_id())
    fields: dict[str, Any] = {**body, **direct, "input": input}
    encoded = {}
    for name, value in fields.items():
        kind_of_value = _TYPES.get(name, "")
        encoded[name] = dumps(value).decode() if kind_of_value.startswith("json") else value
        if kind_of_value == "text[]":
            encoded[name] = list(value)
    return encoded


def _statement(schema: str, fields: dict[str, Any], places: list[str]) -> str:
    quoted = '"' + schema.replace('"', '""') + '"'
    arguments = []
    for (name, value), place in zip(fields.items(), places, strict=True):
        kind = _TYPES.get(name, "bigint" if isinstance(value, int) else "text")
        arguments.append(f"{name} => {place}::{kind}")
    return f"select {quoted}.submit({', '.join(arguments)})"
