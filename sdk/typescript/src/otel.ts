// OpenTelemetry: a span for each attempt and each step that runs, under the span of the submitter.
//
// Needs the package `@opentelemetry/api`. Nothing is recorded before the program registers a provider of traces, and a
// context manager, which makes the span of a handler the parent of spans in it.

import {
  type Attributes,
  type Context as TraceContext,
  context,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
} from "@opentelemetry/api";
import { AttemptOver, Delay, Release, Suspended } from "./errors.js";
import { readTraceparentWith } from "./traceparent.js";
import type { Context } from "./worker/context.js";
import { messageOf } from "./worker/json.js";
import type { Middleware } from "./worker/middleware.js";

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/;

/** Lets all clients of the process submit under the current span. `otel` does so, too. */
export function instrument(): void {
  readTraceparentWith(() => {
    const span = trace.getSpanContext(context.active());
    return span && trace.isSpanContextValid(span) ? written(span) : undefined;
  });
}

/**
 * Returns middleware that makes the spans `attempt KIND` and `step NAME`: `worker.use(otel())`. A suspension, a delay and a
 * release end the span of the attempt without an error. A recorded step makes no span.
 */
export function otel(): Middleware {
  instrument();
  const tracer = trace.getTracer("selvedge");
  const attempts = new Map<string, TraceContext>();
  return {
    async attempt(ctx, next) {
      const name = `attempt ${ctx.kind}`;
      const options = { kind: SpanKind.CONSUMER, attributes: attributesOf(ctx) };
      const span = tracer.startSpan(name, options, submitter(ctx.traceparent));
      const within = trace.setSpan(context.active(), span);
      attempts.set(keyOf(ctx), within);
      try {
        const value = await context.with(within, next);
        endWell(span, "completed");
        return value;
      } catch (error) {
        const outcome = ctx.cancelled ? "cancelled" : outcomeOf(error);
        if (outcome === "failed" || outcome === "aborted") endBadly(span, outcome, error);
        else endWell(span, outcome);
        throw error;
      } finally {
        attempts.delete(keyOf(ctx));
        span.end();
      }
    },
    async step(ctx, name, next) {
      const active = context.active();
      // Without a context manager, and in batch handlers, there is no active span.
      const parent = trace.getSpan(active) ? active : (attempts.get(keyOf(ctx)) ?? active);
      const attributes = { ...attributesOf(ctx), "selvedge.step": name };
      const span = tracer.startSpan(`step ${name}`, { kind: SpanKind.INTERNAL, attributes }, parent);
      try {
        const value = await context.with(trace.setSpan(parent, span), next);
        span.setStatus({ code: SpanStatusCode.OK });
        return value;
      } catch (error) {
        if (outcomeOf(error) === "failed") endBadly(span, "failed", error);
        throw error;
      } finally {
        span.end();
      }
    },
  };
}

/** The attributes of all spans. The server gives those of the same names to its own. */
function attributesOf(ctx: Context): Attributes {
  return {
    "selvedge.execution": ctx.executionId,
    "selvedge.kind": ctx.kind,
    "selvedge.lane": ctx.lane,
    "selvedge.attempt": ctx.attempt,
    ...(ctx.flowId === null ? {} : { "selvedge.flow": ctx.flowId }),
    ...(ctx.node === null ? {} : { "selvedge.node": ctx.node }),
  };
}

function keyOf(ctx: Context): string {
  return `${ctx.executionId}/${ctx.attempt}`;
}

function outcomeOf(error: unknown): string {
  if (error instanceof Suspended) return "suspended";
  if (error instanceof Delay) return "delayed";
  if (error instanceof Release) return "released";
  return error instanceof AttemptOver ? "aborted" : "failed";
}

function endWell(span: Span, outcome: string): void {
  span.setAttribute("selvedge.outcome", outcome);
  span.setStatus({ code: SpanStatusCode.OK });
}

function endBadly(span: Span, outcome: string, error: unknown): void {
  span.setAttribute("selvedge.outcome", outcome);
  span.recordException(error instanceof Error ? error : messageOf(error));
  span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) });
}

/** Returns the context of the span that a claim names, or the current one. */
function submitter(traceparent: string | null): TraceContext {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined) return context.active();
  const traceFlags = Number.parseInt(flags ?? "0", 16) & TraceFlags.SAMPLED;
  return trace.setSpanContext(context.active(), { traceId, spanId, traceFlags, isRemote: true });
}

function written({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}
