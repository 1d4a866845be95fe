"""A submission as a value: for a schedule, or a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from .options import SubmitOptions, submission
from .task import TaskType

if TYPE_CHECKING:
    from typing_extensions import Unpack

I = TypeVar("I")  # noqa: E741


class Submission:
    """A kind, its input and the options of `client.submit`: `Submission(report, "Europe", lane="night")`."""

    @overload
    def __init__(self, kind: TaskType[None, Any], input: None = None, **options: Unpack[SubmitOptions]) -> None: ...
    @overload
    def __init__(self, kind: TaskType[I, Any], input: I, **options: Unpack[SubmitOptions]) -> None: ...
    @overload
    def __init__(self, kind: str, input: Any = None, **options: Unpack[SubmitOptions]) -> None: ...

    def __init__(self, kind: str | TaskType[Any, Any], input: Any = None, **options: Unpack[SubmitOptions]) -> None:
        self._body = {**submission(kind if isinstance(kind, str) else kind.kind, options), "input": input}
        self._convert = None if isinstance(kind, str) else kind._convert_output

    def to_json(self) -> dict[str, Any]:
        """Returns the body of the submission."""
        return dict(self._body)
