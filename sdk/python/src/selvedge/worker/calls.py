"""Calls of plain functions and coroutines.

A plain function runs in a thread, so that it does not block the event loop. The threads are daemons: a function that
never returns does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any


async def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls a function and awaits what it returns. A plain function is called in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments, **named)
    result = await in_thread(lambda: function(*arguments, **named))
    return await result if inspect.isawaitable(result) else result


def in_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    """Calls a function in a thread of its own, with the context variables of the caller."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def run() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as error:
            failure = RuntimeError("the function raised StopIteration")
            failure.__cause__ = error
        except BaseException as error:
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="selvedge-call", daemon=True).start()
    return future
