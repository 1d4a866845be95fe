"""What waits return, and the conditions that they wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ..options import delay
from ..values import Seconds

Condition = dict[str, Any]


class Until:
    """Conditions for `ctx.wait`."""

    @staticmethod
    def signal(name: str) -> Condition:
        """A signal of this name."""
        return {"signal": name}

    @staticmethod
    def signals(n: int, of: Iterable[str]) -> Condition:
        """Signals of `n` different names among these."""
        return _count(n, of, "signals")

    @staticmethod
    def waitpoints(n: int, of: Iterable[str]) -> Condition:
        """Deliveries through `n` different waitpoints among these."""
        return _count(n, of, "waitpoints")

    @staticmethod
    def sources(n: int, of: Iterable[str]) -> Condition:
        """A signal with one of these names from `n` different sources."""
        return _count(n, of, "sources")

    @staticmethod
    def after(duration: Seconds) -> Condition:
        """The end of a duration."""
        return delay(duration)

    @staticmethod
    def at(time: datetime) -> Condition:
        """A time."""
        return delay(time)

    @staticmethod
    def operator() -> Condition:
        """The resume of an operator."""
        return {"operator": True}

    @staticmethod
    def children() -> Condition:
        """The end of all children that were not detached."""
        return {"children": True}

    @staticmethod
    def any(*conditions: Condition) -> Condition:
        """One of the conditions."""
        return {"any": list(conditions)}

    @staticmethod
    def all(*conditions: Condition) -> Condition:
        """All of the conditions."""
        return {"all": list(conditions)}


def _count(n: int, of: Iterable[str], distinct: str) -> Condition:
    return {"count": {"n": n, "of": list(of), "distinct": distinct}}


@dataclass(frozen=True)
class Signal:
    """A signal that a wait has consumed."""

    name: str
    payload: Any
    source: str
    waitpoint: str | None = None


@dataclass(frozen=True)
class WaitResult:
    """The end of a wait: its reason, and the signals that the wait consumed, in the order of delivery."""

    resumed_by: Literal["condition", "timeout", "operator"]
    signals: list[Signal]


@dataclass(frozen=True)
class Waitpoint:
    """An address at which the holder of the token delivers one signal. The token is empty once it was used."""

    id: str
    name: str
    token: str
    url: str | None = None

    def __repr__(self) -> str:
        return f"Waitpoint(id={self.id!r}, name={self.name!r})"


@dataclass(frozen=True)
class Child:
    """A child that has ended, or has not yet."""

    name: str
    outcome: str | None
    result: Any


@dataclass(frozen=True)
class Usage:
    """The answer to a report of usage: the dimensions whose hard limit is reached."""

    breached: list[str]
    state: str | None


def read_wait(found: Any, name: str) -> WaitResult:
    """Reads the recorded end of a wait."""
    if not isinstance(found, dict) or "resumed_by" not in found:
        from ..errors import Permanent

        raise Permanent(f"the step {name!r} was not recorded as a wait; give the changed step another name")
    signals = [
        Signal(item["name"], item["payload"], item["source"], item.get("waitpoint")) for item in found["signals"]
    ]
    return WaitResult(found["resumed_by"], signals)
