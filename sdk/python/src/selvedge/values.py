"""Converts values between Python and JSON.

Inputs and results are JSON. A dataclass or Pydantic model becomes an object, and the annotation of a handler converts
it back. A type that JSON has is taken as it is.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import types as python_types
import typing
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, Union

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


Converter = Callable[[Any], Any]


def converter(annotation: Any) -> Converter | None:
    """Returns the function that converts parsed JSON to this type, or None if JSON already has the type."""
    if annotation is None or annotation is Any or annotation in (str, int, bool, object, dict, list):
        return None
    if _mentions_pydantic(annotation):
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        return adapter.validate_python
    return _plain_converter(annotation)


def _mentions_pydantic(annotation: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return True
    return any(_mentions_pydantic(part) for part in typing.get_args(annotation))


def _plain_converter(annotation: Any) -> Converter | None:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return converter(arguments[0])
    if origin in (Union, python_types.UnionType):
        return _union_converter(arguments)
    if origin is Literal or isinstance(annotation, typing.TypeVar):
        return None
    if origin in (list, set, frozenset, tuple) or annotation in (set, frozenset, tuple):
        return _sequence_converter(origin or annotation, arguments)
    if origin in (dict, Mapping) and len(arguments) == 2:
        values = converter(arguments[1])
        return (lambda found: {key: values(value) for key, value in found.items()}) if values else None
    if not isinstance(annotation, type):
        return None
    if dataclasses.is_dataclass(annotation):
        return _dataclass_converter(annotation)
    if annotation is datetime:
        return lambda found: datetime.fromisoformat(found.replace("Z", "+00:00"))
    if annotation is float:
        return lambda found: float(found) if isinstance(found, int) else found
    if annotation is date:
        return date.fromisoformat
    if issubclass(annotation, (enum.Enum, uuid.UUID, Decimal)):
        return annotation
    return None


def _union_converter(arguments: tuple[Any, ...]) -> Converter | None:
    parts = [part for part in arguments if part is not type(None)]
    converters = [found for found in map(converter, parts) if found]
    if not converters:
        return None

    def convert(value: Any) -> Any:
        if value is None:
            return None
        for attempt in converters:
            try:
                return attempt(value)
            except (TypeError, ValueError, KeyError, AttributeError):
                continue
        if len(converters) < len(parts):
            return value
        raise TypeError(f"{value!r} is none of {parts}")

    return convert


def _sequence_converter(kind: Any, arguments: tuple[Any, ...]) -> Converter | None:
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        parts = [converter(part) or _same for part in arguments]
        return lambda found: tuple(part(value) for part, value in zip(parts, found, strict=True))
    items = converter(arguments[0]) if arguments else None
    if kind is list and not items:
        return None
    return lambda found: kind(map(items, found) if items else found)


def _same(value: Any) -> Any:
    return value


def _dataclass_converter(annotation: type) -> Converter:
    hints = typing.get_type_hints(annotation)
    fields = {field.name: converter(hints[field.name]) for field in dataclasses.fields(annotation) if field.init}

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"{annotation.__name__} needs an object, not {type(value).__name__}")
        unknown = sorted(value.keys() - fields.keys())
        if unknown:
            raise TypeError(f"{annotation.__name__} has no field {unknown[0]!r}")
        converted = {}
        for name, content in value.items():
            convert_field = fields[name]
            converted[name] = convert_field(content) if convert_field else content
        return annotation(**converted)

    return convert
