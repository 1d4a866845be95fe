"""Middleware: functions of the user around each attempt and each step that runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import Context

Next = Callable[[], Awaitable[Any]]
"""Runs what the middleware is around. Call it once."""


class Middleware:
    """Functions around attempts and steps, to be overridden. Each awaits `call_next()` once and returns its value, or
    another one; what it raises fails the attempt. A recorded step does not run again, and no middleware with it.

    When the attempt is suspended, `call_next` of the attempt raises `Suspended`; what the middleware returns or raises
    then is ignored.
    """

    async def attempt(self, ctx: Context[Any], call_next: Next, /) -> Any:
        """Around an attempt."""
        return await call_next()

    async def step(self, ctx: Context[Any], name: str, call_next: Next, /) -> Any:
        """Around a step that runs. `name` is its full name."""
        return await call_next()


AroundAttempt = Callable[["Context[Any]", Next], Awaitable[Any]]


class AttemptFunction(Middleware):
    """Middleware that is a function around attempts."""

    def __init__(self, function: AroundAttempt) -> None:
        self._function = function

    async def attempt(self, ctx: Context[Any], call_next: Next, /) -> Any:
        """Calls the function."""
        return await self._function(ctx, call_next)


async def around_attempt(middleware: Sequence[Middleware], ctx: Context[Any], run: Next) -> Any:
    """Runs an attempt within the middleware. The first one is the outermost."""
    for each in reversed(middleware):
        run = _calling(each.attempt, (ctx,), run)
    return await run()


async def around_step(middleware: Sequence[Middleware], ctx: Context[Any], name: str, run: Next) -> Any:
    """Runs a step within the middleware. The first one is the outermost."""
    for each in reversed(middleware):
        run = _calling(each.step, (ctx, name), run)
    return await run()


def _calling(function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], run: Next) -> Next:
    called = False

    async def call_next() -> Any:
        nonlocal called
        if called:
            raise RuntimeError("a middleware has called call_next twice")
        called = True
        return await run()

    return lambda: function(*arguments, call_next)
