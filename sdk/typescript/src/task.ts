// Tasks: a kind of execution with the types of its input and result. A task can be named wherever a kind is expected.

import type { Json } from "./json.js";

declare const types: unique symbol;

/**
 * A kind with the types of its input and result. `client.submit(task, input)` checks the input and has the type of the
 * result.
 */
export interface Task<Input, Output> {
  readonly kind: string;
  readonly [types]?: (input: Input) => Output;
}

/** Names a kind that another program handles, with its types: `const greet = task<string, string>("greet")`. */
export function task<Input = unknown, Output = unknown>(kind: string): Task<Input, Json<Output>> {
  return { kind };
}

/** A kind, by its name or as a task. */
export type Kind = string | Task<never, unknown>;

/** The arguments for an input and options. An input that may be null or undefined may be left out. */
export type InputThen<Input, Options> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : null extends Input
    ? [input?: NoInfer<Input>, options?: Options]
    : [input: NoInfer<Input>, options?: Options];

/** Returns the name of a kind. */
export function kindName(kind: Kind): string {
  return typeof kind === "string" ? kind : kind.kind;
}
