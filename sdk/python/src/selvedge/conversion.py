"""Reads JSON as the type of an annotation: inputs of handlers, results of steps and executions.

A declared type is enforced: a value that does not fit raises `Mismatch`, which names the place. A class that is not
mentioned here is not checked, and its value stays parsed JSON.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import json
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, TypeVar, Union, cast

from .hints import Unresolved, of_class

T = TypeVar("T")
Converter = Callable[[Any], Any]

NoneType = type(None)
SEQUENCES = (
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.MutableSequence,
)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
REFUSALS = (TypeError, ValueError, KeyError, AttributeError)
"""What a conversion raises for a value that does not fit."""


class Mismatch(ValueError):
    """A value does not have the declared type."""


def convert(value: Any, annotation: type[T]) -> T:
    """Returns parsed JSON as a value of this type."""
    found = converter(annotation)
    return cast(T, found(value) if found else value)


def converter(annotation: Any) -> Converter | None:
    """Returns the function that converts and checks parsed JSON, or None if the type accepts every value."""
    if isinstance(annotation, Unresolved):
        raise TypeError(f"the annotation {annotation} is not known at run time")
    if annotation is Any or annotation is object or isinstance(annotation, TypeVar):
        return None
    if annotation is None or annotation is NoneType:
        return None
    if _mentions_pydantic(annotation):
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        return adapter.validate_python
    return _plain(annotation)


def _mentions_pydantic(annotation: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return True
    return any(_mentions_pydantic(part) for part in typing.get_args(annotation))


def _plain(annotation: Any) -> Converter | None:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated or str(origin).endswith((".Required", ".NotRequired", ".ReadOnly")):
        return converter(arguments[0])
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return lambda value: value if value in arguments else _refuse(value, " or ".join(map(repr, arguments)))
    supertype = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if supertype is not None:
        return converter(supertype)
    kind = origin or annotation
    if kind in (list, tuple, *SEQUENCES, *SETS):
        return _sequence(kind, arguments)
    if kind in MAPPINGS:
        return _mapping(arguments)
    return _class(kind) if isinstance(kind, type) else None


def _class(kind: type) -> Converter | None:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if typing.is_typeddict(kind):
        return _typed_dict(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind)
    if issubclass(kind, (enum.Enum, uuid.UUID)):
        return lambda value: _called(kind, value)
    return None


def _refuse(value: Any, expected: str) -> Any:
    shown = repr(value)
    raise Mismatch(f"{shown if len(shown) <= 60 else shown[:57] + '…'} is not {expected}")


def _string(value: Any) -> Any:
    return value if isinstance(value, str) else _refuse(value, "a string")


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else _refuse(value, "an integer")


def _number(value: Any) -> Any:
    return (
        float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _refuse(value, "a number")
    )


def _boolean(value: Any) -> Any:
    return value if isinstance(value, bool) else _refuse(value, "true or false")


def _datetime(value: Any) -> Any:
    return datetime.fromisoformat(_string(value).replace("Z", "+00:00"))


def _date(value: Any) -> Any:
    return date.fromisoformat(_string(value))


def _decimal(value: Any) -> Any:
    try:
        return Decimal(value if isinstance(value, str) else str(_number(value) if isinstance(value, float) else value))
    except InvalidOperation:
        return _refuse(value, "a decimal number")


def _called(kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        return kind(value)
    except REFUSALS:
        return _refuse(value, f"a {kind.__name__}")


_SCALARS: dict[type, Converter] = {
    str: _string,
    int: _integer,
    float: _number,
    bool: _boolean,
    datetime: _datetime,
    date: _date,
    Decimal: _decimal,
}


def _within(place: Any, convert_part: Converter | None, value: Any) -> Any:
    """Converts a part of a value. The error names the place."""
    if convert_part is None:
        return value
    try:
        return convert_part(value)
    except REFUSALS as error:
        raise Mismatch(f"{place}: {error}") from error


def _union(arguments: tuple[Any, ...]) -> Converter | None:
    parts = [part for part in arguments if part is not NoneType]
    converters = [converter(part) for part in parts]
    if None in converters:
        return None
    is_optional = len(parts) < len(arguments)

    def convert_union(value: Any) -> Any:
        if value is None and is_optional:
            return None
        if type(value) in parts and type(value) in (str, int, float, bool):
            return value
        refusals = []
        for attempt in cast("list[Converter]", converters):
            try:
                return attempt(value)
            except REFUSALS as error:
                refusals.append(str(error))
        raise Mismatch("; ".join(dict.fromkeys(refusals)))

    return convert_union


def _sequence(kind: Any, arguments: tuple[Any, ...]) -> Converter:
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return _tuple([converter(part) for part in arguments if part != ()])
    items = converter(arguments[0]) if arguments else None
    build = tuple if kind is tuple else frozenset if kind is frozenset else set if kind in SETS else list

    def convert_sequence(value: Any) -> Any:
        if not isinstance(value, list):
            _refuse(value, "a list")
        return build(_within(number, items, item) for number, item in enumerate(value))

    return convert_sequence


def _tuple(parts: list[Converter | None]) -> Converter:
    def convert_tuple(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(parts):
            _refuse(value, f"a list of {len(parts)}")
        return tuple(_within(number, part, value[number]) for number, part in enumerate(parts))

    return convert_tuple


def _key(convert: Converter) -> Converter:
    """Converts the name of a field: the keys of JSON are strings, also those of numbers."""

    def convert_key(name: str) -> Any:
        try:
            return convert(name)
        except REFUSALS as error:
            try:
                parsed = json.loads(name)
            except ValueError:
                raise error from None
            return convert(parsed)

    return convert_key


def _mapping(arguments: tuple[Any, ...]) -> Converter:
    keys, values = [converter(part) for part in arguments] if arguments else (None, None)
    keys = _key(keys) if keys else None

    def convert_mapping(value: Any) -> Any:
        if not isinstance(value, dict):
            _refuse(value, "an object")
        return {_within(name, keys, name): _within(name, values, content) for name, content in value.items()}

    return convert_mapping


def _fields(value: Any, kind: type, converters: Mapping[str, Converter | None]) -> dict[str, Any]:
    """Returns the fields of an object, converted. A field that has no converter is kept as it is."""
    if not isinstance(value, dict):
        _refuse(value, f"an object with the fields of {kind.__name__}")
    return {name: _within(name, converters.get(name), content) for name, content in value.items()}


_building: dict[type, dict[str, Converter | None]] = {}
"""The converters of the fields of dataclasses and typed dictionaries, which may contain themselves."""


def _field_converters(kind: type, names: Any) -> Mapping[str, Converter | None]:
    if kind not in _building:
        fields = _building[kind] = {}
        hints = of_class(kind)
        for name in names:
            try:
                fields[name] = converter(hints.get(name, Any))
            except TypeError as error:
                del _building[kind]
                raise TypeError(f"the field {name!r} of {kind.__name__}: {error}") from error
    return _building[kind]


def _dataclass(kind: Any) -> Converter:
    fields = _field_converters(kind, [field.name for field in dataclasses.fields(kind) if field.init])

    def convert_dataclass(value: Any) -> Any:
        converted = _fields(value, kind, fields)
        unknown = sorted(converted.keys() - fields.keys())
        if unknown:
            raise Mismatch(f"{kind.__name__} has no field {unknown[0]!r}")
        return kind(**converted)

    return convert_dataclass


def _typed_dict(kind: Any) -> Converter:
    hints = of_class(kind)
    fields = _field_converters(kind, hints)
    # With annotations as text, `__required_keys__` does not know the markers of single fields.
    marked = {name: str(typing.get_origin(hint)).rpartition(".")[2] for name, hint in hints.items()}
    required = {name for name in hints if marked[name] == "Required"}
    required |= {name for name in kind.__required_keys__ if marked[name] != "NotRequired"}

    def convert_typed_dict(value: Any) -> Any:
        converted = _fields(value, kind, fields)
        missing = sorted(required - converted.keys())
        if missing:
            raise Mismatch(f"{kind.__name__} needs the field {missing[0]!r}")
        return converted

    return convert_typed_dict


def _named_tuple(kind: Any) -> Converter:
    fields = _field_converters(kind, kind._fields)
    convert_parts = _tuple([fields[name] for name in kind._fields])
    return lambda value: kind(*convert_parts(value))
