"""A task: a kind of execution and the function that runs it.

A task can be named wherever a kind is expected. `client.submit(greet, "Ada")` then has the type of its result.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .errors import Permanent
from .values import Converter, converter

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


class Task(Generic[I_contra, O_co]):
    """A decorated function. Calling it calls the function, for example in a unit test."""

    def __init__(self, kind: str, function: Callable[..., Any], batch_max: int | None = None) -> None:
        self.kind = kind
        self.function = function
        self.batch_max = batch_max
        self.is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", kind)
        hints = _hints(function)
        self._arguments = [] if batch_max is not None else list(inspect.signature(function).parameters.values())[1:]
        self._converters = {name: converter(hints.get(name)) for name in (item.name for item in self._arguments)}
        output = hints.get("return")
        if batch_max is not None:
            output = next(iter(typing.get_args(output)), None)
        self.convert_output: Converter | None = converter(output)
        """Converts the result of one execution."""
        self._convert_item = converter(_item_type(hints)) if batch_max is not None else None
        self._check()

    def _check(self) -> None:
        if self.batch_max is None and not inspect.signature(self.function).parameters:
            raise TypeError(f"the task {self.kind!r} needs a first parameter for its context: def {self.__name__}(ctx)")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def bind(self, context: Any, input: Any) -> Callable[[], Any]:
        """Returns the call of the function for this input, converted by the annotations.

        A function with one parameter after the context gets the whole input. A function with several gets the fields of
        an object. Raises `Permanent` if the input does not fit.
        """
        try:
            return self._bind(context, input)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise Permanent(f"the input is not what {self.kind} expects: {error}") from error

    def _bind(self, context: Any, input: Any) -> Callable[[], Any]:
        function = self.function
        if not self._arguments:
            return lambda: function(context)
        if len(self._arguments) == 1 and self._arguments[0].kind is not inspect.Parameter.VAR_KEYWORD:
            (argument,) = self._arguments
            if input is None and argument.default is not inspect.Parameter.empty:
                return lambda: function(context)
            convert = self._converters[argument.name]
            value = convert(input) if convert else input
            if argument.kind is inspect.Parameter.KEYWORD_ONLY:
                return lambda: function(context, **{argument.name: value})
            return lambda: function(context, value)
        if not isinstance(input, dict):
            raise TypeError(f"it needs an object with its parameters, not {type(input).__name__}")
        values = {name: self._convert(name, value) for name, value in input.items()}
        inspect.signature(function).bind(context, **values)
        return lambda: function(context, **values)

    def convert_input(self, input: Any) -> Any:
        """Converts the input of an item of a batch, by the annotation `list[Item[T]]`."""
        return self._convert_item(input) if self._convert_item else input

    def _convert(self, name: str, value: Any) -> Any:
        convert = self._converters.get(name)
        return convert(value) if convert else value


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the annotations. One that names something unknown at run time is left out."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return {}


def _item_type(hints: dict[str, Any]) -> Any:
    """Returns T of the parameter `list[Item[T]]` of a batch handler."""
    for name, hint in hints.items():
        if name != "return":
            for item in typing.get_args(hint):
                return next(iter(typing.get_args(item)), None)
    return None
