"""Serialises values as JSON, and writes durations and times as the API has them.

Inputs and results are JSON. A dataclass or Pydantic model becomes an object; `conversion` reads it back.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Union

Seconds = Union[float, timedelta]
"""A duration: a number of seconds, or a `timedelta`."""


def dumps(value: Any) -> bytes:
    """Serialises a value. Raises TypeError or ValueError if JSON has no such value."""
    return json.dumps(value, default=_to_json, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, (datetime, date)):
        return timestamp(value) if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (uuid.UUID, Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be serialised as JSON")


def milliseconds(duration: Seconds) -> int:
    """Returns a duration in milliseconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return round(seconds * 1000)


def timestamp(time: datetime) -> str:
    """Returns a time as the API writes it. A time without a zone is local time."""
    utc = time.astimezone(timezone.utc)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03d}Z"
