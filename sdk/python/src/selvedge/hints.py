"""Resolves the annotations of functions and classes, each by itself.

With `from __future__ import annotations` an annotation is text, and `typing.get_type_hints` fails for a whole function
if one name is known to the type checker only. Here an annotation that cannot be resolved leaves the others intact.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unresolved:
    """An annotation that names something unknown at run time."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.text!r} ({self.reason})"


def of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the types of the parameters and, under `return`, of the result, if they are annotated."""
    return _of_function(function, None)


def of_result(function: Callable[..., Any]) -> Any:
    """Returns the type of a function's result: Any if it is not annotated."""
    return _of_function(function, "return").get("return", Any)


def _of_function(function: Callable[..., Any], only: str | None) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, type):
        return {"return": function}
    if not hasattr(function, "__code__") and not inspect.ismethod(function):
        call = vars(type(function)).get("__call__")
        if call is not None and hasattr(call, "__code__"):
            function = call
    function = getattr(function, "__func__", function)
    cells = zip(getattr(getattr(function, "__code__", None), "co_freevars", ()), _closure(function), strict=False)
    return _resolve_all(function, getattr(function, "__globals__", {}), dict(cells), only)


def of_class(found: type) -> dict[str, Any]:
    """Returns the types of the fields of a class and of its bases."""
    resolved: dict[str, Any] = {}
    for base in reversed(found.__mro__):
        module = sys.modules.get(base.__module__)
        # The names of the module come first: a field may have the name of its type.
        resolved.update(_resolve_all(base, dict(vars(base)), vars(module) if module else {}))
    return resolved


def _closure(function: Any) -> list[Any]:
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # the variable has no value yet
            found.append(None)
    return found


def _resolve_all(owner: Any, names: dict[str, Any], local: dict[str, Any], only: str | None = None) -> dict[str, Any]:
    found = _raw(owner)
    chosen = found if only is None else found.keys() & {only}
    return {name: _resolve(found[name], names, local) for name in chosen}


def _raw(owner: Any) -> dict[str, Any]:
    """Returns the annotations as they were written."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
    try:
        return inspect.get_annotations(owner)
    except TypeError:
        return {}


def _resolve(annotation: Any, names: dict[str, Any], local: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, local, include_extras=True)["it"]
    except Exception as error:  # an annotation is any expression
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", repr(annotation))
        return Unresolved(text, str(error))
