"""The options of a submission, and their form on the wire."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from .values import Seconds, milliseconds, timestamp

FailureClass = Literal["transient", "permanent", "infrastructure", "timeout"]


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed attempt is retried. The delays are in seconds; `fixed` replaces the exponential back-off."""

    max_retries: int = 3
    initial: Seconds = 1.0
    multiplier: float = 2.0
    max_delay: Seconds = 60.0
    jitter: bool = True
    fixed: Seconds | None = None
    retry_on: Sequence[FailureClass] | None = None
    max_interruptions: int | None = None

    @staticmethod
    def of(value: RetryPolicy | int | Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a policy, a number of retries, or a mapping with the fields of the API, as the API has it."""
        if isinstance(value, RetryPolicy):
            return value.to_json()
        if isinstance(value, Mapping):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return {"max_retries": value}
        raise TypeError(
            "retry is a RetryPolicy, the number of retries, or a mapping such as {'max_retries': 4}, "
            f"not {type(value).__name__}"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the policy as the API has it."""
        if self.fixed is not None:
            backoff: dict[str, Any] = {"type": "fixed", "delay_ms": milliseconds(self.fixed)}
        else:
            backoff = {
                "type": "exponential",
                "initial_ms": milliseconds(self.initial),
                "multiplier": self.multiplier,
                "max_ms": milliseconds(self.max_delay),
                "jitter": self.jitter,
            }
        policy: dict[str, Any] = {"max_retries": self.max_retries, "backoff": backoff}
        if self.retry_on is not None:
            policy["retry_on"] = list(self.retry_on)
        if self.max_interruptions is not None:
            policy["max_interruptions"] = self.max_interruptions
        return policy


class Reserve(TypedDict):
    """A budget with the amounts that are reserved at the start."""

    name: str
    reserve: Mapping[str, float]


class NodeOptions(TypedDict, total=False):
    """The options of a node of a flow, and of a child. Durations are seconds or a `timedelta`."""

    lane: str
    id: str
    priority: int
    fairness_key: str
    capabilities: Sequence[str]
    tags: Mapping[str, str]
    delay: float | timedelta | datetime
    start_by: Seconds
    retry: RetryPolicy | int | Mapping[str, Any]
    attempt_timeout: Seconds
    deadline: Seconds
    retention: Seconds
    budgets: Sequence[str | Reserve]
    quotas: Sequence[str]
    concurrency: tuple[str, int]


class SubmitOptions(NodeOptions, total=False):
    """The options of a submission."""

    idempotency_key: str
    idempotency_window: Seconds
    unique_while_active: str
    debounce: Mapping[str, Any]


class ClientOptions(SubmitOptions, total=False):
    """The options of `client.submit`. `traceparent` (W3C Trace Context): by default that of the current span, once
    `selvedge.otel` is in use."""

    traceparent: str | None


class SpawnOptions(NodeOptions, total=False):
    """The options of a child. `name`: by default the kind. A child that is detached outlives its parent."""

    name: str
    detach: bool


_DURATIONS = ("start_by", "attempt_timeout", "deadline", "retention", "idempotency_window")


def submission(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a submission, without its input."""
    body: dict[str, Any] = {"kind": kind}
    for name, value in options.items():
        if value is None:
            continue
        if name == "delay":
            body.update(delay(value, "delay_until_at"))
        elif name == "retry":
            body["retry"] = RetryPolicy.of(value)
        elif name == "concurrency":
            body["concurrency"] = {"key": value[0], "limit": value[1]}
        elif name in _DURATIONS:
            body[f"{name}_ms"] = milliseconds(value)
        elif name in SubmitOptions.__annotations__ or name in NodeOptions.__annotations__:
            body[name] = value
        else:
            raise TypeError(f"a submission has no option {name!r}")
    return body


def delay(value: float | timedelta | datetime, until: str = "until_at") -> dict[str, Any]:
    """Returns a time or a delay as the API has it."""
    if isinstance(value, datetime):
        return {until: timestamp(value)}
    return {"delay_ms": milliseconds(value)}


def new_id() -> str:
    """Returns a UUID of version 7: ids that are made one after the other lie together in the index of the store."""
    stamp = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (stamp << 80) | (0x7 << 76) | ((random >> 68) << 64) | (0x2 << 62) | (random & ((1 << 62) - 1))
    return str(uuid.UUID(int=value))
