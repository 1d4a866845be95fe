"""OpenTelemetry: a span for each attempt and each step that runs, under the span of the submitter.

    worker.use(selvedge.otel.otel())

Needs the extra `selvedge-sdk[otel]`. Nothing is recorded before the program sets a provider of traces.
"""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .errors import Cancelled, Delay, Release, Suspended, headline
from .tracing import read_traceparent_with
from .worker.context import Context
from .worker.middleware import Middleware, Next

__all__ = ["instrument", "otel"]

_TRACE_CONTEXT = TraceContextTextMapPropagator()


def instrument() -> None:
    """Lets all clients of the process submit under the current span. `otel` does so, too."""
    read_traceparent_with(_current)


def otel(tracer_provider: TracerProvider | None = None) -> Middleware:
    """Returns middleware that makes the spans `attempt KIND` and `step NAME`. A suspension, a delay and a release end
    the span of the attempt without an error. A recorded step makes no span. Default: the global provider."""
    instrument()
    return _Spans(trace.get_tracer("selvedge", tracer_provider=tracer_provider))


def _current() -> str | None:
    carrier: dict[str, str] = {}
    _TRACE_CONTEXT.inject(carrier)
    return carrier.get("traceparent")


class _Spans(Middleware):
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    async def attempt(self, ctx: Context[Any], call_next: Next, /) -> Any:
        parent = _TRACE_CONTEXT.extract({"traceparent": ctx.traceparent}) if ctx.traceparent else None
        span = self._tracer.start_span(
            f"attempt {ctx.kind}", context=parent, kind=SpanKind.CONSUMER, attributes=_attributes(ctx)
        )
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                value = await call_next()
            except BaseException as error:
                _end(span, _outcome(ctx, error), error)
                raise
            span.set_attribute("selvedge.outcome", "completed")
            span.set_status(Status(StatusCode.OK))
            return value

    async def step(self, ctx: Context[Any], name: str, call_next: Next, /) -> Any:
        attributes = {**_attributes(ctx), "selvedge.step": name}
        span = self._tracer.start_span(f"step {name}", kind=SpanKind.INTERNAL, attributes=attributes)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                value = await call_next()
            except Exception as error:
                _end(span, "failed", error)
                raise
            span.set_status(Status(StatusCode.OK))
            return value


def _attributes(ctx: Context[Any]) -> dict[str, str | int]:
    """The attributes of all spans. The server gives those of the same names to its own."""
    found: dict[str, str | int | None] = {
        "selvedge.execution": ctx.execution_id,
        "selvedge.kind": ctx.kind,
        "selvedge.lane": ctx.lane,
        "selvedge.attempt": ctx.attempt,
        "selvedge.flow": ctx.flow_id,
        "selvedge.node": ctx.node,
    }
    return {name: value for name, value in found.items() if value is not None}


def _outcome(ctx: Context[Any], error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError) and ctx._attempt.cancel_requested:
        return "cancelled"
    for kind, outcome in (
        (Suspended, "suspended"),
        (Delay, "delayed"),
        (Release, "released"),
        (Cancelled, "cancelled"),
    ):
        if isinstance(error, kind):
            return outcome
    return "failed" if isinstance(error, Exception) else "aborted"


def _end(span: Span, outcome: str, error: BaseException) -> None:
    span.set_attribute("selvedge.outcome", outcome)
    if outcome in ("failed", "aborted"):
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, headline(error)))
    else:
        span.set_status(Status(StatusCode.OK))
