"""The state of an attempt's steps: which are recorded, requested or running, and which waits are open.

The tracker decides when an attempt is suspended: at least one wait is open, and nothing runs whose effect would be
repeated. A handler may do several things at once with `asyncio.gather`, so an open wait does not mean that it is idle:
it is suspended when nothing has happened for some turns of the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import Permanent

QUIET_TURNS = 10
"""The turns of the event loop without a change after which a handler is idle. Waking one task through another, as
`asyncio.gather` and `asyncio.timeout` do, takes at most three."""


class Stopped(BaseException):
    """Ends a handler whose attempt is over. Not an `Exception`, so that a handler does not catch it by accident."""


class Tracker:
    """The state of one attempt's steps. All branches and tasks of the handler share it."""

    def __init__(self, recorded: dict[str, Any], on_idle: Callable[[list[dict[str, Any]]], None]) -> None:
        self.recorded = recorded
        self._on_idle = on_idle
        self._requested: set[str] = set()
        self._reserved: set[str] = set()
        self._optional: list[tuple[str, str | None]] = []
        self.all_optional = False
        self._waits: dict[int, dict[str, Any]] = {}
        self._running = 0
        self._changes = 0
        self.closed = False

    def request(self, name: str) -> None:
        """Notes that the handler has requested a step, whether or not it reaches the step."""
        self._requested.add(name)

    @contextlib.contextmanager
    def reserve(self, name: str) -> Iterator[Callable[[], None]]:
        """Reserves the name of a step that the handler has reached. The name is free again at the end, unless the
        function that this yields was called, because a result is or may be recorded under the name."""
        if name in self._reserved:
            raise Permanent(f"the step {name!r} is used twice in one attempt; give each step a name of its own")
        self._reserved.add(name)
        kept = False

        def keep() -> None:
            nonlocal kept
            kept = True

        try:
            yield keep
        finally:
            if not kept:
                self._reserved.discard(name)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Keeps the attempt from being suspended: a step or a report is in progress."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Counts something in progress."""
        self._running += 1
        self._changes += 1

    def end(self) -> None:
        """Counts the end of something in progress."""
        self._running -= 1
        self._changed()

    @contextlib.contextmanager
    def open_wait(self, wait: dict[str, Any]) -> Iterator[None]:
        """Opens a wait."""
        number = self._changes = self._changes + 1
        self._waits[number] = wait
        self._changed()
        try:
            yield
        finally:
            del self._waits[number]
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        if self._is_idle():
            asyncio.get_running_loop().call_soon(self._look, self._changes, QUIET_TURNS)

    def _look(self, changes: int, turns: int) -> None:
        if changes != self._changes or not self._is_idle():
            return
        if turns > 0:
            asyncio.get_running_loop().call_soon(self._look, changes, turns - 1)
            return
        self.closed = True
        self._on_idle(list(self._waits.values()))

    def _is_idle(self) -> bool:
        return not self.closed and self._running == 0 and bool(self._waits)

    def make_optional(self, prefix: str, except_for: str | None = None) -> None:
        """Lets the handler return without the recorded steps whose names have this prefix, and not the other."""
        self._optional.append((prefix, except_for))

    def check_vanished(self) -> None:
        """Raises `Permanent` if the handler returned without a step that an earlier attempt recorded."""
        if self.all_optional:
            return
        for name in self.recorded:
            if name not in self._requested and not self._is_optional(name):
                raise Permanent(
                    f"the handler returned without the step {name!r}, which an earlier attempt recorded; restore the "
                    "step, or call allow_vanished_steps if it was removed on purpose"
                )

    def _is_optional(self, name: str) -> bool:
        return any(
            name.startswith(prefix) and not (except_for is not None and name.startswith(except_for))
            for prefix, except_for in self._optional
        )
