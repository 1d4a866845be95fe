// Tasks: a kind of execution with the types of its input and result. A task can be named wherever a kind is expected.

/** A kind with the types of its input and result. `client.submit(task, input)` has the type of the result. */
export interface Task<Input, Output> {
  readonly kind: string;
  /** Exists only as a type. */
  readonly types?: (input: Input) => Output;
}

/** Names a kind that another program handles, with its types: `const greet = task<string, string>("greet")`. */
export function task<Input = unknown, Output = unknown>(kind: string): Task<Input, Output> {
  return { kind };
}

/** A kind, by its name or as a task. */
export type Kind = string | { readonly kind: string };

/** Returns the name of a kind. */
export function kindName(kind: Kind): string {
  return typeof kind === "string" ? kind : kind.kind;
}
