// OpenTelemetry with its real SDK: the spans of attempts and steps, collected in memory.

import assert from "node:assert/strict";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Delay, Flow, task } from "selvedge";
import { otel } from "selvedge/otel";
import { clockTest, timeoutMs, until } from "./support.js";

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const tracer = trace.getTracer("test");

/** Returns the spans of an execution in the order of their ends, when there are so many. */
async function spansOf(execution: string, count: number) {
  const found = () =>
    exporter.getFinishedSpans().filter(({ attributes }) => attributes["selvedge.execution"] === execution);
  await until(() => found().length >= count);
  return found();
}

clockTest("attempts and steps have spans under that of the submitter", async (bed) => {
  const child = task<null, string>("child");
  const worker = bed.worker();
  // region: otel
  worker.use(otel());
  // endregion: otel
  worker.task("order", async (ctx) => {
    await ctx.step("charge", () => tracer.startActiveSpan("request", (span) => span.end()));
    await ctx.sleep("pause", { days: 1 });
    await ctx.spawn(child, null, { lane: "test" });
    return (await ctx.join("join", child)).child?.result;
  });
  worker.task(child.kind, () => trace.getActiveSpan()?.spanContext().traceId ?? null);
  await worker.start();
  const { run, submitter } = await tracer.startActiveSpan("submit", async (span) => {
    const run = await bed.submit("order");
    span.end();
    return { run, submitter: span.spanContext() };
  });
  await bed.server.advance({ days: 2 });
  assert.equal(await run.result({ timeoutMs }), submitter.traceId);
  const spans = await spansOf(run.id, 4);
  const names = spans.map(({ name, attributes }) => `${name}: ${String(attributes["selvedge.outcome"])}`);
  assert.deepEqual(names, [
    "step charge: undefined",
    "attempt order: suspended",
    "attempt order: suspended",
    "attempt order: completed",
  ]);
  const [step, first] = spans;
  assert.ok(step && first);
  for (const span of spans) {
    assert.equal(span.spanContext().traceId, submitter.traceId);
    assert.equal(span.status.code, SpanStatusCode.OK);
  }
  assert.deepEqual([step.kind, first.kind], [SpanKind.INTERNAL, SpanKind.CONSUMER]);
  assert.equal(step.parentSpanContext?.spanId, first.spanContext().spanId);
  assert.equal(first.parentSpanContext?.spanId, submitter.spanId);
  const request = exporter.getFinishedSpans().find(({ name }) => name === "request");
  assert.equal(request?.parentSpanContext?.spanId, step.spanContext().spanId);
  const expected = {
    "selvedge.kind": "order",
    "selvedge.lane": "test",
    "selvedge.attempt": 0,
    "selvedge.step": "charge",
  };
  assert.deepEqual(step.attributes, { "selvedge.execution": run.id, ...expected, "selvedge.flow": run.id });
});

clockTest("a span says how its attempt or step failed, and that a delay is no failure", async (bed) => {
  const worker = bed.worker();
  worker.use(otel());
  worker.task("fail", (ctx) => ctx.step("charge", () => Promise.reject(new TypeError("no money"))));
  worker.task("delay", (ctx) => {
    if (ctx.attempt === 0) throw new Delay({ milliseconds: 1 });
  });
  await worker.start();
  const failed = await bed.submit("fail", null, { retry: { maxRetries: 0 } });
  assert.equal((await failed.ended({ timeoutMs })).outcome, "failed");
  for (const span of await spansOf(failed.id, 2)) {
    assert.deepEqual(span.status, { code: SpanStatusCode.ERROR, message: "TypeError: no money" });
    assert.equal(span.attributes["selvedge.outcome"], "failed");
    assert.equal(span.events[0]?.attributes?.["exception.type"], "TypeError");
  }
  const delayed = await bed.submit("delay");
  await until(async () => (await delayed.get()).state === "delayed");
  await bed.server.advance({ seconds: 1 });
  await delayed.result({ timeoutMs });
  const outcomes = (await spansOf(delayed.id, 2)).map(({ attributes }) => attributes["selvedge.outcome"]);
  assert.deepEqual(outcomes, ["delayed", "completed"]);
});

clockTest("a submission names its own trace, also that of a flow", async (bed) => {
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const traceparent = `00-${traceId}-b7ad6b7169203331-01`;
  const worker = bed.worker();
  worker.task("trace", (ctx) => ctx.traceparent);
  await worker.start();
  const run = await bed.submit("trace", null, { traceparent });
  assert.equal(await run.result({ timeoutMs }), traceparent);
  const flow = new Flow("traced", { traceparent, defaults: { lane: "test" } }).with("node", "trace");
  const submitted = await bed.client.submitFlow(flow);
  assert.equal(await submitted.node("node").result({ timeoutMs }), traceparent);
});
