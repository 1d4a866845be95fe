"""Concurrent branches of a handler. The names of a branch's steps begin with the name of the branch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import Permanent
from ..values import dumps

if TYPE_CHECKING:
    from .context import Context

T = TypeVar("T")
Branch = Callable[["Context[Any]"], Awaitable[T]]


class Group:
    """The branches of one `all`, which share a failure."""

    def __init__(self, parent: Group | None) -> None:
        self._parent = parent
        self._steps = 0
        self._stopped = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    def _ancestors(self) -> Iterator[Group]:
        group: Group | None = self
        while group is not None:
            yield group
            group = group._parent

    def is_stopped(self) -> bool:
        """Returns true once a branch of this group or of one around it has failed."""
        return any(group._stopped for group in self._ancestors())

    def stop(self) -> None:
        """Prevents the branches from beginning another step."""
        self._stopped = True

    async def no_steps(self) -> None:
        """Waits until no step of the branches is in progress."""
        await self._quiet.wait()

    @staticmethod
    @contextlib.contextmanager
    def counted(group: Group | None) -> Iterator[None]:
        """Counts a step in progress."""
        groups = list(group._ancestors()) if group is not None else []
        for each in groups:
            each._steps += 1
            each._quiet.clear()
        try:
            yield
        finally:
            for each in groups:
                each._steps -= 1
                if each._steps == 0:
                    each._quiet.set()


async def run_race(context: Context[Any], name: str, branches: Mapping[str, Branch[T]]) -> T:
    """Runs branches until one has ended. See `Context.race`."""
    if not branches:
        raise Permanent(f"the race {name!r} has no branch, so it would never end")
    for branch in branches:
        if "/" in branch:
            raise Permanent(f"the race {name!r} has a branch {branch!r}; its name must not contain a slash")
    full_name = context._request(name)
    tracker = context._attempt.tracker
    with tracker.reserve(full_name) as keep:
        if full_name in tracker.recorded:
            keep()
            winner = str(tracker.recorded[full_name])
            if winner not in branches:
                raise Permanent(
                    f"the race {full_name!r} was won by its branch {winner!r}, which no longer exists; restore it"
                )
            tracker.make_optional(f"{full_name}/", f"{full_name}/{winner}/")
            return await branches[winner](_within(context, full_name, winner))
        begun = time.monotonic()
        winner, value = await _first_to_end(context, full_name, branches)
        # Every attempt has to take the same branch, so the winner is recorded before the handler goes on.
        keep()
        await context._record(full_name, "race", dumps(winner), time.monotonic() - begun)
        tracker.make_optional(f"{full_name}/", f"{full_name}/{winner}/")
        return value


async def _first_to_end(context: Context[Any], full_name: str, branches: Mapping[str, Branch[T]]) -> tuple[str, T]:
    tasks = {
        branch: asyncio.ensure_future(_run(function, _within(context, full_name, branch)))
        for branch, function in branches.items()
    }
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        # If several have ended, the first that was named wins.
        winner = next(branch for branch, task in tasks.items() if task.done())
        return winner, tasks[winner].result()
    finally:
        await _cancel(tasks.values())


async def run_all(context: Context[Any], name: str, branches: Mapping[str, Branch[T]]) -> dict[str, T]:
    """Runs branches until all have ended. See `Context.all`."""
    full_name = context._name(name)
    group = Group(context._group)
    tasks = {
        branch: asyncio.ensure_future(_run(function, _within(context, full_name, branch, group)))
        for branch, function in branches.items()
    }
    if not tasks:
        return {}
    try:
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task for task in tasks.values() if task.done() and task.exception() is not None), None)
        if failed is not None:
            group.stop()
            await group.no_steps()
            failed.result()
        return {branch: task.result() for branch, task in tasks.items()}
    finally:
        await _cancel(tasks.values())


async def _run(function: Branch[T], context: Context[Any]) -> T:
    return await function(context)


def _within(context: Context[Any], full_name: str, branch: str, group: Group | None = None) -> Context[Any]:
    from .context import Context

    return Context(context._attempt, f"{full_name}/{branch}/", group or context._group)


async def _cancel(tasks: Any) -> None:
    """Cancels the branches that have not ended, and waits until they have."""
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        del ended
