// Schemas, by their shape: Standard Schema (`~standard`), such as zod's, and anything with `parse`.

import type { Task } from "./task.js";

/** A schema that returns the parsed value or throws. */
export interface ParseSchema<Output> {
  parse(value: unknown): Output;
}

/** A schema of the Standard Schema interface. */
export interface StandardSchema<Input, Output> {
  readonly "~standard": {
    validate(value: unknown): StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type StandardResult<Output> =
  { value: Output; issues?: undefined } | { issues: ReadonlyArray<{ readonly message: string }> };

/** A schema of any library with one of these shapes. */
export type Schema<Output = unknown> = ParseSchema<Output> | StandardSchema<unknown, Output>;

type Declared<S> = S extends { readonly "~standard": { readonly types?: infer Types } } ? NonNullable<Types> : never;

/** The type of the values that a schema returns. */
export type SchemaOutput<S> =
  S extends StandardSchema<never, infer Output> ? Output : S extends ParseSchema<infer Output> ? Output : never;

/** The type of the values that a schema accepts: that of its output, unless the schema says another. */
export type SchemaInput<S> = [Declared<S>] extends [{ readonly input: infer Input }]
  ? [Declared<S>] extends [never]
    ? SchemaOutput<S>
    : Input
  : SchemaOutput<S>;

/** The type of a result, given as the task whose result it is, or as a schema that parses it. */
export type ResultType<Output> = Task<never, Output> | Schema<Output>;

/** Parses a value. Throws if it does not fit. */
export async function parseWith<Output>(schema: Schema<Output>, value: unknown): Promise<Output> {
  return parsed(schema, value);
}

/** Returns a result as the type that is given, if any. A task has nothing to check. */
export function typed<Output>(type: ResultType<Output> | undefined, value: unknown): Output | Promise<Output> {
  return type === undefined || "kind" in type ? (value as Output) : parsed(type, value);
}

function parsed<Output>(schema: Schema<Output>, value: unknown): Output | Promise<Output> {
  if (!("~standard" in schema)) return schema.parse(value);
  const result = schema["~standard"].validate(value);
  return result instanceof Promise ? result.then(valueOf) : valueOf(result);
}

function valueOf<Output>(result: StandardResult<Output>): Output {
  if (result.issues) throw new Error(result.issues.map((issue) => issue.message).join("; "));
  return result.value;
}
