"""The trace that a submission continues. `selvedge.otel.instrument` sets how the current span is found."""

from __future__ import annotations

from collections.abc import Callable

_read: Callable[[], str | None] = lambda: None  # noqa: E731


def read_traceparent_with(read: Callable[[], str | None]) -> None:
    """Sets the function that returns the `traceparent` of the current span."""
    global _read
    _read = read


def headers(traceparent: str | None) -> dict[str, str]:
    """Returns the headers of a submission that continues this trace, or the current one."""
    found = traceparent or _read()
    return {"traceparent": found} if found else {}
