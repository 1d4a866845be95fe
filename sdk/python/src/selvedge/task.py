"""A task: a kind of execution with the types of its input and result, and the function that runs it.

A task can be named wherever a kind is expected. `client.submit(greet, "Ada")` then checks the input and has the type of
the result.
"""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from .conversion import REFUSALS, Converter, converter
from .errors import Permanent
from .hints import Unresolved, of_function

P = ParamSpec("P")
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

EMPTY = inspect.Parameter.empty


class Fields(dict[str, Any], Generic[P]):
    """The input of a task with several fields, made by `task.input(…)`."""


class TaskType(Generic[I_contra, O_co]):
    """A kind with the types of its input and result, for programs that do not run it. Made by `task_type`."""

    def __init__(self, kind: str, output: Any = Any) -> None:
        self.kind = kind
        self._convert_output: Converter | None = converter(output)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind}>"


@overload
def task_type(kind: str, *, input: type[I], output: type[O]) -> TaskType[I, O]: ...
@overload
def task_type(kind: str, *, input: type[I]) -> TaskType[I, Any]: ...
@overload
def task_type(kind: str, *, output: type[O]) -> TaskType[None, O]: ...


def task_type(kind: str, *, input: Any = None, output: Any = Any) -> TaskType[Any, Any]:
    """Declares a task that another program runs: `greet = task_type("greet", input=str, output=str)`.

    The program that runs it registers its function with `@worker.task(greet)`, which checks the function against the
    declaration.
    """
    return TaskType(kind, output)


class Task(TaskType[I_contra, O_co]):
    """A decorated function. Calling it calls the function, for example in a unit test."""

    def __init__(self, kind: str, function: Callable[..., Any], batch_max: int | None = None) -> None:
        self._function = function
        self._batch_max = batch_max
        self._is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", kind)
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters:
            raise TypeError(f"the task {kind!r} needs a first parameter for its context: def {self.__name__}(ctx)")
        hints = of_function(function)
        hints.pop(parameters[0].name, None) if batch_max is None else None
        for name, hint in hints.items():
            if isinstance(hint, Unresolved):
                place = "its result" if name == "return" else f"its parameter {name!r}"
                raise TypeError(
                    f"the task {kind!r} cannot convert {place}: the annotation {hint} is not known at run time; import "
                    "the type outside of TYPE_CHECKING and of functions"
                )
        output = hints.get("return", Any)
        if batch_max is not None:
            output = next(iter(typing.get_args(output)), Any)
        super().__init__(kind, output)
        self._convert_item = converter(_item_type(hints)) if batch_max is not None else None
        self._arguments = parameters[1:] if batch_max is None else []
        self._converters = {item.name: converter(hints.get(item.name, Any)) for item in self._arguments}
        self._takes_fields = _takes_fields(kind, self._arguments)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def input(self: Task[Fields[P], Any], *arguments: P.args, **named: P.kwargs) -> Fields[P]:
        """Returns the input for these arguments: `client.submit(resize, resize.input(path="cat.jpg"))`.

        For a task whose keyword-only parameters are the fields of its input.
        """
        bound = inspect.signature(self._function).bind(None, *arguments, **named)
        return Fields({name: bound.arguments[name] for name in bound.arguments if name in self._converters})

    def _bind(self, context: Any, input: Any) -> Callable[[], Any]:
        """Returns the call of the function for this input, converted by the annotations.

        A parameter after the context gets the whole input. Keyword-only parameters get the fields of an object. Raises
        `Permanent` if the input does not fit.
        """
        try:
            return self._bound(context, input)
        except REFUSALS as error:
            raise Permanent(f"the input is not what {self.kind} expects: {error}") from error

    def _bound(self, context: Any, input: Any) -> Callable[[], Any]:
        function = self._function
        if not self._arguments:
            return lambda: function(context)
        if not self._takes_fields:
            (argument,) = self._arguments
            if input is None and argument.default is not EMPTY:
                return lambda: function(context)
            value = self._converted(argument.name, input)
            return lambda: function(context, value)
        if input is None:
            input = {}
        if not isinstance(input, dict):
            raise TypeError(f"it needs an object with its parameters, not {type(input).__name__}")
        values = {name: self._field(name, value) for name, value in input.items()}
        inspect.signature(function).bind(context, **values)
        return lambda: function(context, **values)

    def _field(self, name: str, value: Any) -> Any:
        try:
            return self._converted(name, value)
        except REFUSALS as error:
            raise ValueError(f"{name}: {error}") from error

    def _converted(self, name: str, value: Any) -> Any:
        convert = self._converters.get(name)
        return convert(value) if convert else value

    def _convert_input(self, input: Any) -> Any:
        """Converts the input of an item of a batch, by the annotation `list[Item[T]]`."""
        return self._convert_item(input) if self._convert_item else input


def _takes_fields(kind: str, arguments: list[inspect.Parameter]) -> bool:
    """Returns true if the parameters are the fields of the input, and false if the only one is the input."""
    positional = [item for item in arguments if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    if len(positional) == 1 and len(arguments) == 1:
        return False
    if positional:
        warnings.warn(
            f"the task {kind!r} has several parameters, which are the fields of its input; make them keyword-only: "
            f"(ctx, *, {', '.join(item.name for item in arguments)})",
            DeprecationWarning,
            stacklevel=5,
        )
    return True


def _item_type(hints: dict[str, Any]) -> Any:
    """Returns T of the parameter `list[Item[T]]` of a batch handler."""
    for name, hint in hints.items():
        if name != "return":
            for item in typing.get_args(hint):
                return next(iter(typing.get_args(item)), Any)
    return Any
