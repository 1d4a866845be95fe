"""Spans of attempts and steps, with the tracing SDK of OpenTelemetry in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from selvedge import Client, Context, Delay, Flow, NotCompleted, Submission, SyncContext, Worker, tracing
from selvedge.otel import instrument, otel

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def bank(cents: int) -> int:
    return cents


class Spans:
    """A provider of traces, and the spans that have ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Iterator[Spans]:
    yield Spans()
    tracing.read_traceparent_with(lambda: None)


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


async def test_attempts_and_steps_are_spans_under_the_submitter(
    client: Client, worker: Worker, lane: str, spans: Spans
) -> None:
    worker.use(otel(spans.provider))

    @worker.task("charge")
    async def charge(ctx: Context, cents: int) -> int:
        charged = await ctx.step("bank", bank, cents)
        await ctx.sleep("pause", 0.01)
        await ctx.step("mail", lambda: trace.get_current_span().set_attribute("mailed", True))
        if ctx.attempt == 1:
            raise Delay(0.01)
        return charged

    async with worker:
        run = await client.submit(charge, 990, lane=lane, traceparent=PARENT)
        assert await run.result(timeout=20) == 990

    flow = (await run.get())["flow_id"]
    attempts = spans.named("attempt charge")
    outcomes = [span.attributes["selvedge.outcome"] for span in attempts if span.attributes]
    assert outcomes == ["suspended", "delayed", "completed"]
    for number, span in enumerate(attempts):
        assert span.kind == SpanKind.CONSUMER
        assert span.status.status_code == StatusCode.OK
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert span.parent is not None
        assert dict(span.attributes or {}) == {
            "selvedge.execution": run.id,
            "selvedge.kind": "charge",
            "selvedge.lane": lane,
            "selvedge.attempt": number,
            "selvedge.flow": flow,
            "selvedge.outcome": outcomes[number],
        }
    (paid,), (mail,) = spans.named("step bank"), spans.named("step mail")
    for step, attempt in ((paid, attempts[0]), (mail, attempts[1])):
        assert step.parent is not None
        assert step.parent.span_id == id_of(attempt)
        assert step.kind == SpanKind.INTERNAL
        assert (step.attributes or {})["selvedge.step"] == step.name.removeprefix("step ")
    assert (mail.attributes or {})["mailed"] is True, "the span of a step is the current one, also in its thread"


async def test_a_failure_is_recorded_on_the_spans(client: Client, worker: Worker, lane: str, spans: Spans) -> None:
    worker.use(otel(spans.provider))

    def fail() -> None:
        raise KeyError("card")

    @worker.task("fail")
    def failing(ctx: SyncContext) -> None:
        ctx.step("bank", fail)

    async with worker:
        run = await client.submit(failing, lane=lane, retry=0)
        with pytest.raises(NotCompleted):
            await run.result(timeout=20)
    for name in ("attempt fail", "step bank"):
        (span,) = spans.named(name)
        assert span.status.status_code == StatusCode.ERROR
        assert span.status.description == "KeyError: 'card'"
        assert [event.name for event in span.events] == ["exception"]
        assert (span.attributes or {})["selvedge.outcome"] == "failed"


async def test_submissions_carry_the_current_span(client: Client, worker: Worker, lane: str, spans: Spans) -> None:
    found: dict[str, Any] = {}

    @worker.task("trace")
    async def traced(ctx: Context, name: str) -> None:
        found[name] = ctx.traceparent

    instrument()
    tracer = spans.provider.get_tracer("test")
    async with worker:
        with tracer.start_as_current_span("request") as span:
            runs = [await client.submit(traced, "one", lane=lane)]
            (batched,) = await client.submit_batch([Submission(traced, "batch", lane=lane)])
            flow = Flow("traced", defaults={"lane": lane})
            flow.add("node", traced, "flow")
            submitted = await client.submit_flow(flow)
        runs.append(await client.submit(traced, "alone", lane=lane))
        assert not isinstance(batched, Exception)
        for run in (*runs, batched, submitted.node("node")):
            await run.result(timeout=20)
    expected = f"{span.get_span_context().trace_id:032x}"
    for name in ("one", "batch", "flow"):
        assert found[name].split("-")[1] == expected
    assert found["alone"] is None or expected not in found["alone"]
