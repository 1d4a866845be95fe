"""What waits return, and the conditions that they wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from ..conversion import REFUSALS, convert
from ..errors import Permanent
from ..options import delay
from ..signal_type import SignalType
from ..values import Seconds

Condition = dict[str, Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Until:
    """Conditions for `ctx.wait`."""

    @staticmethod
    def signal(signal: str | SignalType[Any]) -> Condition:
        """A signal of this name."""
        return {"signal": signal if isinstance(signal, str) else signal.name}

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
class ReceivedSignal(Generic[T_co]):
    """A signal that a wait has consumed."""

    name: str
    payload: T_co
    source: str
    waitpoint: str | None = None


@dataclass(frozen=True)
class WaitResult:
    """The end of a wait: its reason, and the signals that the wait consumed, in the order of delivery."""

    resumed_by: Literal["condition", "timeout", "operator"]
    signals: list[ReceivedSignal[Any]]


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
    """The result as parsed JSON."""

    def get(self, type: type[T]) -> T:
        """Returns the result as a value of this type: `child.get(Receipt)`. Raises `Permanent` if the child has not
        completed."""
        if self.outcome != "completed":
            state = f"ended as {self.outcome}" if self.outcome else "has not ended"
            raise Permanent(f"the child {self.name!r} has no result: it {state}")
        return result_as(f"the child {self.name!r}", self.result, type)


@dataclass(frozen=True)
class Usage:
    """The answer to a report of usage: the dimensions whose hard limit is reached. None within a step, whose usage is
    sent with its record, so that the answer is not known yet."""

    breached: list[str] | None
    state: str | None


def result_as(subject: str, result: Any, type: type[T]) -> T:
    """Returns a result as a value of this type. Raises `Permanent` if it does not fit."""
    try:
        return convert(result, type)
    except REFUSALS as error:
        raise Permanent(f"the result of {subject} is not what the handler expects: {error}") from error


def typed_signal(signal: ReceivedSignal[Any], declared: SignalType[T]) -> ReceivedSignal[T]:
    """Returns a signal with its payload converted. Raises `Permanent` if the payload does not fit."""
    try:
        return replace(signal, payload=convert(signal.payload, declared.payload))
    except REFUSALS as error:
        raise Permanent(f"the payload of the signal {declared.name!r} is not what it declares: {error}") from error


def read_wait(found: Any, name: str) -> WaitResult:
    """Reads the recorded end of a wait."""
    if not isinstance(found, dict) or "resumed_by" not in found:
        raise Permanent(f"the step {name!r} was not recorded as a wait; give the changed step another name")
    signals = [
        ReceivedSignal(item["name"], item["payload"], item["source"], item.get("waitpoint"))
        for item in found["signals"]
    ]
    return WaitResult(found["resumed_by"], signals)
