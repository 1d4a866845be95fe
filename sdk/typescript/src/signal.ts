// Typed signals: declared once, imported by the handler that waits and by the program that sends.

import type { Json } from "./json.js";
import type { Schema, SchemaInput, SchemaOutput } from "./schema.js";

declare const types: unique symbol;

/** The name of a signal with the types of its payload, as it is sent and as it is received. */
export interface SignalType<Sent, Received> {
  readonly name: string;
  /** Parses the payload for the handler that waits. One that does not fit is a permanent failure. */
  readonly schema?: Schema<Received>;
  readonly [types]?: (payload: Sent) => Received;
}

/** Declares a signal: `const paid = signal<Payment>("paid")`. */
export function signal<Payload = unknown>(name: string): SignalType<Payload, Json<Payload>>;
export function signal<S extends Schema>(
  name: string,
  options: { schema: S },
): SignalType<SchemaInput<S>, SchemaOutput<S>>;
export function signal<Payload>(name: string, options: { schema: Schema<Payload> }): SignalType<Payload, Payload>;
export function signal(name: string, options: { schema?: Schema } = {}): SignalType<never, unknown> {
  return { name, ...options };
}

/** Returns the name of a signal. */
export function signalName(signal: string | SignalType<never, unknown>): string {
  return typeof signal === "string" ? signal : signal.name;
}
